//! The bounded way in: between deliveries, which offer instruments, and the dispatcher, which sees to them.
//!
//! ```text
//! delivery -> Entrance::offer   -> Pending (with its summary)  -> dispatcher -> Claim settled
//!          -> Entrance::look_up -> Sought (an identity alone)   -> dispatcher -> Claim settled
//! ```
//! A place is held from the offer until the [`Claim`] is gone, so what is being asked about or waits for its turn
//! counts towards the bound. Every claim ends in exactly one call of [`Outcomes`], on whatever way it goes: one that is
//! dropped unsettled (a stop, a panic) counts as failed. Offering takes no lock and never waits.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use jevmetrics_otlp::identity::Identity;
use jevmetrics_otlp::summary::Summary;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::failure::Cause;
use super::rank::Rank;
use super::stats::{Counted, Stats};
use super::{Enquiry, Item, Outcomes, Ticket, Want};
use crate::retain::answers::Answers;

/// Places beyond the queue's size, in which an instrument waits for the moment that it takes to displace a lesser one.
const OVERFLOW: usize = 32;
/// Identities that are looked up at once, without a summary.
const LOOK_UPS: usize = 65_536;

/// What every claim needs.
struct Desk {
    outcomes: Arc<dyn Outcomes>,
    stats: Stats,
}

/// What is welcome. The dispatcher alone writes.
struct Welcome {
    /// Whether questions are: neither pausing nor stopped.
    asking: AtomicBool,
    /// Whether look-ups are.
    looking: AtomicBool,
    /// While the queue is full, only what is worth more: see [`Rank::worth`].
    above: AtomicU64,
}

/// Where instruments come in.
pub(super) struct Entrance {
    places: Arc<Semaphore>,
    look_ups: Arc<Semaphore>,
    welcome: Arc<Welcome>,
    sender: mpsc::UnboundedSender<Incoming>,
    desk: Arc<Desk>,
}

/// Where the dispatcher takes them out, in the order of the offers.
pub(super) struct Exit {
    receiver: mpsc::UnboundedReceiver<Incoming>,
    welcome: Arc<Welcome>,
    places: Arc<Semaphore>,
    all_places: usize,
}

/// What came in.
pub(super) enum Incoming {
    /// To be asked about, if need be.
    Pending(Box<Pending>),
    /// To be looked up.
    Sought(Sought),
}

/// One instrument in the queue.
pub(super) struct Pending {
    pub(super) identity: Identity,
    pub(super) rank: Rank,
    pub(super) summary: Summary,
    pub(super) claim: Claim,
    _length: Counted,
}

/// One identity that is to be looked up.
pub(super) struct Sought {
    pub(super) identity: Identity,
    pub(super) rank: Rank,
    pub(super) claim: Claim,
}

/// The duty to report one instrument's end, with its place in the queue.
pub(super) struct Claim {
    ticket: Ticket,
    desk: Arc<Desk>,
    /// Whether it counts in the numbers of the queue.
    is_counted: bool,
    settled: bool,
    _place: OwnedSemaphorePermit,
}

/// An open queue with `size` places; look-ups come in only if it is `shared`.
pub(super) fn queue(
    size: NonZeroUsize,
    shared: bool,
    outcomes: Arc<dyn Outcomes>,
    stats: Stats,
) -> (Entrance, Exit) {
    // The places bound the channel.
    let (sender, receiver) = mpsc::unbounded_channel();
    let all_places = size.get().saturating_add(OVERFLOW).min(Semaphore::MAX_PERMITS);
    let places = Arc::new(Semaphore::new(all_places));
    let welcome = Arc::new(Welcome {
        asking: AtomicBool::new(true),
        looking: AtomicBool::new(shared),
        above: AtomicU64::new(u64::MAX),
    });
    let entrance = Entrance {
        places: Arc::clone(&places),
        look_ups: Arc::new(Semaphore::new(if shared { LOOK_UPS } else { 0 })),
        welcome: Arc::clone(&welcome),
        sender,
        desk: Arc::new(Desk { outcomes, stats }),
    };
    let exit = Exit {
        receiver,
        welcome,
        places,
        all_places,
    };
    (entrance, exit)
}

impl Entrance {
    /// What of an instrument with this rank would be taken now. A few atomic loads.
    pub(super) fn wants(&self, rank: Rank) -> Want {
        if self.welcome.asking.load(Ordering::Relaxed) && self.has_place(rank) {
            Want::Summary
        } else if self.welcome.looking.load(Ordering::Relaxed) && self.look_ups.available_permits() > 0 {
            Want::Identity
        } else {
            Want::Nothing
        }
    }

    /// Whether what comes can only displace others.
    pub(super) fn is_full(&self) -> bool {
        self.places.available_permits() <= OVERFLOW
    }

    fn has_place(&self, rank: Rank) -> bool {
        let free = self.places.available_permits();
        free > OVERFLOW || (free > 0 && rank.worth() > self.welcome.above.load(Ordering::Relaxed))
    }

