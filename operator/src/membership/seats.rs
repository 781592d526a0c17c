//! Who should hold which slot.
//!
//! ```text
//! owners of the old table ─▶ stay (ready, or held) │ lost for too long │ leave
//! slots of the lost, then of those that leave ─▶ spares, as far as slots are wanted
//! slots that nobody inherits: of those that leave removed; of the lost those that are not wanted, and as many as may be
//! spares that are left ─▶ lowest free numbers, as far as slots are wanted
//! ```
//! The lost come first: a slot whose owner is gone is worse than one whose keys move.

use std::collections::{BTreeMap, BTreeSet};

use jevmetrics_api::routing::Owner;

use super::{ASKING, Desired, JOIN_WINDOW, Memory, Moment, Observation, Standing};

/// Who should hold which slot.
#[derive(Debug)]
pub(super) struct Seats {
    /// Nobody, if there is no table and must not be one yet.
    pub(super) owners: Vec<Owner>,
    pub(super) standing: Standing,
    /// When time alone may change this: after now.
    pub(super) wake: Wake,
}

/// The earliest of some moments.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wake(Option<Moment>);

impl Wake {
    pub(super) fn at(&mut self, moment: Moment) {
        self.0 = Some(self.0.map_or(moment, |earliest| earliest.min(moment)));
    }

    pub(super) fn earliest(self) -> Option<Moment> {
        self.0
    }
}

/// A ready pod without a slot.
#[derive(Debug, Clone, Copy)]
struct Candidate<'p> {
    pod: &'p Observation,
    settled_at: Moment,
}

/// Who should hold which slot, if `base` are the owners up to now. Without any, a cluster is unheard as long as its pods were
/// not asked which epochs they know.
pub(super) fn seats(
    memory: &Memory,
    base: &[Owner],
    pods: &BTreeMap<&str, &Observation>,
    desired: &Desired,
    is_unheard: bool,
    now: Moment,
) -> Seats {
    let mut wake = Wake::default();
    let wanted = desired.wanted();
    let (settled, settling) = candidates(memory, base, pods, desired, now);
    for candidate in &settling {
        wake.at(candidate.settled_at);
    }
    if base.is_empty() {
        let unheard_at = is_unheard.then_some(now);
        return first(&settled, &settling, desired, unheard_at, wake);
    }

    let Sorted {
        staying: mut owners,
        lost,
        leaving,
    } = sort(memory, base, pods, desired, now, &mut wake);
    let mut spares = settled.iter();
    let mut orphaned = Vec::new();
    let room = wanted.saturating_sub(owners.len());
    let mut heirs = spares.by_ref().take(room);
    for owner in lost {
        match heirs.next().and_then(|heir| heir.pod.as_owner(owner.slot)) {
            Some(heir) => owners.push(heir),
            None => orphaned.push(owner),
        }
    }
    for owner in leaving {
        // Without an heir the slot goes with its owner.
        owners.extend(heirs.next().and_then(|heir| heir.pod.as_owner(owner.slot)));
    }
    let unwanted = (owners.len() + orphaned.len()).saturating_sub(wanted);
    let (allowed, next_at) = match memory.thawing_until(desired.rules.hold, now) {
        Some(until) => (0, until),
        None => (
            memory.removals_left(base.len().min(wanted), now),
            memory.next_removal(now),
        ),
    };
    let removable = unwanted + allowed;
    if orphaned.len() > removable {
        wake.at(next_at);
    }
    owners.extend(orphaned.into_iter().skip(removable));

    join(&mut owners, spares.as_slice(), &settling, wanted, &mut wake);
    guard(memory, base, owners, pods, wanted, wake)
}

