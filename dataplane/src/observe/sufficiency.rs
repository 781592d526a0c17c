//! Whether the budget suffices to keep fresh what is live.
//!
//! Pure: `now` is an argument. Around the border it does not waver: enough again is a twentieth below it.

use std::time::{Duration, Instant};

use jevmetrics_api::member::BudgetState;

/// So long must a budget be too small before the heartbeat says so: newcomers and restarts pass by themselves.
const PATIENCE: Duration = Duration::from_mins(10);

/// What was last seen.
#[derive(Debug, Default)]
pub struct Sufficiency {
    live: u64,
    refreshable: u64,
    too_small_since: Option<Instant>,
    full_since: Option<Instant>,
    is_said: bool,
}

/// A change, for one log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// More instruments are live than can be asked about in one lifetime of assessments.
    TooSmall,
    /// No longer.
    Enough,
}

impl Sufficiency {
    /// Takes a reading: instruments that are live, those that can be asked about in one lifetime, and whether the queue is
    /// full. Of a group one process sees a part of the instruments, but each has its part of what is too much.
    pub fn read(&mut self, live: u64, refreshable: u64, is_full: bool, now: Instant) -> Option<Change> {
        (self.live, self.refreshable) = (live, refreshable);
        match self.too_small_since {
            None if live > refreshable => self.too_small_since = Some(now),
            Some(_) if live <= refreshable - refreshable / 20 => self.too_small_since = None,
            _ => {}
        }
        self.full_since = is_full.then(|| self.full_since.unwrap_or(now));
        let is_too_small = self.too_small_since.is_some() || self.has_been_full(now);
        let was_said = std::mem::replace(&mut self.is_said, is_too_small);
        match (was_said, is_too_small) {
            (false, true) => Some(Change::TooSmall),
            (true, false) => Some(Change::Enough),
            _ => None,
        }
    }

    fn has_been_full(&self, now: Instant) -> bool {
        let lasts = |since: Instant| now.saturating_duration_since(since) >= PATIENCE;
        self.full_since.is_some_and(lasts)
    }

    /// The latest reading.
    pub fn reading(&self) -> (u64, u64) {
        (self.live, self.refreshable)
    }

    /// As the heartbeat says it.
    pub fn state(&self, now: Instant) -> BudgetState {
        match self.too_small_since {
            Some(since) if now.saturating_duration_since(since) >= PATIENCE => BudgetState::TooSmall,
            _ if self.has_been_full(now) => BudgetState::TooSmall,
            _ => BudgetState::Enough,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_stays_too_small_is_said_at_once_and_reported_after_ten_minutes() {
        let begin = Instant::now();
        let minutes = |number| begin + Duration::from_mins(number);
        let mut sufficiency = Sufficiency::default();
        assert_eq!(sufficiency.read(9_000, 9_000, false, begin), None);
        assert_eq!(
            sufficiency.read(9_001, 9_000, false, begin),
            Some(Change::TooSmall)
        );
        assert_eq!(sufficiency.read(12_000, 9_000, false, minutes(5)), None);
        assert_eq!(sufficiency.reading(), (12_000, 9_000));
        assert_eq!(sufficiency.state(minutes(9)), BudgetState::Enough);
        assert_eq!(sufficiency.state(minutes(10)), BudgetState::TooSmall);
        assert_eq!(
            sufficiency.read(8_551, 9_000, false, minutes(11)),
            None,
            "too close"
        );
        assert_eq!(
            sufficiency.read(8_550, 9_000, false, minutes(12)),
            Some(Change::Enough)
        );
        assert_eq!(sufficiency.state(minutes(12)), BudgetState::Enough);
    }

    #[test]
    fn a_queue_that_stays_full_says_the_same() {
        let begin = Instant::now();
        let minutes = |number| begin + Duration::from_mins(number);
        let mut sufficiency = Sufficiency::default();
        assert_eq!(sufficiency.read(10, 9_000, true, begin), None);
        assert_eq!(sufficiency.read(10, 9_000, false, minutes(5)), None);
        assert_eq!(sufficiency.read(10, 9_000, true, minutes(6)), None);
        assert_eq!(sufficiency.read(10, 9_000, true, minutes(15)), None);
        assert_eq!(
            sufficiency.read(10, 9_000, true, minutes(16)),
            Some(Change::TooSmall)
        );
        assert_eq!(sufficiency.state(minutes(16)), BudgetState::TooSmall);
        assert_eq!(
            sufficiency.read(10, 9_000, false, minutes(17)),
            Some(Change::Enough)
        );
    }
}
