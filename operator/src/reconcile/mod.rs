//! From one policy to what must be there for it, in five steps.
//!
//! ```text
//! validate -> fetch -> render -> apply -> status
//! ```
//! Each step is a file with its own error. The last one always runs and says what the others did; of an object that
//! does not validate nothing changes but who owns what: its pods come and go all the same.
//!
//! Who owns what must not wait for anything else: once there is a table the live object is written first, Secrets are looked
//! for at the same time, and its timers run on after a failure. While its table is not the one that it must be, it is tried
//! again every few seconds.

mod apply;
mod fetch;
mod keep;
mod membership;
mod prune;
mod replicas;
mod status;
mod undecodable;

use std::sync::Arc;
use std::time::Duration;

use jevmetrics_api::policy::{JevMetricsPolicy, PolicyError, ValidPolicy};
use jevmetrics_api::routing::TableError;
use kube::runtime::controller::Action;
use kube::{Resource as _, ResourceExt as _};

pub use self::apply::ApplyError;
use self::fetch::Live;
pub use self::fetch::{FetchError, LiveError, MissingSecret};
pub use self::membership::Decided;
use self::membership::{Subject, UNTIL_PUBLISHED};
use crate::backoff::with_jitter;
use crate::context::Context;
use crate::events::Happening;
use crate::generation::{Remembered, generation};
use crate::kinds::Kind;
use crate::memory::{Memory, version};
use crate::observed::Guarded;
use crate::render::{Manifest, render};

/// A look at everything although nothing has changed: for events that were missed.
const LOOK_AGAIN: Duration = Duration::from_mins(10);
/// A missing Secret cannot be watched: it is looked for.
const LOOK_FOR_SECRETS: Duration = Duration::from_secs(15);

/// Why a reconcile is tried again.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// Looking for Secrets failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The live object could not be looked at: which generation its budget has is not known.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// Names or epochs cannot be in a table.
    #[error("failed to make a routing table: {0}")]
    Table(#[from] TableError),
    /// An object could not be applied.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// What is not wanted any more could not be deleted.
    #[error("failed to delete what is not wanted any more: {0}")]
    Prune(#[source] kube::Error),
    /// The status could not be written.
    #[error("failed to write the status: {0}")]
    Status(#[source] kube::Error),
}

/// A reconcile that is tried again.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct Failed {
    /// Why.
    cause: ReconcileError,
    /// When it is to run whatever has failed: time alone changes members.
    look_again: Option<Duration>,
}

impl Failed {
    /// When to try again: after `backoff`, and earlier if time has done something until then.
    pub fn wait(&self, backoff: Duration) -> Duration {
        self.look_again.map_or(backoff, |wait| wait.min(backoff))
    }
}

impl From<ReconcileError> for Failed {
    fn from(cause: ReconcileError) -> Self {
        Self {
            cause,
            look_again: None,
        }
    }
}

/// What the steps before the status came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The policy breaks rules.
    pub invalid: Option<PolicyError>,
    /// Secrets or keys that are not there.
    pub missing: Vec<MissingSecret>,
    /// Whether Secrets are there could not be found out.
    pub unchecked: Option<FetchError>,
    /// The generation of the budget in the live object, if that is as it must be; 0 if none is counted.
    pub generation: Option<u32>,
    /// Who owns what, if that is in the live object.
    pub membership: Option<Decided>,
    /// When to look at members again, whatever became of the rest.
    pub look_again: Option<Duration>,
    /// What failed.
    pub failure: Option<ReconcileError>,
}

