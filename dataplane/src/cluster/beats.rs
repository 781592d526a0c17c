//! Tells the group that this process is alive.
//!
//! ```text
//! start --> beat --10 s ± 10 %--> beat --not written, 1 to 2 s--> beat ... --draining--> beat ... --gone--> leave
//! ```
//! Invariants: the first heartbeat goes out at once, and so does one when draining begins; one that is not written is
//! tried again soon, and each ends in bounded time, so that two lost in a row make nobody vanish; a failure changes nothing
//! else but what is shown; one log line a change; nothing is written after the leave; leaving is tried again, in bounded
//! time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jevmetrics_api::member::Member;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::stats::Stats;
use crate::accept::jittered;
use crate::chance::random;
use crate::coordinate::presence::{LIFE, Presence};
use crate::coordinate::trouble::Trouble;

/// From one heartbeat to the next, spread by ± 10 %.
const INTERVAL: Duration = Duration::from_secs(10);

/// From the end of one that was not written to the next; up to as much again is added by chance: what many lost together,
/// they do not try together.
const AGAIN: Duration = Duration::from_secs(1);

/// What one heartbeat may take, whatever the timeout of commands. Within [`LIFE`] of one that was written there is room for
/// two that are not and a third: 11 s, 5 s and 2 s, 5 s and 2 s, 5 s.
const PATIENCE: Duration = Duration::from_secs(5);

/// What leaving may take. Then the heartbeat ends by itself.
const LEAVING: Duration = Duration::from_secs(3);

/// Between two attempts to leave.
const LEAVE_AGAIN: Duration = Duration::from_millis(100);

/// See the head of the module.
pub(crate) struct Beats {
    presence: Arc<dyn Presence>,
    stats: Stats,
    /// Why the latest heartbeat was not written.
    trouble: Mutex<Option<Trouble>>,
}

impl Beats {
    pub(crate) fn new(presence: Arc<dyn Presence>, stats: Stats) -> Self {
        Self {
            presence,
            stats,
            trouble: Mutex::default(),
        }
    }

    /// Why the latest heartbeat was not written.
    pub(super) fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.as_ref().map(ToString::to_string)
    }

    /// Goes on until `gone`; then takes this process out of the list, in bounded time.
    pub(crate) async fn run(
        &self,
        own: impl Fn() -> Member + Send,
        draining: CancellationToken,
        gone: CancellationToken,
    ) {
        let mut is_draining = false;
        loop {
            let due = Instant::now() + jittered(INTERVAL, getrandom::u32().unwrap_or(u32::MAX / 2));
            let document = own();
            let is_written = tokio::select! {
                biased;
                () = gone.cancelled() => break,
                is_written = self.beat(&document) => is_written,
            };
            let due = if is_written {
                due
            } else {
                Instant::now() + AGAIN.mul_f64(1.0 + random())
            };
            tokio::select! {
                biased;
                () = gone.cancelled() => break,
                () = draining.cancelled(), if !is_draining => is_draining = true,
                () = sleep_until(due) => {}
            }
        }
        let id = own().id;
        if timeout(LEAVING, self.leave(&id)).await.is_err() {
            tracing::debug!("the heartbeat could not be deleted: it ends by itself");
        }
    }

    /// Until it is done.
    async fn leave(&self, id: &str) {
        while let Err(trouble) = self.presence.leave(id).await {
            tracing::debug!(%trouble, "the heartbeat could not be deleted yet");
            sleep(LEAVE_AGAIN).await;
        }
    }

    /// Whether it was written.
    async fn beat(&self, own: &Member) -> bool {
        let document = String::from_utf8(own.to_json()).unwrap_or_default();
        let written = timeout(PATIENCE, self.presence.beat(&own.id, &document, LIFE))
            .await
            .unwrap_or(Err(Trouble::Timeout));
        let is_written = written.is_ok();
        self.stats.count_heartbeat(is_written);
        let trouble = written.err();
        let mut former = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = former.as_ref().map(Trouble::as_str) != trouble.as_ref().map(Trouble::as_str);
        match &trouble {
            _ if !is_news => {}
            None => tracing::info!("heartbeats are written again"),
            // Said once already, by the connection.
            Some(trouble) if trouble.stops_everything() => {}
            Some(trouble) => {
                tracing::warn!(%trouble, "heartbeats cannot be written: others do not see this process");
            }
        }
        *former = trouble;
        is_written
    }
}

#[cfg(test)]
#[path = "beats_tests.rs"]
mod tests;
