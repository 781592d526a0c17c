//! Asking Jev, in the background: questions, client, queue, order, turns.
//!
//! ```text
//! retain -> Inference::offer ---> queue -> dispatcher -> room: known to the group? -> Outcomes -> retain
//!        -> Inference::look_up --'                  '-> room: may I ask? -> Ask (JevClient) -> Outcomes
//! ```
//! Deliveries never wait for anything here: [`Inference::wants`] is a few atomic loads, [`Inference::offer`] takes no
//! lock. What is not answered is kept by whoever offered it, so every failure here costs assessments, never metrics.

mod agenda;
pub(crate) mod ask;
pub(crate) mod bucket;
pub mod client;
pub(crate) mod cooldown;
mod dispatcher;
mod error_reply;
pub mod failure;
mod gate;
mod held;
pub(crate) mod outage;
mod owner;
pub mod questions;
mod queue;
pub mod rank;
mod refusals;
pub mod reply;
pub mod sharing;
pub mod state;
mod stats;
mod turn;
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
use jevmetrics_otlp::identity::Identity;
use jevmetrics_otlp::summary::Summary;

use self::ask::Ask;
use self::client::{ClientError, JevClient, KeySource};
use self::dispatcher::Dispatcher;
use self::held::Held;
use self::queue::{Entrance, queue};
use self::rank::Rank;
use self::refusals::Refusals;
use self::sharing::{Sharing, SharingState};
use self::state::{InferenceState, Seen};
use self::stats::Stats;
use self::turn::Turns;
use self::wanted::Wanted;
use crate::coordinate::Coordinate;
use crate::retain::answers::Answers;
use crate::tls::http::WatchedHttp;

/// An assessment in use is asked for again in the last of so many parts of its life.
pub const LAST_PART: u32 = 5;
/// Lives are kept in whole seconds, here and there.
const ROUNDING: Duration = Duration::from_secs(2);

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
    /// Under which the group knows it.
    pub identity: Identity,
    /// How much it needs the answer.
    pub rank: Rank,
    /// What the model may see.
    pub summary: Summary,
}

/// One instrument to be looked up among the group's assessments.
#[derive(Debug, Clone, Copy)]
pub struct Enquiry {
    /// Where the answer belongs.
    pub ticket: Ticket,
    /// Under which the group knows it.
    pub identity: Identity,
    /// How much it needs the answer.
    pub rank: Rank,
}

/// What of an instrument would be taken now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// All of it: [`Inference::offer`].
    Summary,
    /// Its identity: [`Inference::look_up`].
    Identity,
    /// Nothing.
    Nothing,
}

/// Where answers go. Implemented by `retain`; everything offered ends in exactly one of these calls, but for the hint
/// [`Self::asked_in_vain`].
pub trait Outcomes: Send + Sync + 'static {
    /// Jev answered, this process or another of its group. The answer counts until `expires`.
    fn assessed(&self, ticket: Ticket, answers: Answers, model: &str, expires: Instant);
    /// Jev refused this instrument (400, 413, 422): kept as `unassessable` until `expires`.
    fn refused(&self, ticket: Ticket, expires: Instant);
    /// The group knows nothing of it: to be offered with its summary.
    fn missed(&self, ticket: Ticket);
    /// It was asked in vain, and is about to be reported as failed: better left alone for a while.
    fn asked_in_vain(&self, _ticket: Ticket) {}
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
    /// Where the key comes from; `None` for a server that needs none.
    pub key: Option<KeySource>,
    /// HTTP clients with roots of their own; `None` for those of the system.
    pub clients: Option<WatchedHttp>,
    /// How it goes about.
    pub pace: Pace,
}

/// How asking goes about.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Instruments queued or being asked about at once.
    pub queue_size: NonZeroUsize,
    /// Questions under way at once.
    pub workers: NonZeroUsize,
    /// Lifetime of assessments.
    pub ttl: Duration,
}

