//! The pause after a failure: 1 s doubling to 32 s, reset by a success.
//!
//! Pure: `now` is an argument. A configuration fault goes straight to the longest pause; a longer wait that the
//! server asked for wins. What was asked before the pause began belongs to the same incident: its failure
//! does not double the pause, its success does not end it.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_secs(1);
/// Doublings until the longest pause, 32 s.
const DOUBLINGS: u32 = 5;

/// One failure, as far as the cooldown cares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failed {
    /// When the failed question was asked.
    pub(crate) asked_at: Instant,
    /// Only a change of the configuration helps.
    pub(crate) configuration: bool,
    /// How long the server wants to be left alone.
    pub(crate) wait: Option<Duration>,
}

/// When asking may go on. The default has seen nothing and does not pause.
#[derive(Debug, Default)]
pub(crate) struct Cooldown {
    /// Pauses since the last success, 0..=[`DOUBLINGS`].
    step: u32,
    /// The present or last pause since the last success: begin and end.
    pause: Option<(Instant, Instant)>,
}

impl Cooldown {
    /// Notes a failure.
    pub(crate) fn failed(&mut self, now: Instant, failed: Failed) {
        let earlier = self.pause.filter(|(begin, _)| failed.asked_at <= *begin);
        let backoff = if failed.configuration {
            self.step = DOUBLINGS;
            FIRST * 2_u32.pow(DOUBLINGS)
        } else if earlier.is_some() {
            Duration::ZERO
        } else {
            let backoff = FIRST * 2_u32.pow(self.step);
            self.step = (self.step + 1).min(DOUBLINGS);
            backoff
        };
        let end = now + backoff.max(failed.wait.unwrap_or_default());
        self.pause = Some(match earlier {
            Some((begin, former_end)) => (begin, end.max(former_end)),
            None => (now, end),
        });
    }

    /// Notes a success of a question asked at `asked_at`.
    pub(crate) fn succeeded(&mut self, asked_at: Instant) {
        if self.pause.is_none_or(|(begin, _)| asked_at > begin) {
            *self = Self::default();
        }
    }

    /// Time until asking may go on; zero if it may.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        self.pause
            .map_or(Duration::ZERO, |(_, end)| end.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(cooldown: &mut Cooldown, at: Instant, configuration: bool, wait: Option<u64>) {
        cooldown.failed(
            at,
            Failed {
                asked_at: at,
                configuration,
                wait: wait.map(Duration::from_secs),
            },
        );
    }

    #[test]
    fn pauses_double_from_1_s_to_32_s_and_a_success_resets_them() {
        let mut now = Instant::now();
        let mut cooldown = Cooldown::default();
        for seconds in [1, 2, 4, 8, 16, 32, 32, 32] {
            fail(&mut cooldown, now, false, None);
            assert_eq!(cooldown.remaining(now), Duration::from_secs(seconds));
            now += cooldown.remaining(now);
            assert_eq!(cooldown.remaining(now), Duration::ZERO);
        }
        cooldown.succeeded(now);
        fail(&mut cooldown, now, false, None);
        assert_eq!(cooldown.remaining(now), Duration::from_secs(1));
    }

    #[test]
    fn a_configuration_fault_goes_straight_to_the_longest_pause() {
        let now = Instant::now();
        let mut cooldown = Cooldown::default();
        fail(&mut cooldown, now, true, None);
        assert_eq!(cooldown.remaining(now), Duration::from_secs(32));
    }

    #[test]
    fn the_longer_of_own_pause_and_servers_wish_wins() {
        let now = Instant::now();
        for (wait, seconds) in [(Some(60), 60), (Some(0), 1), (None, 1)] {
            let mut cooldown = Cooldown::default();
            fail(&mut cooldown, now, false, wait);
            assert_eq!(cooldown.remaining(now), Duration::from_secs(seconds));
        }
    }

    #[test]
    fn failures_of_one_incident_do_not_double_the_pause() {
        let asked_at = Instant::now();
        let later = asked_at + Duration::from_millis(300);
        let mut cooldown = Cooldown::default();
        fail(&mut cooldown, asked_at, false, None);
        let same = Failed {
            asked_at,
            configuration: false,
            wait: None,
        };
        cooldown.failed(later, same);
        assert_eq!(cooldown.remaining(later), Duration::from_millis(700));
        let wait = Some(Duration::from_secs(5));
        cooldown.failed(later, Failed { wait, ..same });
        assert_eq!(cooldown.remaining(later), Duration::from_secs(5));
        let after = later + Duration::from_secs(5);
        fail(&mut cooldown, after, false, None);
        assert_eq!(cooldown.remaining(after), Duration::from_secs(2));
    }

    #[test]
    fn a_late_success_does_not_end_a_pause_that_began_after_it_was_asked() {
        let asked_at = Instant::now();
        let failed_at = asked_at + Duration::from_millis(100);
        let mut cooldown = Cooldown::default();
        fail(&mut cooldown, failed_at, false, Some(30));
        cooldown.succeeded(asked_at);
        assert_eq!(cooldown.remaining(failed_at), Duration::from_secs(30));
    }
}
