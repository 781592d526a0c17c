//! The next table, its epoch, and who is where.
//!
//! The epoch rises if anything in the table changes, and if anybody may know another table of this epoch or a later one:
//! somebody has edited the live object or put it back, or has wiped what remembers. It does not rise because the live
//! object was deleted: the same table is written again. Where that is not known any more, epochs that others tell are hearsay:
//! the last table may be later by what they have missed.

use std::collections::BTreeMap;

use jevmetrics_api::routing::{
    ClusterIdentity, MAX_EPOCH_IN_FORCE, MAX_TOLD_EPOCH, RoutingTable, TableError,
};

use super::seats::seats;
use super::{
    Decision, Desired, HEARSAY_LAG, Member, MemberState, Memory, Moment, Observation, Previous, Standing,
};

/// The highest epoch that is believed to our own table in the live object: so far below what comes into force that tables
/// which outdo it do, for longer than anything lasts.
const MAX_STORED_EPOCH: u64 = MAX_EPOCH_IN_FORCE - (1 << 32);

/// Decides who owns what from `now` on. Equal input, equal decision.
///
/// # Errors
/// None while uids, names and zones are as Kubernetes makes them and epochs have not come to their end.
pub fn next_table(
    previous: Previous<'_>,
    observed: &[Observation],
    desired: &Desired,
    now: Moment,
) -> Result<Decision, TableError> {
    let cluster = &desired.header.cluster;
    let base = base(previous, cluster);
    let pods: BTreeMap<&str, &Observation> = observed.iter().map(|pod| (pod.uid.as_str(), pod)).collect();
    let mut memory = previous
        .memory
        .observe(base, &pods, previous.deleted, desired.slots, now);
    let owners = base.map_or(&[][..], RoutingTable::owners);
    let highest = highest_possible(previous, base, cluster);
    let is_unheard = base.is_none() && !previous.is_asked;
    let mut decided = seats(&memory, owners, &pods, desired, is_unheard, now);
    if memory.frozen(matches!(decided.standing, Standing::Frozen { .. }), now) {
        decided = seats(&memory, owners, &pods, desired, is_unheard, now);
    }
    let mut wake = decided.wake;

    let present = base.map_or(1, RoutingTable::epoch);
    let table = if decided.owners.is_empty() {
        None
    } else {
        Some(RoutingTable::new(
            present,
            desired.header.clone(),
            decided.owners,
        )?)
    };
    let is_as_before = table.as_ref() == base && !is_known_otherwise(previous, base, cluster);
    let table = match (table, base) {
        (table, _) if is_as_before => table,
        (Some(next), base) => match (base, memory.paced_until(now)) {
            // What contradicts the old table must not be replaced by it: then some would know one table of its epoch, some
            // the other.
            (Some(base), Some(until)) if !is_contradicted(previous, base, cluster) => {
                wake.at(until);
                Some(base.clone())
            }
            _ => Some(at_epoch(&next, 1 + highest)?),
        },
        (None, _) => None,
    };

    let is_sent_away = memory.is_sent_away() && table.as_ref().map(RoutingTable::owners) == Some(owners);
    Ok(Decision {
        members: members(&memory, table.as_ref(), is_sent_away, &pods, desired, now),
        standing: if is_sent_away {
            decided.standing.after_nobody()
        } else {
            decided.standing
        },
        look_again: wake.earliest().map(|at| at.saturating_sub(now)),
        table,
        memory,
    })
}

/// The table to go on from: the later one of those that are known, and of two with one epoch that which this process has
/// made. One of a stranger is none.
fn base<'p>(previous: Previous<'p>, cluster: &ClusterIdentity) -> Option<&'p RoutingTable> {
    let is_ours = |table: &&RoutingTable| table.header().cluster == *cluster;
    let stored = stored(previous, cluster).filter(is_ours);
    let remembered = previous.memory.table().filter(is_ours);
    match (stored, remembered) {
        (Some(stored), Some(remembered)) if stored.epoch() > remembered.epoch() => Some(stored),
        (stored, remembered) => remembered.or(stored),
    }
}

/// Whether somebody may know another table of the epoch of `base`, or a later one.
fn is_known_otherwise(
    previous: Previous<'_>,
    base: Option<&RoutingTable>,
    cluster: &ClusterIdentity,
) -> bool {
    let is_otherwise =
        |base: &RoutingTable| told(previous) > base.epoch() || is_contradicted(previous, base, cluster);
    base.is_some_and(is_otherwise)
}