/// Brings about what `object` wants.
///
/// # Guarantees
/// Nothing is written if everything is as it must be. The status is written also after an error.
///
/// # Errors
/// [`Failed`]: to be tried again.
pub async fn reconcile(object: Arc<Guarded>, context: Arc<Context>) -> Result<Action, Failed> {
    let policy = match &object.0 {
        Ok(policy) => policy,
        Err(invalid) => return undecodable::report(invalid, &context).await,
    };
    if policy.meta().deletion_timestamp.is_some() {
        // Garbage collection takes what it owns; building anew would hold it up.
        return Ok(Action::await_change());
    }
    let memory = context.memories.of(&policy.uid().unwrap_or_default());
    let mut memory = memory.lock().await;
    if memory.is_namespace_going() {
        return Ok(Action::await_change());
    }
    let (valid, outcome) = bring_about(policy, &context, &mut memory).await;
    if let Some(ReconcileError::Apply(ApplyError::NamespaceGoing(..))) = outcome.failure {
        // It goes with all that is in it and never comes back. There is nobody to tell.
        memory.namespace_goes();
        return Ok(Action::await_change());
    }
    let written = status::write(policy, valid.as_ref(), &outcome, &context, &mut memory).await;
    let postponed = written.as_ref().ok().copied().flatten();
    let soonest = [outcome.look_again, postponed].into_iter().flatten().min();
    let failure = outcome
        .failure
        .or_else(|| written.err())
        .or_else(|| outcome.unchecked.map(Into::into));
    if let Some(cause) = failure {
        return Err(Failed {
            cause,
            look_again: soonest,
        });
    }
    let wait = if outcome.missing.is_empty() {
        LOOK_AGAIN
    } else {
        LOOK_FOR_SECRETS
    };
    let wait = with_jitter(wait, fastrand::f64());
    Ok(Action::requeue(soonest.map_or(wait, |soonest| soonest.min(wait))))
}

async fn bring_about(
    policy: &JevMetricsPolicy,
    context: &Context,
    memory: &mut Memory,
) -> (Option<ValidPolicy>, Outcome) {
    let mut outcome = Outcome::default();
    let valid = match ValidPolicy::try_from(policy) {
        Ok(valid) => valid,
        Err(error) => {
            outcome.invalid = Some(error);
            match keep_members(policy, context, memory, &mut outcome.look_again).await {
                Ok(membership) => outcome.membership = membership,
                Err(error) => outcome.failure = Some(error),
            }
            return (None, outcome);
        }
    };
    let (missing, applied) = tokio::join!(
        fetch::missing_secrets(&valid, &context.client),
        apply_and_prune(policy, &valid, context, memory, &mut outcome),
    );
    match missing {
        Ok(missing) => outcome.missing = missing,
        // Not knowing whether a Secret is there is no reason to hold up the rest.
        Err(error) => outcome.unchecked = Some(error),
    }
    if let Err(error) = applied {
        outcome.failure = Some(error);
    }
    (Some(valid), outcome)
}

async fn keep_members(
    policy: &JevMetricsPolicy,
    context: &Context,
    memory: &mut Memory,
    look_again: &mut Option<Duration>,
) -> Result<Option<Decided>, ReconcileError> {
    let subject = Subject {
        namespace: &policy.namespace().unwrap_or_default(),
        name: &policy.name_any(),
        uid: &policy.uid().unwrap_or_default(),
        in_status: membership::epoch_in_status(policy, memory),
    };
    keep::keep(&subject, context, memory, look_again).await
}

