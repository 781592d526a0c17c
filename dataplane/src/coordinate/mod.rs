//! Who asks, and who shares: admissions, leases, the cooldown, assessments of the group.
//!
//! ```text
//! infer --look_up--> score of the group, or none            many identities a call, reads only
//! infer --admit----> hit | owner | wait | mismatch
//!                           owner --> ask Jev --> publish | fail | release
//! ```
//! One trait, two rooms: [`Local`] for a process by itself, [`Redis`] for replicas that share.
//!
//! Invariants:
//! - No answer of Redis, no question: there is no way around an admission.
//! - Only what [`Publication::Published`] confirms may be stored by its owner.
//! - Lives are what Redis says is left, counted from before it was asked, so what a call took is taken off. Clocks of
//!   replicas are never compared.
//! - Nothing here is called on the way of a request.

mod backoff;
pub mod block;
pub mod connection;
pub mod keys;
mod link;
mod local;
pub mod payload;
pub mod presence;
mod redis;
mod reply;
mod script;
pub mod stats;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod test_server;
pub mod trouble;
mod unclear;

use std::pin::Pin;
use std::time::{Duration, Instant};

use jevmetrics_otlp::identity::Identity;

use self::block::Block;
use self::trouble::Trouble;
use crate::infer::failure::Cause;
use crate::retain::answers::Answers;

pub use self::local::Local;
pub use self::redis::{Redis, RedisConfig};

/// How many identities are best looked up in one call: ten thousand take 40 round trips, and none holds the server up.
pub const LOOK_UP_BATCH: usize = 256;

/// An answer on its way. May be dropped at any point; what was sent is done all the same.
pub type Answering<'a, T> = Pin<Box<dyn Future<Output = Result<T, Trouble>> + Send + 'a>>;

/// See the head of the module. Every call ends in bounded time.
pub trait Coordinate: Send + Sync + 'static {
    /// Whether [`Self::look_up`] can find anything.
    fn is_shared(&self) -> bool;

    /// Reads what the group knows, in the order of `identities`.
    fn look_up<'a>(&'a self, identities: &'a [Identity]) -> Answering<'a, LookUp>;

    /// Asks to be the one who asks. What is shared counts as a hit if more than `least` is left of its life:
    /// nothing for an unknown instrument, more for one that is to be refreshed.
    fn admit(&self, identity: Identity, least: Duration) -> Answering<'_, Admission>;

    /// Shares what Jev said, and ends the lease. Answers end a cooldown that began before they were asked for.
    fn publish<'a>(&'a self, lease: &'a Lease, verdict: &'a Verdict) -> Answering<'a, Publication>;

    /// Notes that asking failed, and ends the lease. Tells how long nobody asks now.
    fn fail<'a>(&'a self, lease: &'a Lease, setback: Setback) -> Answering<'a, Duration>;

    /// Gives the lease back unused.
    fn release<'a>(&'a self, lease: &'a Lease) -> Answering<'a, ()>;

    /// What is wrong with the room at present, whatever the last call met.
    fn trouble(&self) -> Option<Trouble> {
        None
    }

    /// Of the budget in use; 0 if budgets are not counted.
    fn generation(&self) -> u64 {
        0
    }

    /// Gives back what may be held without anybody's knowing. The last call.
    fn close(&self) -> Answering<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// How long calls are pointless.
    fn pauses(&self) -> Pauses {
        Pauses::default()
    }
}

/// How long calls are pointless: those that read, and those that ask to be the one who asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pauses {
    /// Look-ups.
    pub reading: Duration,
    /// Admissions.
    pub writing: Duration,
}

/// What Jev said about one instrument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Its answers.
    Assessed {
        /// The four answers.
        answers: Answers,
        /// The model that answered: 1 to 128 bytes without control characters.
        model: String,
    },
    /// It refused this instrument.
    Refused,
}

/// What the group knows of one instrument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// What Jev said.
    pub verdict: Verdict,
    /// Until when it counts: at most one lifetime of assessments away.
    pub expires: Instant,
}

/// What a look-up found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookUp {
    /// One entry for each identity.
    Found(Vec<Option<Shared>>),
    /// Refused: the budgets contradict each other.
    Mismatch(Mismatch),
}

/// The right to ask about one instrument for a while.
#[derive(Debug)]
pub struct Lease {
    /// About whom.
    pub identity: Identity,
    /// Names the admission; no other ever had the same.
    pub token: String,
    /// When the admission was asked for.
    pub asked_at: Instant,
    /// Until when the question must be answered, so that there is time to publish the answer.
    pub deadline: Option<Instant>,
}

/// What came of asking for an admission.
#[derive(Debug)]
pub enum Admission {
    /// Nobody needs to ask.
    Hit(Shared),
    /// The caller asks.
    Owner(Lease),
    /// Not now.
    Wait(Wait),
    /// Not with this budget.
    Mismatch(Mismatch),
}

/// Why one has to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// Somebody asks about this instrument, for at most so long.
    Lease(Duration),
    /// Asking failed; nobody asks for so long.
    Cooldown(Duration),
    /// As many questions as allowed are under way.
    InFlight,
    /// As many questions as allowed were begun; more may in so long.
    Rate(Duration),
    /// A new budget comes into force in so long; nobody asks until then.
    Pending {
        /// Time left.
        left: Duration,
        /// The budget before.
        old: Block,
        /// The budget to come.
        new: Block,
    },
    /// The caller's budget is an old one; this one is in force, or will be.
    Superseded(Block),
}

impl Wait {
    /// A stable word for metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Lease(_) => "lease",
            Self::Cooldown(_) => "cooldown",
            Self::InFlight => "in_flight",
            Self::Rate(_) => "second",
            Self::Pending { .. } => "pending",
            Self::Superseded(_) => "superseded",
        }
    }
}

/// Two budgets that cannot both hold in one namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this process has the budget {mine}, its namespace has {theirs}: they must be the same")]
pub struct Mismatch {
    /// The caller's.
    pub mine: Block,
    /// The one in force.
    pub theirs: Block,
}

/// What became of a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publication {
    /// It counts until then.
    Published(Instant),
    /// The lease was over: nobody may use it.
    Late,
}

/// A question that Jev did not answer.
#[derive(Debug, Clone, Copy)]
pub struct Setback {
    /// Why.
    pub cause: Cause,
    /// How long the server wants to be left alone; at most 60 s.
    pub wait: Option<Duration>,
}
