//! The process's clock: read in the shells, passed as a value to whatever decides.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::retain::assessments::Seconds;
use crate::retain::engine::Moment;

/// Counts from the start of the process; lives are measured by it, never by wall clocks.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// Starts at zero.
    pub fn start() -> Self {
        Self { start: now() }
    }

    /// Whole seconds since the start.
    pub fn seconds(&self) -> Seconds {
        self.seconds_of(now())
    }

    /// The second in which `at` lies. What ends in it counts until the second before.
    pub fn seconds_of(&self, at: Instant) -> Seconds {
        let seconds = at.saturating_duration_since(self.start).as_secs();
        Seconds::try_from(seconds).unwrap_or(Seconds::MAX)
    }

    /// The time of a request. The wall clock only stamps companions.
    pub fn moment(&self) -> Moment {
        Moment {
            seconds: self.seconds(),
            unix_nanos: u64::try_from(since_epoch().as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// The wall clock, for heartbeats.
    pub fn unix_nanos(&self) -> i64 {
        i64::try_from(since_epoch().as_nanos()).unwrap_or(i64::MAX)
    }
}

/// tokio's clock, which tests can pause.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[allow(
    clippy::disallowed_methods,
    reason = "the outermost shell: passed on as a value"
)]
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