async fn apply_and_prune(
    policy: &JevMetricsPolicy,
    valid: &ValidPolicy,
    context: &Context,
    memory: &mut Memory,
    outcome: &mut Outcome,
) -> Result<(), ReconcileError> {
    outcome.look_again = Some(UNTIL_PUBLISHED);
    let live = fetch::live(valid.namespace(), valid.live_name(), &context.client).await?;
    let generation = budget_generation(policy, valid, &live, context, memory);
    let subject = Subject {
        namespace: valid.namespace(),
        name: valid.name(),
        uid: valid.uid(),
        in_status: membership::epoch_in_status(policy, memory),
    };
    let desired = membership::desired(valid, context, memory);
    let decided = membership::decide(&subject, &desired, &live, context);
    outcome.look_again = decided
        .as_ref()
        .ok()
        .and_then(|decided| decided.look_again_at(&live));
    // Without a decision the table stays as it is, and all else is done.
    let table = decided
        .as_ref()
        .map_or(live.routing.as_ref(), |decided| decided.table.as_ref());
    let manifests = render(valid, &context.defaults, generation)
        .with_routing(table)
        .manifests()
        .map_err(ApplyError::Render)?;
    let is_live =
        |manifest: &Manifest| manifest.kind == Kind::ConfigMap && manifest.name == valid.live_name();
    // Only a table has pods that read it already, and that of a pod that stops cannot wait.
    let first = manifests.iter().position(is_live).filter(|_| table.is_some());
    let mut failed: Option<(usize, ApplyError)> = None;
    for place in order(manifests.len(), first) {
        // Whatever needs an object has a place after it.
        if failed.as_ref().is_some_and(|(failed, _)| *failed < place) {
            continue;
        }
        let manifest = &manifests[place];
        let is_live = is_live(manifest);
        let basis = Some(&live).filter(|_| is_live);
        let repaired = match apply::apply(valid, manifest, basis, context, memory).await {
            Ok(repaired) => repaired,
            Err(error @ ApplyError::NamespaceGoing(..)) => return Err(error.into()),
            Err(error) => {
                failed = Some((place, error));
                continue;
            }
        };
        if is_live {
            outcome.generation = Some(generation);
            if let Ok(decided) = &decided {
                membership::published(&subject, decided, context);
                outcome.look_again = decided.look_again;
                outcome.membership = Some(decided.clone());
            }
        }
        if let Some(repair) = repaired {
            context
                .events
                .publish(policy, &Happening::repaired(manifest, repair))
                .await;
        }
    }
    if let Some((_, error)) = failed {
        return Err(error.into());
    }
    prune::prune(valid, &manifests, context, memory)
        .await
        .map_err(ReconcileError::Prune)?;
    decided?;
    Ok(())
}

/// All places below `count` in the order of applying: their own, but for one that cannot wait for others.
fn order(count: usize, first: Option<usize>) -> impl Iterator<Item = usize> {
    let others = (0..count).filter(move |&place| Some(place) != first);
    first.into_iter().chain(others)
}

/// The generation of the shared budget; 0 where none is counted.
fn budget_generation(
    policy: &JevMetricsPolicy,
    valid: &ValidPolicy,
    live: &Live,
    context: &Context,
    memory: &Memory,
) -> u32 {
    let Some(sharing) = valid.sharing().filter(|sharing| sharing.counts()) else {
        return 0;
    };
    let status = memory.status(version(policy), policy.status.as_ref());
    let counted = status.and_then(|status| status.coordination.as_ref()?.generation);
    let told = context.health.of(valid.uid()).generations.unwrap_or_default();
    let remembered = Remembered {
        live: live.budget,
        status: counted
            .and_then(|generation| generation.try_into().ok())
            .unwrap_or(0),
        pods: told.get(sharing.namespace()).copied().unwrap_or(0),
    };
    generation(sharing, &remembered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_applied_in_their_order_but_for_the_one_that_cannot_wait() {
        let order = |first| order(4, first).collect::<Vec<_>>();
        assert_eq!(order(None), [0, 1, 2, 3]);
        assert_eq!(order(Some(2)), [2, 0, 1, 3]);
        assert_eq!(order(Some(0)), [0, 1, 2, 3]);
    }

    #[test]
    fn a_failure_does_not_stop_the_clock_of_members() {
        let failed = |look_again| Failed {
            cause: TableError::Epoch(0).into(),
            look_again,
        };
        let (second, long) = (Duration::from_secs(1), Duration::from_mins(5));
        assert_eq!(failed(None).wait(long), long);
        assert_eq!(failed(Some(second)).wait(long), second);
        assert_eq!(failed(Some(long)).wait(second), second);
    }
}