/// The way in for instruments, and the way to see how asking goes.
pub struct Inference {
    entrance: Entrance,
    ask: Arc<dyn Ask>,
    room: Arc<dyn Coordinate>,
    seen: Arc<ArcSwap<Seen>>,
    sharing: Arc<Sharing>,
    held: Arc<Held>,
    stats: Stats,
    wanted: Wanted,
}

impl Inference {
    /// Starts asking on the current tokio runtime, as `room` permits.
    ///
    /// # Guarantees
    /// After `stop` the task ends soon, everything offered has been reported to `outcomes`, leases were given back as
    /// far as the room could be told, nothing more is taken.
    ///
    /// # Errors
    /// The base URL is of no use, or TLS cannot be set up.
    pub fn start(
        config: InferenceConfig,
        room: Arc<dyn Coordinate>,
        outcomes: Arc<dyn Outcomes>,
        registry: &mut Registry,
        stop: CancellationToken,
    ) -> Result<(Arc<Self>, JoinHandle<()>), ClientError> {
        let InferenceConfig {
            base_url,
            model,
            timeout,
            key,
            clients,
            pace,
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
            pace,
            room,
            outcomes,
            registry,
            stop,
        ))
    }

    pub(crate) fn start_asking(
        ask: Arc<dyn Ask>,
        pace: Pace,
        room: Arc<dyn Coordinate>,
        outcomes: Arc<dyn Outcomes>,
        registry: &mut Registry,
        stop: CancellationToken,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let stats = Stats::register(registry);
        let seen = Arc::new(ArcSwap::from_pointee(Seen::default()));
        let sharing = Arc::new(Sharing::default());
        let held = Arc::new(Held::default());
        let (entrance, exit) = queue(pace.queue_size, room.is_shared(), outcomes, stats.clone());
        let turns = Turns {
            room: Arc::clone(&room),
            ask: Arc::clone(&ask),
            refusals: Arc::new(Refusals::default()),
            held: Arc::clone(&held),
            stats: stats.clone(),
            stop,
            little: pace.ttl / LAST_PART + ROUNDING,
        };
        let dispatcher = Dispatcher::new(
            turns,
            pace.workers,
            pace.queue_size,
            exit,
            Arc::clone(&sharing),
            Arc::clone(&seen),
        );
        let task = tokio::spawn(dispatcher.run());
        let inference = Self {
            entrance,
            ask,
            room,
            seen,
            sharing,
            held,
            stats,
            wanted: Wanted::new(Instant::now()),
        };
        (Arc::new(inference), task)
    }

    /// What of an instrument with this rank would be taken now. Cheap enough for every metric; spares the caller a
    /// summary that nobody would take.
    pub fn wants(&self, rank: Rank) -> Want {
        self.entrance.wants(rank)
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

    /// Has an instrument looked up among the group's assessments; false if there is no room, and then `Outcomes` will
    /// not hear of it.
    pub fn look_up(&self, enquiry: Enquiry) -> bool {
        self.note_want();
        self.entrance.look_up(enquiry)
    }

    /// Counts instruments of which [`Self::wants`] wanted nothing. Once a batch will do.
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

    /// Whether asking works, as the heartbeat says it: failing if something was to be asked and for 60 s nothing showed that
    /// asking works: an answer, one of the group's, or a turn that others have first.
    pub fn reported(&self, now: Instant) -> Reported {
        let last_sign = self.seen.load().last_sign;
        self.wanted.state(now, self.has_open_questions(), last_sign)
    }

    /// How asking goes.
    pub fn state(&self, now: Instant) -> InferenceState {
        self.seen.load().at(now, self.ask.obstacle())
    }

    /// Whether every place in the queue is taken.
    pub fn is_full(&self) -> bool {
        self.entrance.is_full()
    }

    /// How sharing goes; `None` if nothing is shared.
    pub fn sharing(&self, now: Instant) -> Option<SharingState> {
        self.room.is_shared().then(|| {
            self.sharing
                .state(now, self.has_open_questions(), self.room.generation())
        })
    }

    /// Hashes of the instruments that this process asks about under a lease of the group.
    pub fn held_leases(&self) -> Vec<String> {
        self.held.list()
    }
}
