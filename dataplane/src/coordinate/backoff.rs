//! How long to leave a failing Redis alone: 0.25 s doubling to 4 s, with jitter.
//!
//! Pure: `now` and randomness are arguments.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(250);
/// Doublings until the longest pause, 4 s.
const DOUBLINGS: u32 = 4;

/// When to try again. The default may be tried at once: it takes the place of this one after a success.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    /// Failures since the last success, at most `DOUBLINGS` + 1.
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// Notes a failure. The pause is between half of its length and all of it, as `random` within 0..=1 says:
    /// replicas that lost Redis together do not come back together.
    pub(super) fn failed(&mut self, now: Instant, random: f64) {
        let longest = FIRST * 2_u32.pow(self.failures.min(DOUBLINGS));
        self.failures = (self.failures + 1).min(DOUBLINGS + 1);
        self.until = Some(now + longest.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0));
    }

    /// Time until it may be tried again; zero if it may.
    pub(super) fn remaining(&self, now: Instant) -> Duration {
        self.until
            .map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_four_seconds() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        assert_eq!(backoff.remaining(now), Duration::ZERO);
        for milliseconds in [250, 500, 1000, 2000, 4000, 4000, 4000] {
            backoff.failed(now, 1.0);
            assert_eq!(backoff.remaining(now), Duration::from_millis(milliseconds));
        }
        backoff.failed(now, 0.0);
        assert_eq!(backoff.remaining(now), Duration::from_secs(2));
        assert_eq!(backoff.remaining(now + Duration::from_secs(2)), Duration::ZERO);
    }
}
