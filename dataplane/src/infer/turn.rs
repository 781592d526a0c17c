//! One turn: from the question whether one may ask to the end of asking.
//!
//! ```text
//! admit --> owner --> ask_as_owner --> ended
//!       '-> hit, wait, mismatch, trouble: not admitted
//! ```
//! A turn holds one of the workers, and only for as long as it takes: who has to wait gives the turn back. It is never
//! broken off while its admission is on the way: a lease that nobody knows of would hold a place of the group.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::agenda::Entry;
use super::ask::Ask;
use super::held::Held;
use super::owner::{Ended, Owner};
use super::queue::{Claim, Pending};
use super::rank::Rank;
use super::refusals::Refusals;
use super::stats::Stats;
use crate::coordinate::trouble::Trouble;
use crate::coordinate::{Admission, Coordinate, Mismatch, Shared, Wait};

/// What every turn needs.
#[derive(Clone)]
pub(super) struct Turns {
    pub(super) room: Arc<dyn Coordinate>,
    pub(super) ask: Arc<dyn Ask>,
    pub(super) refusals: Arc<Refusals>,
    pub(super) held: Arc<Held>,
    pub(super) stats: Stats,
    pub(super) stop: CancellationToken,
    /// A shared assessment with no more left of its life is to be refreshed.
    pub(super) little: Duration,
}

/// How a turn ended.
pub(super) enum Turn {
    /// There is an answer already.
    Hit(Entry<Box<Pending>>, Shared),
    /// Not now.
    NotYet(Entry<Box<Pending>>, NotYet),
    /// It was asked.
    Asked {
        claim: Claim,
        asked_at: Instant,
        ended: Ended,
    },
}

/// Why one may not ask now.
pub(super) enum NotYet {
    Wait(Wait),
    Mismatch(Mismatch),
    Trouble(Trouble),
}

impl Turns {
    /// What must be left of the life of a shared assessment to be of use for one with this rank.
    pub(super) fn least(&self, rank: Rank) -> Duration {
        if rank.is_refresh() {
            self.little
        } else {
            Duration::ZERO
        }
    }

    /// Takes one turn.
    pub(super) async fn take(self, entry: Entry<Box<Pending>>) -> Turn {
        let least = self.least(entry.rank());
        let lease = match self.room.admit(entry.item.identity, least).await {
            Ok(Admission::Owner(lease)) => lease,
            Ok(Admission::Hit(shared)) => return Turn::Hit(entry, shared),
            Ok(Admission::Wait(wait)) => return Turn::NotYet(entry, NotYet::Wait(wait)),
            Ok(Admission::Mismatch(mismatch)) => return Turn::NotYet(entry, NotYet::Mismatch(mismatch)),
            Err(trouble) => return Turn::NotYet(entry, NotYet::Trouble(trouble)),
        };
        let _holding = self.room.is_shared().then(|| self.held.hold(&lease.identity));
        let asked_at = lease.asked_at;
        let Pending { summary, claim, .. } = *entry.item;
        let ticket = claim.ticket();
        let owner = Owner {
            room: &*self.room,
            ask: &*self.ask,
            stats: &self.stats,
            stop: &self.stop,
        };
        let ended = owner
            .ask_about(lease, &summary, || self.refusals.note(ticket))
            .await;
        Turn::Asked {
            claim,
            asked_at,
            ended,
        }
    }
}
