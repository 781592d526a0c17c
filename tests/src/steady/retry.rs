//! When an export is tried again, and when it is given up: as exporters of OpenTelemetry's SDKs do it. Pure.

use std::time::Duration;

/// Growth of the wait from one attempt to the next.
const GROWTH: f64 = 1.5;

/// How patient an exporter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// The first wait, on average.
    pub first: Duration,
    /// The longest wait, unless the backend asks for a longer one.
    pub most: Duration,
    /// One attempt may take so long.
    pub attempt: Duration,
    /// All attempts and the waits between them may take so long; then the export has failed.
    pub give_up: Duration,
}

impl Default for Retry {
    /// Waits as Java's exporter; gives up as Go's.
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            most: Duration::from_secs(5),
            attempt: Duration::from_secs(10),
            give_up: Duration::from_mins(1),
        }
    }
}

impl Retry {
    /// How long to wait after the attempt number `attempt`, which is 1 for the first: `None` if the export is to be given
    /// up. `spent` is the time since it began, `asked` what the backend asked for, `jitter` is from 0 to 1.
    pub(super) fn wait(
        &self,
        attempt: u32,
        spent: Duration,
        asked: Option<Duration>,
        jitter: f64,
    ) -> Option<Duration> {
        let growth = GROWTH.powi(i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX));
        let grown = (self.first.as_secs_f64() * growth).min(self.most.as_secs_f64());
        let own = Duration::from_secs_f64(grown * (0.5 + jitter));
        let wait = own.max(asked.unwrap_or_default());
        (spent + wait < self.give_up).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Retry;

    const NONE: Duration = Duration::ZERO;

    #[test]
    fn waits_grow_to_their_bound_and_keep_to_what_was_asked_for() {
        let retry = Retry::default();
        let wait = |attempt, asked| retry.wait(attempt, NONE, asked, 0.5);
        assert_eq!(wait(1, None), Some(Duration::from_secs(1)));
        assert_eq!(wait(2, None), Some(Duration::from_millis(1_500)));
        assert_eq!(wait(9, None), Some(Duration::from_secs(5)));
        assert_eq!(wait(u32::MAX, None), Some(Duration::from_secs(5)));
        assert_eq!(
            wait(1, Some(Duration::from_secs(20))),
            Some(Duration::from_secs(20))
        );
        assert_eq!(
            wait(1, Some(Duration::from_millis(1))),
            Some(Duration::from_secs(1))
        );
        assert_eq!(retry.wait(1, NONE, None, 0.0), Some(Duration::from_millis(500)));
        assert_eq!(retry.wait(1, NONE, None, 1.0), Some(Duration::from_millis(1_500)));
    }

    #[test]
    fn what_would_take_too_long_is_given_up() {
        let retry = Retry::default();
        let spent = Duration::from_secs(58);
        assert_eq!(retry.wait(1, spent, None, 0.5), Some(Duration::from_secs(1)));
        assert_eq!(retry.wait(9, spent, None, 0.5), None);
        assert_eq!(retry.wait(1, NONE, Some(Duration::from_mins(1)), 0.5), None);
    }
}
