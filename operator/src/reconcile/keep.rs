//! Who owns what while the policy does not hold or cannot be read: what runs for it goes on, and its pods come and go.
//!
//! The table in the live object says what it is for, so it is enough to go on from: its header stays, and patience is that
//! of a policy that says nothing of it. Of the live object nothing but the table is written; where none can be read there
//! is nothing to go on from.

use std::time::Duration;

use jevmetrics_api::policy::live_name;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::ReconcileError;
use super::apply::{FIELD_MANAGER, as_apply_error};
use super::fetch::{self, Live};
use super::membership::{self, Decided, Subject, UNTIL_PUBLISHED};
use crate::assess::Workload;
use crate::context::Context;
use crate::kinds::Kind;
use crate::membership::{Desired, Rules};
use crate::memory::Memory;
use crate::metrics::Applied;
use crate::render::{ROUTING_KEY, workload_name};

/// Decides who owns what, and publishes it. `None` if there is no table of this policy. `look_again` is when time alone may
/// change members, or a table that was not published is to be tried again.
pub(super) async fn keep(
    subject: &Subject<'_>,
    context: &Context,
    memory: &mut Memory,
    look_again: &mut Option<Duration>,
) -> Result<Option<Decided>, ReconcileError> {
    let name = live_name(subject.name);
    *look_again = Some(UNTIL_PUBLISHED);
    let live = fetch::live(subject.namespace, name.clone(), &context.client).await?;
    let watched = context
        .observed
        .object(Kind::Deployment, subject.namespace, &workload_name(subject.name));
    let workload = Workload::of(memory.newest_deployment(watched.as_deref()));
    *look_again = None;
    let Some(desired) = desired(subject, &live, &workload) else {
        return Ok(None);
    };
    let decided = membership::decide(subject, &desired, &live, context)?;
    *look_again = decided.look_again_at(&live);
    if decided.table != live.routing {
        write(subject, &name, &live, &decided, context, memory).await?;
    }
    membership::published(subject, &decided, context);
    *look_again = decided.look_again;
    Ok(Some(decided))
}

fn desired(subject: &Subject<'_>, live: &Live, workload: &Workload) -> Option<Desired> {
    let is_ours = live.owners.iter().any(|owner| owner == subject.uid);
    let table = live.routing.as_ref().filter(|_| is_ours)?;
    let header = table.header();
    if header.cluster != subject.cluster() {
        return None;
    }
    let slots = if workload.exists {
        usize::try_from(workload.wanted).unwrap_or(0)
    } else {
        table.owners().len()
    };
    Some(Desired {
        header: header.clone(),
        slots,
        rules: Rules::default(),
    })
}

async fn write(
    subject: &Subject<'_>,
    name: &str,
    live: &Live,
    decided: &Decided,
    context: &Context,
    memory: &mut Memory,
) -> Result<(), ReconcileError> {
    let Some(table) = &decided.table else {
        return Ok(());
    };
    let api = Kind::ConfigMap.api(&context.client, subject.namespace);
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch: Patch<Value> = Patch::Merge(json!({
        // Made of what was there: whoever has changed it since makes the write fail.
        "metadata": {"resourceVersion": live.version},
        "data": {ROUTING_KEY: table.to_yaml()},
    }));
    let written: DynamicObject = api
        .patch(name, &params, &patch)
        .await
        .map_err(|error| as_apply_error(Kind::ConfigMap, name, error))?;
    // A policy that holds again is written anew, and that is no repair.
    memory.forget(Kind::ConfigMap, name);
    context.metrics.applied(Kind::ConfigMap, Applied::Changed);
    tracing::info!(
        kind = Kind::ConfigMap.name(),
        name,
        version = written.resource_version(),
        "published a table alone"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use jevmetrics_api::routing::{Affinity, ClusterIdentity, Header, KeySource, Owner, RoutingTable};

    use super::*;

    const SUBJECT: Subject<'static> = Subject {
        namespace: "ns",
        name: "jm",
        uid: "p",
        in_status: None,
    };

    fn live(owner: &str, policy: &str) -> Live {
        let header = Header {
            cluster: ClusterIdentity {
                namespace: "ns".to_owned(),
                policy: policy.to_owned(),
            },
            affinity: Affinity::Upstream,
            key: KeySource::Source,
        };
        let owners = [("a", 0), ("b", 1)].map(|(name, slot)| Owner {
            slot,
            uid: name.to_owned(),
            name: name.to_owned(),
            address: ([10, 0, 0, 1], 4319).into(),
            zone: None,
        });
        Live {
            routing: Some(RoutingTable::new(7, header, owners.to_vec()).unwrap()),
            owners: vec![owner.to_owned()],
            ..Live::default()
        }
    }

    #[test]
    fn the_stored_table_says_what_is_wanted_and_the_deployment_how_many() {
        let workload = |exists, wanted| Workload {
            exists,
            wanted,
            ..Workload::default()
        };
        let live = live("p", "p");
        let found = desired(&SUBJECT, &live, &workload(true, 5)).unwrap();
        assert_eq!(found.header, *live.routing.as_ref().unwrap().header());
        assert_eq!((found.slots, found.rules), (5, Rules::default()));
        let found = desired(&SUBJECT, &live, &workload(false, 0)).unwrap();
        assert_eq!(found.slots, 2, "nobody has taken the pods away");
    }

    #[test]
    fn what_is_not_of_this_policy_is_nothing_to_go_on_from() {
        let workload = Workload::default();
        for live in [live("another", "p"), live("p", "another"), Live::default()] {
            assert_eq!(desired(&SUBJECT, &live, &workload), None);
        }
    }
}
