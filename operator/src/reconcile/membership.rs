//! The membership decision of a reconcile: from the pods as the watch shows them to the table of the live object.

use std::time::Duration;

use jevmetrics_api::policy::{JevMetricsPolicy, ValidPolicy};
use jevmetrics_api::routing::{Affinity, ClusterIdentity, Header, RoutingTable, TableError};
use kube::runtime::reflector::ObjectRef;

use super::fetch::Live;
use crate::assess::Workload;
use crate::context::Context;
use crate::kinds::Kind;
use crate::membership::{Desired, Member, Observation, Previous, Rules, Standing, change, next_table};
use crate::memory::{Memory, version};
use crate::render::workload_name;

/// Longest wait while the live object cannot be read, or does not have the table that it must: a pod that stops is asked for
/// until then.
pub(super) const UNTIL_PUBLISHED: Duration = Duration::from_secs(10);

/// Whose members.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'s> {
    pub(super) namespace: &'s str,
    pub(super) name: &'s str,
    pub(super) uid: &'s str,
    /// The epoch in the status.
    pub(super) in_status: Option<u64>,
}

impl Subject<'_> {
    pub(super) fn cluster(&self) -> ClusterIdentity {
        ClusterIdentity {
            namespace: self.namespace.to_owned(),
            policy: self.uid.to_owned(),
        }
    }
}

/// What a reconcile has decided about members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// The table in the live object; none before the first, or if it could not be written.
    pub table: Option<RoutingTable>,
    /// The affinity that is wanted: that of the table, or soon.
    pub affinity: Affinity,
    /// How membership stands.
    pub standing: Standing,
    /// Every pod, and every slot without one.
    pub members: Vec<Member>,
    /// What the table has changed, as far as it is known.
    pub change: Option<String>,
    /// When time alone may change this.
    pub look_again: Option<Duration>,
}

impl Decided {
    /// When to look again if the live object stays as it is.
    pub(super) fn look_again_at(&self, live: &Live) -> Option<Duration> {
        if self.table.is_none() || self.table == live.routing {
            return self.look_again;
        }
        let wait = self.look_again.unwrap_or(UNTIL_PUBLISHED);
        Some(wait.min(UNTIL_PUBLISHED))
    }
}

/// The epoch in the status of a policy.
pub(super) fn epoch_in_status(policy: &JevMetricsPolicy, memory: &Memory) -> Option<u64> {
    let status = memory.status(version(policy), policy.status.as_ref());
    let counted = status.and_then(|status| status.routing.as_ref());
    counted.and_then(|routing| u64::try_from(routing.epoch).ok())
}

/// Decides who owns what. `live` is the live object as it is on the server.
pub(super) fn decide(
    subject: &Subject<'_>,
    desired: &Desired,
    live: &Live,
    context: &Context,
) -> Result<Decided, TableError> {
    let voices = context.voices.of(subject.uid);
    let told: Vec<u64> = subject.in_status.into_iter().chain(voices.epochs()).collect();
    let pods = context.observed.pods(subject.namespace, subject.name);
    let observed: Vec<Observation> = pods.iter().filter_map(|pod| Observation::of(pod)).collect();
    // Later than the pods: whoever was deleted since is still among them, and counts as there until the next look.
    let policy = ObjectRef::new(subject.name).within(subject.namespace);
    let deleted = context.observed.deleted.of(&policy);
    let (mut members, now) = context.members.of(subject.uid);
    let previous = Previous {
        memory: &members,
        stored: live.routing.as_ref(),
        told: &told,
        is_asked: voices.is_asked(),
        deleted: &deleted,
    };
    let decision = next_table(previous, &observed, desired, now)?;
    members = decision.memory;
    let table = decision.table;
    let change = table.as_ref().and_then(|table| {
        let known = members.change_of(table).map(str::to_owned);
        let is_other = live.routing.as_ref() != Some(table);
        known.or_else(|| is_other.then(|| change(live.routing.as_ref(), table)))
    });
    context.members.remember(subject.uid, members);
    context.observed.deleted.forget(&policy, &deleted, |uid| {
        let mut tables = [table.as_ref(), live.routing.as_ref()].into_iter().flatten();
        tables.any(|table| table.slot_of(uid).is_some())
    });
    Ok(Decided {
        table,
        affinity: desired.header.affinity,
        standing: decision.standing,
        members: decision.members,
        change,
        look_again: decision.look_again,
    })
}

