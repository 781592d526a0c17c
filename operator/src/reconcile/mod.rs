//! From one policy to what must be there for it, in five steps.
//!
//! ```text
//! validate -> fetch -> render -> apply -> status
//! ```
//! Each step is a file with its own error. The last one always runs and says what the others did; an object that
//! does not validate changes nothing else.

mod apply;
mod fetch;
mod prune;
mod replicas;
mod status;
mod undecodable;

use std::sync::Arc;
use std::time::Duration;

use jevmetrics_api::policy::{JevMetricsPolicy, PolicyError, ValidPolicy};
use kube::runtime::controller::Action;
use kube::{Resource as _, ResourceExt as _};

pub use self::apply::ApplyError;
use self::fetch::Live;
pub use self::fetch::{FetchError, LiveError, MissingSecret};
use crate::backoff::with_jitter;
use crate::context::Context;
use crate::events::Happening;
use crate::generation::{Remembered, generation};
use crate::kinds::Kind;
use crate::memory::{Memory, version};
use crate::observed::Guarded;
use crate::render::render;

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
    /// What failed.
    pub failure: Option<ReconcileError>,
}

/// Brings about what `object` wants.
///
/// # Guarantees
/// Nothing is written if everything is as it must be. The status is written also after an error.
///
/// # Errors
/// Any [`ReconcileError`]: to be tried again.
pub async fn reconcile(object: Arc<Guarded>, context: Arc<Context>) -> Result<Action, ReconcileError> {
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
    if let Some(failure) = outcome.failure {
        return Err(failure);
    }
    written?;
    if let Some(unchecked) = outcome.unchecked {
        return Err(unchecked.into());
    }
    let wait = if outcome.missing.is_empty() {
        LOOK_AGAIN
    } else {
        LOOK_FOR_SECRETS
    };
    Ok(Action::requeue(with_jitter(wait, fastrand::f64())))
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
            return (None, outcome);
        }
    };
    match fetch::missing_secrets(&valid, &context.client).await {
        Ok(missing) => outcome.missing = missing,
        // Not knowing whether a Secret is there is no reason to hold up the rest.
        Err(error) => outcome.unchecked = Some(error),
    }
    if let Err(error) = apply_and_prune(policy, &valid, context, memory, &mut outcome).await {
        outcome.failure = Some(error);
    }
    (Some(valid), outcome)
}

async fn apply_and_prune(
    policy: &JevMetricsPolicy,
    valid: &ValidPolicy,
    context: &Context,
    memory: &mut Memory,
    outcome: &mut Outcome,
) -> Result<(), ReconcileError> {
    let budget = budget(policy, valid, context, memory).await?;
    let generation = budget.as_ref().map_or(0, |(generation, _)| *generation);
    let manifests = render(valid, &context.defaults, generation)
        .manifests()
        .map_err(ApplyError::Render)?;
    for manifest in &manifests {
        let is_live = manifest.kind == Kind::ConfigMap && manifest.name == valid.live_name();
        let basis = budget.as_ref().filter(|_| is_live).map(|(_, live)| live);
        let repaired = apply::apply(valid, manifest, basis, context, memory).await?;
        if is_live {
            outcome.generation = Some(generation);
        }
        if let Some(repair) = repaired {
            context
                .events
                .publish(policy, &Happening::repaired(manifest, repair))
                .await;
        }
    }
    prune::prune(valid, &manifests, context, memory)
        .await
        .map_err(ReconcileError::Prune)
}

/// The generation of the shared budget, and the live object that it follows from; none where none is counted.
async fn budget(
    policy: &JevMetricsPolicy,
    valid: &ValidPolicy,
    context: &Context,
    memory: &Memory,
) -> Result<Option<(u32, Live)>, LiveError> {
    let Some(sharing) = valid.sharing().filter(|sharing| sharing.counts()) else {
        return Ok(None);
    };
    let live = fetch::live(valid, &context.client).await?;
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
    Ok(Some((generation(sharing, &remembered), live)))
}
