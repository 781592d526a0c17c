//! The bounded queue between deliveries, which offer instruments, and the dispatcher, which asks about them.
//!
//! ```text
//! delivery -> Entrance::offer -> Pending in the channel -> dispatcher -> Claim settled
//! ```
//! A place is held from the offer until the [`Claim`] is gone, so what is being asked about or waits for its turn
//! counts towards the bound. Every claim ends in exactly one call of [`Outcomes`], on whatever way it goes: one that is
//! dropped unsettled (a stop, a panic) counts as failed. Offering takes no lock and never waits.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use jevmetrics_otlp::summary::Summary;

use super::failure::Cause;
use super::stats::Stats;
use super::{Item, Outcomes, Ticket};
use crate::retain::answers::Answers;

/// Where instruments come in.
pub(super) struct Entrance {
    places: Arc<Semaphore>,
    /// Whether questions are welcome: neither cooling down nor stopped.
    open: Arc<AtomicBool>,
    sender: mpsc::UnboundedSender<Pending>,
    outcomes: Arc<dyn Outcomes>,
    stats: Stats,
}

/// Where the dispatcher takes them out, in the order of the offers.
pub(super) struct Exit {
    receiver: mpsc::UnboundedReceiver<Pending>,
    open: Arc<AtomicBool>,
}

/// One instrument in the queue.
pub(super) struct Pending {
    pub(super) summary: Summary,
    pub(super) claim: Claim,
}

/// The duty to report one instrument's end, with its place in the queue.
pub(super) struct Claim {
    ticket: Ticket,
    outcomes: Arc<dyn Outcomes>,
    stats: Stats,
    settled: bool,
    _place: Place,
}

/// Counts as long as it lives.
struct Place {
    _permit: OwnedSemaphorePermit,
    length: Gauge,
}

/// An open queue with `size` places.
pub(super) fn queue(size: NonZeroUsize, outcomes: Arc<dyn Outcomes>, stats: Stats) -> (Entrance, Exit) {
    // The places bound the channel.
    let (sender, receiver) = mpsc::unbounded_channel();
    let places = Arc::new(Semaphore::new(size.get().min(Semaphore::MAX_PERMITS)));
    let open = Arc::new(AtomicBool::new(true));
    (
        Entrance {
            places,
            open: Arc::clone(&open),
            sender,
            outcomes,
            stats,
        },
        Exit { receiver, open },
    )
}

impl Entrance {
    /// Whether an offer would be taken now. Two atomic loads.
    pub(super) fn wants(&self) -> bool {
        self.open.load(Ordering::Relaxed) && self.places.available_permits() > 0
    }

    /// Takes the item, or gives it back unreported.
    #[allow(clippy::result_large_err, reason = "the item moves either way")]
    pub(super) fn offer(&self, item: Item) -> Result<(), Item> {
        if !self.open.load(Ordering::Relaxed) {
            return Err(item);
        }
        let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() else {
            return Err(item);
        };
        let claim = Claim {
            ticket: item.ticket,
            outcomes: Arc::clone(&self.outcomes),
            stats: self.stats.clone(),
            settled: false,
            _place: Place::new(permit, self.stats.queue_length.clone()),
        };
        match self.sender.send(Pending {
            summary: item.summary,
            claim,
        }) {
            Ok(()) => {
                self.stats.enqueued.inc();
                Ok(())
            }
            Err(unsent) => Err(unsent.0.withdraw()),
        }
    }
}

impl Exit {
    /// The next in line; `None` once closed and empty. May be dropped while it waits without loss.
    pub(super) async fn next(&mut self) -> Option<Pending> {
        self.receiver.recv().await
    }

    /// Says whether offers are welcome.
    pub(super) fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Relaxed);
    }

    /// No more offers are taken; what was taken can still be read by [`Self::next`].
    pub(super) fn close(&mut self) {
        self.set_open(false);
        self.receiver.close();
    }
}

impl Drop for Exit {
    fn drop(&mut self) {
        self.set_open(false);
    }
}

impl Claim {
    /// Which identity it is about.
    pub(super) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Jev answered.
    pub(super) fn assessed(mut self, answers: Answers, model: &str) {
        self.settled = true;
        self.stats.success.inc();
        self.outcomes.assessed(self.ticket, answers, model);
    }

    /// Jev refused this instrument.
    pub(super) fn refused(mut self, cause: Cause) {
        self.settled = true;
        self.stats.count_failure(cause);
        self.outcomes.refused(self.ticket);
    }

    /// There is no answer.
    pub(super) fn failed(mut self, cause: Cause) {
        self.fail(cause);
    }

    fn fail(&mut self, cause: Cause) {
        self.settled = true;
        self.stats.count_failure(cause);
        self.outcomes.failed(self.ticket);
    }
}

impl Pending {
    /// Takes the item back, as if it had never been offered.
    fn withdraw(mut self) -> Item {
        self.claim.settled = true;
        Item {
            ticket: self.claim.ticket,
            summary: self.summary,
        }
    }
}

impl Place {
    fn new(permit: OwnedSemaphorePermit, length: Gauge) -> Self {
        length.inc();
        Self {
            _permit: permit,
            length,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.length.dec();
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.settled {
            self.fail(Cause::Cancelled);
        }
    }
}