/// Whether there is another table in the live object that has the epoch of `base`, or a later one.
fn is_contradicted(previous: Previous<'_>, base: &RoutingTable, cluster: &ClusterIdentity) -> bool {
    stored(previous, cluster).is_some_and(|stored| stored.epoch() >= base.epoch() && stored != base)
}

/// The highest epoch that a table may have had; 0 if no epoch is known. Who tells of later ones than the table to go on from
/// need not tell of the last.
fn highest_possible(previous: Previous<'_>, base: Option<&RoutingTable>, cluster: &ClusterIdentity) -> u64 {
    let known = [base, stored(previous, cluster)]
        .into_iter()
        .flatten()
        .map(RoutingTable::epoch);
    let told = match (told(previous), base) {
        (0, _) => 0,
        (told, Some(base)) if told <= base.epoch() => told,
        (told, _) => told + HEARSAY_LAG,
    };
    known.max().unwrap_or(0).max(told)
}

/// A table that no other could follow is as unreadable as garbage: else whoever puts it there once stops all others.
fn stored<'p>(previous: Previous<'p>, cluster: &ClusterIdentity) -> Option<&'p RoutingTable> {
    let is_ours = |table: &RoutingTable| table.header().cluster == *cluster;
    // Ours may have outdone what was told.
    let highest = |table: &RoutingTable| {
        if is_ours(table) {
            MAX_STORED_EPOCH
        } else {
            MAX_TOLD_EPOCH
        }
    };
    previous.stored.filter(|table| table.epoch() <= highest(table))
}

/// The highest epoch that is believed. Who tells an absurd one must not hide what others say.
fn told(previous: Previous<'_>) -> u64 {
    let told = previous.told.iter().copied();
    told.filter(|&epoch| epoch <= MAX_TOLD_EPOCH).max().unwrap_or(0)
}

fn at_epoch(table: &RoutingTable, epoch: u64) -> Result<RoutingTable, TableError> {
    RoutingTable::new(epoch, table.header().clone(), table.owners().to_vec())
}

/// Every pod by its name, and every slot whose pod is gone. A pod that has ended without a slot is none: many may lie about
/// for long. If no pod is wanted the last table stays, and until there is another those that are gone are none: nobody keeps
/// anything for them.
fn members(
    memory: &Memory,
    table: Option<&RoutingTable>,
    is_sent_away: bool,
    pods: &BTreeMap<&str, &Observation>,
    desired: &Desired,
    now: Moment,
) -> Vec<Member> {
    let is_settled = |uid: &str| {
        let settled_at = memory.settled_at(uid, desired.rules.settle);
        settled_at.is_some_and(|at| at <= now)
    };
    let has_room = is_sent_away || table.is_none_or(|table| table.owners().len() < desired.wanted());
    let is_nobody_kept = is_sent_away || desired.slots == 0;
    let present = pods.values().filter_map(|pod| {
        let slot = table.and_then(|table| table.slot_of(&pod.uid));
        if pod.has_ended && (slot.is_none() || is_nobody_kept) {
            return None;
        }
        let state = if pod.is_leaving {
            MemberState::Draining
        } else if pod.living().is_none() {
            slot.map_or(MemberState::NotReady, |_| MemberState::Held)
        } else if slot.is_some() {
            MemberState::Active
        } else if is_settled(&pod.uid) && !has_room {
            MemberState::Spare
        } else {
            MemberState::Settling
        };
        Some(Member {
            slot,
            uid: pod.uid.clone(),
            name: pod.name.clone(),
            node: pod.node.clone(),
            zone: pod.zone.clone(),
            revision: pod.revision.clone(),
            state,
        })
    });
    let owners = table.into_iter().flat_map(RoutingTable::owners);
    let gone = owners
        .filter(|owner| !is_nobody_kept && !pods.contains_key(owner.uid.as_str()))
        .map(|owner| Member {
            slot: Some(owner.slot),
            uid: owner.uid.clone(),
            name: owner.name.clone(),
            node: None,
            zone: owner.zone.clone(),
            revision: None,
            state: MemberState::Held,
        });
    let mut members: Vec<Member> = present.chain(gone).collect();
    members.sort_by(|a, b| (&a.name, &a.uid).cmp(&(&b.name, &b.uid)));
    members
}
