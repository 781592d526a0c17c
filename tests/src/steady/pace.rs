//! When the next export is due: at even distances, and those that were late follow at once. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// What is later than this is not caught up with: a process that was stopped does not come back with a burst.
const MOST_LATE: Duration = Duration::from_secs(1);

/// A place on the time line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    last: Instant,
}

impl Pace {
    /// The first is due one distance after `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self { last: now }
    }

    /// When the next one is due; never if there are none a second.
    pub(super) fn due(&mut self, per_second: f64, now: Instant) -> Option<Instant> {
        if per_second <= 0.0 {
            return None;
        }
        let distance = Duration::try_from_secs_f64(per_second.recip()).ok()?;
        if let Some(earliest) = now.checked_sub(MOST_LATE + distance) {
            self.last = self.last.max(earliest);
        }
        self.last.checked_add(distance)
    }

    /// The one that was due then has begun.
    pub(super) fn began(&mut self, due: Option<Instant>) {
        self.last = due.unwrap_or(self.last);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{MOST_LATE, Pace};

    const TENTH: Duration = Duration::from_millis(100);

    #[test]
    fn the_distance_does_not_grow_by_what_is_late() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for number in 1..=20 {
            // Looked at late, by less than is caught up with.
            let due = pace.due(10.0, start + TENTH * number + TENTH / 2);
            assert_eq!(due, Some(start + TENTH * number));
            pace.began(due);
        }
    }

    #[test]
    fn a_long_stop_is_not_caught_up_with() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let now = start + Duration::from_mins(10);
        let due = pace.due(10.0, now);
        assert_eq!(due, Some(now - MOST_LATE));
    }

    #[test]
    fn none_a_second_is_never() {
        let now = Instant::now();
        for rate in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(Pace::new(now).due(rate, now), None, "{rate}");
        }
        // Neither does a rate that is too small for a clock.
        assert_eq!(Pace::new(now).due(f64::MIN_POSITIVE, now), None);
    }
}
