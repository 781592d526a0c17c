//! The local request budget: a token bucket as one instant (the generic cell rate algorithm).
//!
//! Pure: `now` is an argument. At most `burst` tokens lie ready, and over any stretch of time no more than
//! `burst` + stretch × rate are taken.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// How many requests may start, and when.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    /// Time that one token takes to arrive.
    interval: Duration,
    /// How far ahead of its arrival a token may be taken: `interval` × (`burst` - 1).
    tolerance: Duration,
    /// When the next token arrives if every one is taken on arrival.
    next: Option<Instant>,
}

impl TokenBucket {
    /// A full bucket.
    pub(crate) fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        let interval = Duration::from_secs(1) / per_second.get();
        Self {
            interval,
            tolerance: interval * (burst.get() - 1),
            next: None,
        }
    }

    /// Takes a token, or says how long until there is one.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let next = self.next.map_or(now, |next| next.max(now));
        let wait = next.saturating_duration_since(now + self.tolerance);
        if !wait.is_zero() {
            return Err(wait);
        }
        self.next = Some(next + self.interval);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn bucket(per_second: u32, burst: u32) -> TokenBucket {
        TokenBucket::new(
            NonZeroU32::new(per_second).unwrap(),
            NonZeroU32::new(burst).unwrap(),
        )
    }

    #[test]
    fn a_full_bucket_gives_its_burst_and_then_one_token_an_interval() {
        let start = Instant::now();
        let mut bucket = bucket(10, 3);
        assert_eq!(
            [bucket.take(start), bucket.take(start), bucket.take(start)],
            [Ok(()); 3]
        );
        assert_eq!(bucket.take(start), Err(Duration::from_millis(100)));
        assert_eq!(
            bucket.take(start + Duration::from_millis(40)),
            Err(Duration::from_millis(60))
        );
        assert_eq!(bucket.take(start + Duration::from_millis(100)), Ok(()));
        assert_eq!(
            bucket.take(start + Duration::from_millis(100)),
            Err(Duration::from_millis(100))
        );
    }

    #[test]
    fn idle_time_saves_up_no_more_than_the_burst() {
        let start = Instant::now();
        let mut bucket = bucket(10, 2);
        let later = start + Duration::from_hours(1);
        assert_eq!(
            [bucket.take(start), bucket.take(later), bucket.take(later)],
            [Ok(()); 3]
        );
        assert!(bucket.take(later).is_err());
    }

    #[test]
    fn no_schedule_of_takes_exceeds_the_rate() {
        let start = Instant::now();
        let mut bucket = bucket(7, 1);
        let taken = (0..10_000u64)
            .filter(|ms| bucket.take(start + Duration::from_millis(*ms)).is_ok())
            .count();
        assert_eq!(taken, 70);
    }
}
