//! Who is alive, in a place that all members reach: heartbeats, for people to see. Nothing is decided by them.

use std::time::Duration;

use super::Answering;

/// Without another heartbeat a member counts as gone after this.
pub const LIFE: Duration = Duration::from_secs(30);
/// Most members of a list: the largest group twice, for a rollout in which all of them were killed.
pub const MOST: usize = 1_000;
/// Most bytes of the documents of a list: what members say of themselves, even of the longest list unless all have much to
/// explain, and not much more, for the answers to others come behind it.
pub const MOST_BYTES: usize = 2 << 20;

/// See the head of the module. Every call ends in bounded time.
pub trait Presence: Send + Sync + 'static {
    /// Says that `id` is alive, for `life`. `document` is what the others get. What has no answer after some seconds is given
    /// up.
    fn beat<'a>(&'a self, id: &'a str, document: &'a str, life: Duration) -> Answering<'a, ()>;

    /// Who said so within their life, the latest first: [`MOST`] with [`MOST_BYTES`] of documents at the most. Documents
    /// longer than [`jevmetrics_api::member::MAX_BYTES`] are told as empty.
    fn members(&self) -> Answering<'_, Listing>;

    /// Takes `id` out at once: heartbeats that are still on their way do not bring it back for [`LIFE`]. An attempt is given
    /// up soon, and the next one takes another way: it is for the caller to try again.
    fn leave<'a>(&'a self, id: &'a str) -> Answering<'a, ()>;
}

/// Who is in the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Those that are told.
    pub members: Vec<Listed>,
    /// Whether there are more: who is missing may be alive.
    pub is_cut: bool,
}

/// A member as it is in the list. Anybody with the right to write may have written it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The name under which it is listed.
    pub id: String,
    /// Time since its heartbeat, by the clock of the place.
    pub age: Duration,
    /// What it said.
    pub document: Vec<u8>,
}
