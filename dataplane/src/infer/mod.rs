//! Asking Jev, in the background: questions, client, queue, budget, cooldown.
//!
//! ```text
//! retain -> Inference::offer -> queue -> dispatcher -> Ask (JevClient) -> Outcomes -> retain
//! ```
//! Deliveries never wait for anything here: [`Inference::wants`] is two atomic loads, [`Inference::offer`] takes no
//! lock. What is not answered is kept by whoever offered it, so every failure here costs assessments, never metrics.

mod ask;
mod bucket;
pub mod client;
mod cooldown;
mod dispatcher;
mod error_reply;
pub mod failure;
pub mod questions;
mod queue;
pub mod reply;
pub mod state;
mod stats;
mod wanted;

#[cfg(test)]
mod fixtures;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use jevmetrics_api::member::InferenceState as Reported;
use jevmetrics_otlp::summary::Summary;

use self::ask::Ask;
use self::client::{ClientError, JevClient, KeySource};
use self::dispatcher::Dispatcher;
use self::queue::{Entrance, queue};
use self::state::{InferenceState, Seen};
use self::stats::Stats;
use self::wanted::Wanted;
use crate::retain::answers::Answers;
use crate::tls::http::WatchedHttp;

pub use self::dispatcher::Budget;

/// Names one identity in the assessments for the time of one question. Opaque to this room:
/// a ticket whose place was given to another identity meanwhile is recognised and its answer thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Place in the assessments.
    pub slot: u32,
    /// Which holder of that place.
    pub generation: u32,
}

/// One instrument to ask about.
#[derive(Debug)]
pub struct Item {
    /// Where the answer belongs.
    pub ticket: Ticket,
    /// What the model may see.
    pub summary: Summary,
}

/// Where answers go. Implemented by `retain`; every offered item ends in exactly one of these calls.
pub trait Outcomes: Send + Sync + 'static {
    /// Jev answered.
    fn assessed(&self, ticket: Ticket, answers: Answers, model: &str);
    /// Jev refused this instrument (400, 413, 422): kept as `unassessable` for one lifetime.
    fn refused(&self, ticket: Ticket);
    /// No answer; a later batch asks again.
    fn failed(&self, ticket: Ticket);
}

/// What asking needs to know.
pub struct InferenceConfig {
    /// Server, with the path that comes before `/v1/systemone`.
    pub base_url: String,
    /// Alias or pinned id.
    pub model: String,
    /// For one whole exchange.
    pub timeout: Duration,
    /// Instruments queued or being asked about at once.
    pub queue_size: NonZeroUsize,
    /// How fast may be asked.
    pub budget: Budget,
    /// Where the key comes from; `None` for a server that needs none.
    pub key: Option<KeySource>,
    /// HTTP clients with roots of their own; `None` for those of the system.
    pub clients: Option<WatchedHttp>,
}

/// The way in for instruments, and the way to see how asking goes.
pub struct Inference {
    entrance: Entrance,
    ask: Arc<dyn Ask>,
    seen: Arc<ArcSwap<Seen>>,
    stats: Stats,
    wanted: Wanted,
}

impl Inference {
    /// Starts asking on the current tokio runtime.
    ///
    /// # Guarantees
    /// After `stop` the task ends soon, everything offered has been reported to `outcomes`, nothing more is taken.
    ///
    /// # Errors
    /// The base URL is of no use, or TLS cannot be set up.
    pub fn start(
        config: InferenceConfig,
        outcomes: Arc<dyn Outcomes>,
        registry: &mut Registry,
        stop: CancellationToken,
    ) -> Result<(Arc<Self>, JoinHandle<()>), ClientError> {
        let InferenceConfig {
            base_url,
            model,
            timeout,
            queue_size,
            budget,
            key,
            clients,
        } = config;
        let client = match clients {
            Some(clients) => JevClient::over_tls(&base_url, clients, model, timeout, key)?,
            None => JevClient::new(&base_url, model, timeout, key)?,
        };
        if client.exposes_key() {
            tracing::warn!("inference.baseURL is plain http: the key crosses the network unencrypted");
        }
        Ok(Self::start_asking(
            Arc::new(client),
            queue_size,
            budget,
            outcomes,
            registry,
            stop,
        ))
    }

    fn start_asking(
        ask: Arc<dyn Ask>,
        queue_size: NonZeroUsize,
        budget: Budget,
        outcomes: Arc<dyn Outcomes>,
        registry: &mut Registry,
        stop: CancellationToken,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let stats = Stats::register(registry);
        let seen = Arc::new(ArcSwap::from_pointee(Seen::default()));
        let (entrance, exit) = queue(queue_size, outcomes, stats.clone());
        let dispatcher = Dispatcher::new(Arc::clone(&ask), budget, exit, Arc::clone(&seen), stats.clone());
        let task = tokio::spawn(dispatcher.run(stop));
        (
            Arc::new(Self {
                entrance,
                ask,
                seen,
                stats,
                wanted: Wanted::new(Instant::now()),
            }),
            task,
        )
    }

    /// Whether an offer would be taken now: there is room, and asking does not pause. Cheap enough for every metric;
    /// spares the caller a summary that nobody would take.
    pub fn wants(&self) -> bool {
        self.entrance.wants()
    }

    /// Queues an instrument.
    ///
    /// # Errors
    /// Gives the item back if there is no room or asking pauses; then `Outcomes` will not hear of it.
    #[allow(clippy::result_large_err, reason = "the item moves either way")]
    pub fn offer(&self, item: Item) -> Result<(), Item> {
        self.note_want();
        self.entrance.offer(item).inspect_err(|_| {
            self.stats.rejected.inc();
        })
    }

    /// Counts instruments that were not offered because [`Self::wants`] was false. Once a batch will do.
    pub fn count_rejected(&self, instruments: u64) {
        self.note_want();
        self.stats.rejected.inc_by(instruments);
    }

    fn note_want(&self) {
        self.wanted.note(Instant::now(), self.has_open_questions());
    }

    fn has_open_questions(&self) -> bool {
        self.stats.queue_length.get() > 0
    }

    /// Whether asking works, as the heartbeat says it: failing if nothing that was to be asked was answered for 60 s.
    pub fn reported(&self, now: Instant) -> Reported {
        let last_success = self.seen.load().last_success;
        self.wanted.state(now, self.has_open_questions(), last_success)
    }

    /// How asking goes.
    pub fn state(&self, now: Instant) -> InferenceState {
        self.seen.load().at(now, self.ask.obstacle())
    }
}
