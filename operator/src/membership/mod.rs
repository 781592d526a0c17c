//! Who owns what: from the pods as they are seen to the routing table that all of them obey. Pure.
//!
//! ```text
//! Pods ─▶ Observation ─┐
//! deleted pods ────────┤
//! Memory (timers) ─────┼─▶ next_table ─▶ Decision: table, members for the status, when to look again
//! stored table, epochs ┘
//! ```
//! A pod comes to own a slot only after it was ready for a while, and leaves at once if it is about to stop, or was seen to
//! be deleted. One that is merely unready, or gone since nobody looked, is held: routers fail over meanwhile, and a quick return costs nothing. Ready pods beyond the wanted
//! number of slots are spares, who inherit the slots of those that leave: a rollout moves each resource about once.
//!
//! Invariants:
//! - An epoch never goes back, and of one epoch there is one table.
//! - No table is empty.
//! - A pod that stays ready keeps its slot.
//! - One that was deleted is not held, whether it was seen leaving or only seen to be gone.
//! - Lost pods whom nobody replaces are removed slowly as far as their slots are wanted: at most one, or a tenth of them,
//!   in a minute.
//! - If a table would have fewer living owners than half of what there was, the old one stays.
//! - Slots are never more than wanted, unless their pods are still there, or held.
//! - Nobody who tells an epoch can keep others from coming after it.
//!
//! Clocks of machines are not compared: all spans are measured by this process since it saw something change.

mod difference;
mod memory;
mod next;
mod observation;
mod seats;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use jevmetrics_api::routing::{Header, MAX_OWNERS, RoutingTable};

pub use self::difference::change;
pub use self::memory::Memory;
pub use self::next::next_table;
pub use self::observation::Observation;

/// Time since an origin that stays, by a clock that never goes back.
pub type Moment = Duration;

/// Pods that settle so shortly after each other share one epoch.
pub const JOIN_WINDOW: Duration = Duration::from_secs(5);
/// Over this span removals of lost pods are counted.
pub const REMOVAL_WINDOW: Duration = Duration::from_mins(1);
/// A pod that was lost and given up joins again after so long at the earliest: so one pod costs two epochs a minute at
/// most, however it comes and goes.
pub const DISTRUST: Duration = Duration::from_mins(1);
/// Where there is no table to go on from, the next one waits for so long until pods were asked: they may know a later epoch
/// than the status does, or one at all.
pub const ASKING: Duration = Duration::from_secs(20);
/// Between two tables.
pub const PACE: Duration = Duration::from_secs(1);
/// So many epochs may have come after those that status and pods tell. There is a table a second at most; a status that is
/// written at all waits for a minute at most, and pods are asked more often.
pub const HEARSAY_LAG: u64 = 100;

/// How patient membership is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// A pod joins after it was ready for so long without a break.
    pub settle: Duration,
    /// The slot of a lost pod is kept for so long.
    pub hold: Duration,
    /// Settled pods for the first table; half of the slots, rounded up, if it is not set. All slots are always enough.
    pub minimum_members: Option<usize>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            settle: Duration::from_secs(10),
            hold: Duration::from_secs(15),
            minimum_members: None,
        }
    }
}

/// What is wanted of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    /// All of the table but epoch and owners.
    pub header: Header,
    /// `spec.replicas` of the Deployment.
    pub slots: usize,
    /// How patient membership is.
    pub rules: Rules,
}

impl Desired {
    /// As many slots as a table can have of them.
    fn wanted(&self) -> usize {
        self.slots.min(MAX_OWNERS)
    }
}

/// What there is to go on from.
#[derive(Debug, Clone, Copy)]
pub struct Previous<'p> {
    /// What this process remembers.
    pub memory: &'p Memory,
    /// The table in the live object, if it can be read.
    pub stored: Option<&'p RoutingTable>,
    /// The epochs in the status and told by pods. Each is believed or not by itself.
    pub told: &'p [u64],
    /// Whether pods were asked at all.
    pub is_asked: bool,
    /// The uids of pods that were seen to be deleted, whether they were seen leaving or not. Of those that are there all
    /// the same it says nothing.
    pub deleted: &'p BTreeSet<String>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// To be remembered. If the table was written: after [`Memory::published`].
    pub memory: Memory,
    /// The table that must be in the live object; none before the first.
    pub table: Option<RoutingTable>,
    /// How membership stands.
    pub standing: Standing,
    /// Every pod that may come to own a slot or still has one, and every slot without a pod.
    pub members: Vec<Member>,
    /// When time alone may change this.
    pub look_again: Option<Duration>,
}

/// How membership stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The table is as the pods are, or waits for one that may return.
    Current,
    /// There is no table yet, or none but that of pods that were sent away.
    Gathering {
        /// Pods that have settled.
        settled: usize,
        /// How many must have.
        needed: usize,
    },
    /// The old table stays: too few of its pods would be left.
    Frozen {
        /// Living owners in the table that was not made.
        living: usize,
        /// The size of which they must be half.
        of: usize,
    },
}

impl Standing {
    /// Where the owners of the old table were sent away, it stays until others are there, and that is no alarm.
    fn after_nobody(self) -> Self {
        match self {
            Self::Frozen { living, of } if of > 0 => Self::Gathering {
                settled: living,
                needed: of.div_ceil(2),
            },
            other => other,
        }
    }
}

/// Where a pod is in its membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemberState {
    /// Owns a slot.
    Active,
    /// Not ready or gone; its slot is kept.
    Held,
    /// About to stop.
    Draining,
    /// Ready, but not for long enough, or waits for others to join with it.
    Settling,
    /// Has settled; all slots are taken.
    Spare,
    /// Not ready, without a slot.
    NotReady,
}

/// A pod, or a slot whose pod is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The slot that it has in the table.
    pub slot: Option<u16>,
    /// The pod's uid.
    pub uid: String,
    /// The pod's name.
    pub name: String,
    /// The node's name.
    pub node: Option<String>,
    /// The node's zone.
    pub zone: Option<String>,
    /// The revision that the pod was made for.
    pub revision: Option<String>,
    /// Where it is.
    pub state: MemberState,
}
