//! Who owns what while the policy does not hold or cannot be read: what runs for it goes on, and its pods come and go.
//!
//! A table says what it is for, so it is enough to go on from: its header stays, and patience is that of a policy that says
//! nothing of it. It is the one in the live object; if that is lost, the last one that this process knows. Of the live
//! object nothing but the table is written. Where no table is known there is nothing to go on from.

use std::time::Duration;

use jevmetrics_api::policy::live_name;
use jevmetrics_api::routing::RoutingTable;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::ReconcileError;
use super::apply::{ApplyError, FIELD_MANAGER, as_apply_error, precondition};
use super::fetch::{self, Live};
use super::membership::{self, Decided, Subject, UNTIL_PUBLISHED};
use crate::assess::Workload;
use crate::context::Context;
use crate::kinds::Kind;
use crate::membership::{Desired, Rules};
use crate::memory::Memory;
use crate::metrics::Applied;
use crate::render::{ROUTING_KEY, table_alone, workload_name};

/// Decides who owns what, and publishes it. `None` if no table of this policy is known. `look_again` is when time alone may
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
    let (members, _) = context.members.of(subject.uid);
    let Some(table) = known(subject, &live, members.table()) else {
        *look_again = None;
        return Ok(None);
    };
    if live.is_there() && !live.is_of(subject.uid) {
        return Err(ApplyError::NameTaken(Kind::ConfigMap, name).into());
    }
    *look_again = None;
    let decided = membership::decide(subject, &desired(table, &workload), &live, context)?;
    *look_again = decided.look_again_at(&live);
    if decided.table != live.routing {
        write(subject, &name, &live, &decided, context, memory).await?;
    }
    membership::published(subject, &decided, context);
    *look_again = decided.look_again;
    Ok(Some(decided))
}

/// The table that says what is wanted: the one in the live object, or the one that is `remembered`.
fn known<'t>(
    subject: &Subject<'_>,
    live: &'t Live,
    remembered: Option<&'t RoutingTable>,
) -> Option<&'t RoutingTable> {
    let cluster = subject.cluster();
    let stored = live.routing.as_ref().filter(|_| live.is_of(subject.uid));
    let mut tables = stored.into_iter().chain(remembered);
    tables.find(|table| table.header().cluster == cluster)
}

/// As `table` has it, of so many slots as there are replicas.
fn desired(table: &RoutingTable, workload: &Workload) -> Desired {
    let slots = if workload.exists {
        usize::try_from(workload.wanted).unwrap_or(0)
    } else {
        table.owners().len()
    };
    Desired {
        header: table.header().clone(),
        slots,
        rules: Rules::default(),
    }
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
    let written = if live.is_there() {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch: Patch<Value> = Patch::Merge(json!({
            // Made of what was there: whoever has changed it since makes the write fail.
            "metadata": {"resourceVersion": live.version},
            "data": {ROUTING_KEY: table.to_yaml()},
        }));
        api.patch(name, &params, &patch).await
    } else {
        // What pods read beside the table stays in force with them. Whoever has created the object since makes this fail.
        let object = table_alone(subject.namespace, subject.name, subject.uid, table);
        let object = serde_json::to_value(&object).map_err(ApplyError::Render)?;
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = precondition(&object, None, true);
        api.patch(name, &params, &Patch::Apply(&patch)).await
    };
    let written: DynamicObject = written.map_err(|error| as_apply_error(Kind::ConfigMap, name, error))?;
    // A policy that holds again is written anew, and that is no repair.
    memory.forget(Kind::ConfigMap, name);
    let applied = if live.is_there() {
        Applied::Changed
    } else {
        Applied::Created
    };
    context.metrics.applied(Kind::ConfigMap, applied);
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

    fn table(epoch: u64, policy: &str) -> RoutingTable {
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
        RoutingTable::new(epoch, header, owners.to_vec()).unwrap()
    }

    /// The live object of `owner`, with this table in it.
    fn live(owner: &str, routing: Option<RoutingTable>) -> Live {
        Live {
            version: Some("1".to_owned()),
            routing,
            owners: vec![owner.to_owned()],
            ..Live::default()
        }
    }

    #[test]
    fn a_table_says_what_is_wanted_and_the_deployment_how_many() {
        let workload = |exists, wanted| Workload {
            exists,
            wanted,
            ..Workload::default()
        };
        let table = table(7, "p");
        let found = desired(&table, &workload(true, 5));
        assert_eq!(found.header, *table.header());
        assert_eq!((found.slots, found.rules), (5, Rules::default()));
        let found = desired(&table, &workload(false, 0));
        assert_eq!(found.slots, 2, "nobody has taken the pods away");
    }

    #[test]
    fn the_table_in_the_live_object_is_gone_on_from() {
        let live = live("p", Some(table(7, "p")));
        for remembered in [None, Some(&table(6, "p"))] {
            assert_eq!(known(&SUBJECT, &live, remembered), live.routing.as_ref());
        }
    }

    /// *Scenario*: somebody deletes the live object, or the table in it, or puts another's in its place.
    #[test]
    fn if_it_is_lost_there_the_last_one_that_was_published_is_gone_on_from() {
        let ours = table(6, "p");
        for lost in [
            Live::default(),
            live("p", None),
            live("p", Some(table(7, "another"))),
            live("another", Some(table(7, "p"))),
        ] {
            assert_eq!(known(&SUBJECT, &lost, Some(&ours)), Some(&ours), "{lost:?}");
        }
    }

    #[test]
    fn what_is_not_of_this_policy_is_nothing_to_go_on_from() {
        for lost in [
            Live::default(),
            live("p", Some(table(7, "another"))),
            live("another", Some(table(7, "p"))),
        ] {
            for remembered in [None, Some(&table(6, "another"))] {
                assert_eq!(known(&SUBJECT, &lost, remembered), None, "{lost:?}");
            }
        }
    }
}
