//! Whether anybody has a turn now: closed by what concerns all, so that one answer spares the others the question.
//!
//! Pure: `now` and randomness are arguments.

use std::time::{Duration, Instant};

/// Shortest wait before asking again, in milliseconds, and how much chance adds.
const FIRST_MILLISECONDS: f64 = 100.0;
const CHANCE_MILLISECONDS: f64 = 150.0;
/// Longest wait before asking again, unless a longer one was named.
const LONGEST: Duration = Duration::from_secs(2);
/// More doublings than it takes to get there.
const DOUBLINGS: u32 = 5;

/// See the head of the module.
#[derive(Debug, Default)]
pub(super) struct Gate {
    until: Option<Instant>,
    waits: u32,
    paused_until: Option<Instant>,
}

impl Gate {
    /// Closed for as long as was said: the next turn may come right then, as the budget has it.
    pub(super) fn close_for(&mut self, left: Duration, now: Instant) {
        self.close_until(now + left);
    }

    /// Closed for a time that grows with every closing: nobody said how long.
    pub(super) fn close(&mut self, now: Instant, random: f64) {
        self.close_until(now + delay(self.waits, random));
        self.waits = (self.waits + 1).min(DOUBLINGS);
    }

    /// As [`Self::close_for`], and what is new need not come: something is wrong that takes longer than a turn.
    pub(super) fn pause_for(&mut self, left: Duration, now: Instant) {
        self.close_for(left, now);
        self.paused_until = self.until;
    }

    /// The same for [`Self::close`].
    pub(super) fn pause(&mut self, now: Instant, random: f64) {
        self.close(now, random);
        self.paused_until = self.until;
    }

    /// The reason is gone.
    pub(super) fn open(&mut self) {
        *self = Self::default();
    }

    /// Until when it is closed; `None` if it is open.
    pub(super) fn closed_until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| now < *until)
    }

    /// Whether what is new need not come.
    pub(super) fn is_pause(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    fn close_until(&mut self, until: Instant) {
        self.until = Some(self.until.map_or(until, |former| former.max(until)));
    }
}

/// 100 to 250 ms, doubling with each wait, up to 2 s. `random` is within 0..=1.
pub(super) fn delay(waits: u32, random: f64) -> Duration {
    let first = FIRST_MILLISECONDS + CHANCE_MILLISECONDS * random.clamp(0.0, 1.0);
    Duration::from_secs_f64(first / 1000.0)
        .saturating_mul(2_u32.pow(waits.min(DOUBLINGS)))
        .min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn a_time_that_was_named_is_kept_to_the_letter() {
        let now = Instant::now();
        let mut gate = Gate::default();
        assert_eq!(gate.closed_until(now), None);
        gate.close_for(milliseconds(70), now);
        gate.close_for(milliseconds(30), now);
        assert_eq!(gate.closed_until(now), Some(now + milliseconds(70)));
        assert_eq!(gate.closed_until(now + milliseconds(70)), None);
    }

    #[test]
    fn without_one_the_waits_grow_to_two_seconds_until_it_opens() {
        let mut now = Instant::now();
        let mut gate = Gate::default();
        for expected in [100, 200, 400, 800, 1600, 2000, 2000] {
            gate.close(now, 0.0);
            assert_eq!(gate.closed_until(now), Some(now + milliseconds(expected)));
            now += milliseconds(expected);
        }
        gate.open();
        assert_eq!(gate.closed_until(now), None);
        gate.close(now, 1.0);
        assert_eq!(gate.closed_until(now), Some(now + milliseconds(250)));
    }

    #[test]
    fn only_a_pause_turns_newcomers_away() {
        let now = Instant::now();
        let mut gate = Gate::default();
        gate.close(now, 0.0);
        assert!(!gate.is_pause(now));
        gate.pause_for(milliseconds(100), now);
        assert!(gate.is_pause(now));
        gate.close_for(milliseconds(500), now);
        assert!(gate.is_pause(now), "still");
        assert!(!gate.is_pause(now + milliseconds(100)));
    }

    #[test]
    fn chance_spreads_the_first_wait_over_a_hundred_and_fifty_milliseconds() {
        assert_eq!(delay(0, 0.0), milliseconds(100));
        assert_eq!(delay(0, 1.0), milliseconds(250));
        assert_eq!(delay(1, 1.0), milliseconds(500));
        assert_eq!(delay(u32::MAX, 1.0), LONGEST);
    }
}