    /// Takes the item, or gives it back unreported.
    #[allow(clippy::result_large_err, reason = "the item moves either way")]
    pub(super) fn offer(&self, item: Item) -> Result<(), Item> {
        if !self.welcome.asking.load(Ordering::Relaxed) || !self.has_place(item.rank) {
            return Err(item);
        }
        let Some(claim) = self.claim(&self.places, item.ticket, true) else {
            return Err(item);
        };
        let pending = Pending {
            identity: item.identity,
            rank: item.rank,
            summary: item.summary,
            claim,
            _length: Counted::new(self.desk.stats.queue_length.clone()),
        };
        match self.sender.send(Incoming::Pending(Box::new(pending))) {
            Ok(()) => {
                self.desk.stats.enqueued.inc();
                Ok(())
            }
            Err(unsent) => match unsent.0 {
                Incoming::Pending(pending) => Err((*pending).withdraw()),
                // Not what was sent.
                Incoming::Sought(_) => Ok(()),
            },
        }
    }

    /// Takes the identity; false if there is no room, unreported.
    pub(super) fn look_up(&self, enquiry: Enquiry) -> bool {
        if !self.welcome.looking.load(Ordering::Relaxed) {
            return false;
        }
        let Some(claim) = self.claim(&self.look_ups, enquiry.ticket, false) else {
            return false;
        };
        let sought = Sought {
            identity: enquiry.identity,
            rank: enquiry.rank,
            claim,
        };
        match self.sender.send(Incoming::Sought(sought)) {
            Ok(()) => true,
            Err(unsent) => {
                if let Incoming::Sought(mut sought) = unsent.0 {
                    sought.claim.settled = true;
                }
                false
            }
        }
    }

    fn claim(&self, places: &Arc<Semaphore>, ticket: Ticket, is_counted: bool) -> Option<Claim> {
        Some(Claim {
            ticket,
            desk: Arc::clone(&self.desk),
            is_counted,
            settled: false,
            _place: Arc::clone(places).try_acquire_owned().ok()?,
        })
    }
}

impl Exit {
    /// The next in line; `None` once closed and empty. May be dropped while it waits without loss.
    pub(super) async fn next(&mut self) -> Option<Incoming> {
        self.receiver.recv().await
    }

    /// The next in line, if there is one now.
    pub(super) fn try_next(&mut self) -> Option<Incoming> {
        self.receiver.try_recv().ok()
    }

    /// How many instruments with a summary have a place: queued, being looked up or asked about.
    pub(super) fn taken(&self) -> usize {
        self.all_places.saturating_sub(self.places.available_permits())
    }

    /// Says what is welcome: questions, look-ups, and what is worth more than this
    /// while the queue is full.
    pub(super) fn set_welcome(&self, asking: bool, looking: bool, above: Option<u64>) {
        self.welcome.asking.store(asking, Ordering::Relaxed);
        self.welcome.looking.store(looking, Ordering::Relaxed);
        self.welcome
            .above
            .store(above.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// No more offers are taken; what was taken can still be read by [`Self::next`].
    pub(super) fn close(&mut self) {
        self.set_welcome(false, false, None);
        self.receiver.close();
    }
}

impl Drop for Exit {
    fn drop(&mut self) {
        self.set_welcome(false, false, None);
    }
}

impl Claim {
    /// Which identity it is about.
    pub(super) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Jev answered; the answer counts until `expires`.
    pub(super) fn assessed(mut self, answers: Answers, model: &str, expires: Instant) {
        self.settled = true;
        self.desk.stats.success.inc();
        self.desk.outcomes.assessed(self.ticket, answers, model, expires);
    }

    /// Jev refused this instrument; that counts until `expires`.
    pub(super) fn refused(mut self, cause: Cause, expires: Instant) {
        self.settled = true;
        self.desk.stats.count_failure(cause);
        self.desk.outcomes.refused(self.ticket, expires);
    }

    /// The group has an answer, which counts until `expires`.
    pub(super) fn found(mut self, answers: Answers, model: &str, expires: Instant) {
        self.shared();
        self.desk.outcomes.assessed(self.ticket, answers, model, expires);
    }

    /// The group knows that Jev refused this instrument; that counts until `expires`.
    pub(super) fn found_refused(mut self, expires: Instant) {
        self.shared();
        self.desk.outcomes.refused(self.ticket, expires);
    }

    fn shared(&mut self) {
        self.settled = true;
        if self.is_counted {
            self.desk.stats.shared.inc();
        }
    }

    /// The group knows nothing: to be offered with its summary.
    pub(super) fn missed(mut self) {
        self.settled = true;
        self.desk.outcomes.missed(self.ticket);
    }

    /// There is no answer.
    pub(super) fn failed(mut self, cause: Cause) {
        self.fail(cause);
    }

    /// It was asked, and there was no answer: others have their turns before it is asked again.
    pub(super) fn asked_in_vain(mut self, cause: Cause) {
        self.desk.outcomes.asked_in_vain(self.ticket);
        self.fail(cause);
    }

    fn fail(&mut self, cause: Cause) {
        self.settled = true;
        if self.is_counted {
            self.desk.stats.count_failure(cause);
        }
        self.desk.outcomes.failed(self.ticket);
    }
}

impl Pending {
    /// Takes the item back, as if it had never been offered.
    fn withdraw(mut self) -> Item {
        self.claim.settled = true;
        Item {
            ticket: self.claim.ticket,
            identity: self.identity,
            rank: self.rank,
            summary: self.summary,
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.settled {
            self.fail(Cause::Cancelled);
        }
    }
}