/// Notes that the table is in the live object.
pub(super) fn published(subject: &Subject<'_>, decided: &Decided, context: &Context) {
    let Some(table) = &decided.table else {
        return;
    };
    let (mut members, now) = context.members.of(subject.uid);
    let is_news = members.published(table, decided.change.as_deref(), now);
    context.members.remember(subject.uid, members);
    if let Some(change) = decided.change.as_ref().filter(|_| is_news) {
        let (epoch, members) = (table.epoch(), table.owners().len());
        tracing::info!(
            policy = subject.name,
            epoch,
            members,
            change,
            "the routing table has changed"
        );
    }
}

/// Wanted pods: what this reconcile will set, or what somebody else has set.
fn wanted(valid: &ValidPolicy, context: &Context, memory: &Memory) -> usize {
    let watched = context
        .observed
        .object(Kind::Deployment, valid.namespace(), &workload_name(valid.name()));
    let workload = Workload::of(memory.newest_deployment(watched.as_deref()));
    let replicas = valid
        .replicas()
        .unwrap_or(if workload.exists { workload.wanted } else { 1 });
    usize::try_from(replicas).unwrap_or(0)
}

/// What a policy that holds wants of the table.
pub(super) fn desired(valid: &ValidPolicy, context: &Context, memory: &Memory) -> Desired {
    let slots = wanted(valid, context, memory);
    let wanted = valid.membership();
    Desired {
        header: Header {
            cluster: ClusterIdentity {
                namespace: valid.namespace().to_owned(),
                policy: valid.uid().to_owned(),
            },
            affinity: wanted.affinity(),
            key: wanted.key().clone(),
        },
        slots,
        rules: Rules {
            settle: wanted.settle(),
            hold: wanted.hold(),
            minimum_members: wanted.minimum_members(),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use jevmetrics_api::routing::{KeySource, Owner};

    use super::*;

    fn table(epoch: u64) -> RoutingTable {
        let header = Header {
            cluster: ClusterIdentity {
                namespace: "ns".to_owned(),
                policy: "p".to_owned(),
            },
            affinity: Affinity::Forward,
            key: KeySource::Source,
        };
        let owner = Owner {
            slot: 0,
            uid: "a".to_owned(),
            name: "a".to_owned(),
            address: ([10, 0, 0, 1], 4319).into(),
            zone: None,
        };
        RoutingTable::new(epoch, header, vec![owner]).unwrap()
    }

    #[test]
    fn a_table_that_is_not_written_is_tried_again_soon() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
        for (wanted, stored, look_again, expected) in [
            (Some(7), Some(7), None, None),
            (Some(7), Some(7), Some(minute), Some(minute)),
            (Some(8), Some(7), None, Some(UNTIL_PUBLISHED)),
            (Some(8), None, Some(minute), Some(UNTIL_PUBLISHED)),
            (Some(8), Some(7), Some(second), Some(second)),
            (None, None, None, None),
        ] {
            let decided = Decided {
                table: wanted.map(table),
                affinity: Affinity::Forward,
                standing: Standing::Current,
                members: Vec::new(),
                change: None,
                look_again,
            };
            let live = Live {
                routing: stored.map(table),
                ..Live::default()
            };
            assert_eq!(
                decided.look_again_at(&live),
                expected,
                "{wanted:?} over {stored:?}"
            );
        }
    }
}