/// The first table waits for enough pods, until pods were asked, and then as every other for those that are about to join.
fn first(
    settled: &[Candidate<'_>],
    settling: &[Candidate<'_>],
    desired: &Desired,
    unheard_at: Option<Moment>,
    mut wake: Wake,
) -> Seats {
    let wanted = desired.wanted();
    let minimum = desired.rules.minimum_members;
    let needed = minimum.unwrap_or(wanted.div_ceil(2)).max(1).min(wanted);
    let mut owners = Vec::new();
    // Since then there are enough.
    let enough_at = needed
        .checked_sub(1)
        .and_then(|last| settled.get(last))
        .map(|last| last.settled_at);
    if let Some(enough_at) = enough_at {
        let asked_until = enough_at + ASKING;
        if unheard_at.is_some_and(|now| now < asked_until) {
            wake.at(asked_until);
        } else {
            join(&mut owners, settled, settling, wanted, &mut wake);
        }
    }
    let standing = if owners.is_empty() {
        let settled = settled.len();
        Standing::Gathering { settled, needed }
    } else {
        Standing::Current
    };
    Seats {
        owners,
        standing,
        wake,
    }
}

/// Ready pods without a slot: those that have settled, and those that have not. Each in the order in which they do.
fn candidates<'p>(
    memory: &Memory,
    base: &[Owner],
    pods: &BTreeMap<&str, &'p Observation>,
    desired: &Desired,
    now: Moment,
) -> (Vec<Candidate<'p>>, Vec<Candidate<'p>>) {
    let seated: BTreeSet<&str> = base.iter().map(|owner| owner.uid.as_str()).collect();
    let unseated = pods.values().filter(|pod| !seated.contains(pod.uid.as_str()));
    let mut found: Vec<Candidate<'p>> = unseated
        .filter_map(|&pod| {
            let settled_at = memory.settled_at(&pod.uid, desired.rules.settle)?;
            Some(Candidate { pod, settled_at })
        })
        .collect();
    found.sort_by(|a, b| (a.settled_at, &a.pod.uid).cmp(&(b.settled_at, &b.pod.uid)));
    found
        .into_iter()
        .partition(|candidate| candidate.settled_at <= now)
}

/// The owners up to now, by what becomes of them.
#[derive(Debug, Default)]
struct Sorted {
    /// Ready, or held.
    staying: Vec<Owner>,
    /// Lost for too long; the longest first.
    lost: Vec<Owner>,
    /// About to stop; sorted by slot.
    leaving: Vec<Owner>,
}

fn sort(
    memory: &Memory,
    base: &[Owner],
    pods: &BTreeMap<&str, &Observation>,
    desired: &Desired,
    now: Moment,
    wake: &mut Wake,
) -> Sorted {
    let mut sorted = Sorted::default();
    let mut lost = Vec::new();
    for owner in base {
        if let Some(present) = pods
            .get(owner.uid.as_str())
            .and_then(|pod| pod.as_owner(owner.slot))
        {
            // With its present address: a pod gets another one if its node has restarted.
            sorted.staying.push(present);
            continue;
        }
        if memory.has_left(&owner.uid) {
            sorted.leaving.push(owner.clone());
            continue;
        }
        let since = memory.lost_since(&owner.uid).unwrap_or(now);
        let held_until = since + desired.rules.hold;
        if held_until > now {
            wake.at(held_until);
            sorted.staying.push(owner.clone());
        } else {
            lost.push((since, owner));
        }
    }
    lost.sort_by_key(|(since, owner)| (*since, owner.slot));
    sorted.lost = lost.into_iter().map(|(_, owner)| owner.clone()).collect();
    sorted
}

/// Gives the lowest free numbers to those that have settled, as far as slots are wanted; but not before others that
/// are about to settle could share their epoch.
fn join(
    owners: &mut Vec<Owner>,
    settled: &[Candidate<'_>],
    settling: &[Candidate<'_>],
    wanted: usize,
    wake: &mut Wake,
) {
    let room = wanted.saturating_sub(owners.len());
    let joining = &settled[..room.min(settled.len())];
    let Some(first) = joining.first() else {
        return;
    };
    let window_ends = first.settled_at + JOIN_WINDOW;
    let others = settling.iter().take(room - joining.len());
    let awaited = others
        .map(|other| other.settled_at)
        .filter(|&at| at <= window_ends);
    if let Some(until) = awaited.max() {
        wake.at(until);
        return;
    }
    let taken: BTreeSet<u16> = owners.iter().map(|owner| owner.slot).collect();
    let free = (0..).filter(|slot| !taken.contains(slot));
    let joined = free.zip(joining);
    owners.extend(joined.filter_map(|(slot, candidate)| candidate.pod.as_owner(slot)));
}

/// Keeps the old table if the new one would have too few living owners: what is wrong with so many at once is more
/// likely wrong with what they need, or with what we see, and the rest could not carry their load.
fn guard(
    memory: &Memory,
    base: &[Owner],
    owners: Vec<Owner>,
    pods: &BTreeMap<&str, &Observation>,
    wanted: usize,
    wake: Wake,
) -> Seats {
    let is_living = |owner: &&Owner| {
        pods.get(owner.uid.as_str())
            .is_some_and(|pod| pod.living().is_some())
    };
    let living = owners.iter().filter(is_living).count();
    let of = memory.whole().min(wanted);
    // Where nobody is wanted, those who are held have gone while nobody looked.
    let is_empty = owners.is_empty() || (wanted == 0 && living == 0);
    let is_frozen = !base.is_empty() && (living * 2 < of || is_empty);
    Seats {
        owners: if is_frozen { base.to_vec() } else { owners },
        standing: if is_frozen {
            Standing::Frozen { living, of }
        } else {
            Standing::Current
        },
        wake,
    }
}
