//! The pause after a failure: 1 s doubling to 32 s, reset by a success.
//!
//! Pure: `now` is an argument. A configuration fault goes straight to the longest pause; a longer wait that the
//! server asked for wins. What was asked before the pause began belongs to the same incident: its failure
//! does not double the pause, its success does not end it.

use std::time::{Duration, Instant};

use super::failure::Cause;

const FIRST: Duration = Duration::from_secs(1);
/// Doublings until the longest pause, 32 s.
const DOUBLINGS: u32 = 5;

/// What is wrong at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trouble {
    /// The latest cause.
    pub(super) cause: Cause,
    /// Only a change of the configuration helps: key, address, model, credit.
    pub(super) configuration: bool,
}

/// A change of state, for one log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Asking began to fail, or fails in another way that somebody must act upon.
    Failing(Trouble),
    /// Asking works again.
    Recovered,
}

/// One failure, as far as the cooldown cares.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failed {
    /// When the failed question was asked.
    pub(super) asked_at: Instant,
    /// What went wrong.
    pub(super) trouble: Trouble,
    /// How long the server wants to be left alone.
    pub(super) wait: Option<Duration>,
}

/// When asking may go on. The default has seen nothing and does not pause.
#[derive(Debug, Default)]
pub(super) struct Cooldown {
    /// Pauses since the last success, 0..=[`DOUBLINGS`].
    step: u32,
    /// The present or last pause since the last success: begin and end.
    pause: Option<(Instant, Instant)>,
    trouble: Option<Trouble>,
}

impl Cooldown {
    /// Notes a failure.
    pub(super) fn failed(&mut self, now: Instant, failed: Failed) -> Option<Change> {
        let earlier = self.pause.filter(|(begin, _)| failed.asked_at <= *begin);
        let backoff = if failed.trouble.configuration {
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

        let former = self.trouble;
        let outranked = earlier.is_some()
            && !failed.trouble.configuration
            && former.is_some_and(|trouble| trouble.configuration);
        if outranked {
            return None;
        }
        self.trouble = Some(failed.trouble);
        (!former.is_some_and(|former| former.same_state(failed.trouble)))
            .then_some(Change::Failing(failed.trouble))
    }

    /// Notes a success of a question asked at `asked_at`.
    pub(super) fn succeeded(&mut self, asked_at: Instant) -> Option<Change> {
        if self.pause.is_some_and(|(begin, _)| asked_at <= begin) {
            return None;
        }
        let former = std::mem::take(self);
        former.trouble.map(|_| Change::Recovered)
    }

    /// Time until asking may go on; zero if it may.
    pub(super) fn remaining(&self, now: Instant) -> Duration {
        self.pause
            .map_or(Duration::ZERO, |(_, end)| end.saturating_duration_since(now))
    }

    /// What is wrong and until when asking pauses; `None` after a success.
    pub(super) fn trouble(&self) -> Option<(Trouble, Instant)> {
        self.trouble.zip(self.pause.map(|(_, end)| end))
    }
}

impl Trouble {
    /// Passing faults are one state whatever their causes, or a flapping network would fill the log.
    fn same_state(self, other: Self) -> bool {
        self.configuration == other.configuration && (!self.configuration || self.cause == other.cause)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    const PASSING: Trouble = Trouble {
        cause: Cause::Timeout,
        configuration: false,
    };
    const LASTING: Trouble = Trouble {
        cause: Cause::Unauthorized,
        configuration: true,
    };

    fn fail(cooldown: &mut Cooldown, at: Instant, trouble: Trouble, wait: Option<u64>) -> Option<Change> {
        cooldown.failed(
            at,
            Failed {
                asked_at: at,
                trouble,
                wait: wait.map(Duration::from_secs),
            },
        )
    }

    #[test]
    fn pauses_double_from_1_s_to_32_s_and_a_success_resets_them() {
        let mut now = Instant::now();
        let mut cooldown = Cooldown::default();
        for seconds in [1, 2, 4, 8, 16, 32, 32, 32] {
            fail(&mut cooldown, now, PASSING, None);
            assert_eq!(cooldown.remaining(now), Duration::from_secs(seconds));
            now += cooldown.remaining(now);
            assert_eq!(cooldown.remaining(now), Duration::ZERO);
        }
        assert_eq!(cooldown.succeeded(now), Some(Change::Recovered));
        assert_eq!(cooldown.trouble(), None);
        fail(&mut cooldown, now, PASSING, None);
        assert_eq!(cooldown.remaining(now), Duration::from_secs(1));
    }

    #[test]
    fn a_configuration_fault_goes_straight_to_the_longest_pause() {
        let now = Instant::now();
        let mut cooldown = Cooldown::default();
        assert_eq!(
            fail(&mut cooldown, now, LASTING, None),
            Some(Change::Failing(LASTING))
        );
        assert_eq!(cooldown.remaining(now), Duration::from_secs(32));
    }

    #[test]
    fn the_longer_of_own_pause_and_servers_wish_wins() {
        let now = Instant::now();
        for (wait, seconds) in [(Some(60), 60), (Some(0), 1), (None, 1)] {
            let mut cooldown = Cooldown::default();
            fail(&mut cooldown, now, PASSING, wait);
            assert_eq!(cooldown.remaining(now), Duration::from_secs(seconds));
        }
    }

    #[test]
    fn failures_of_one_incident_do_not_double_the_pause() {
        let asked_at = Instant::now();
        let later = asked_at + Duration::from_millis(300);
        let mut cooldown = Cooldown::default();
        fail(&mut cooldown, asked_at, PASSING, None);
        let same = Failed {
            asked_at,
            trouble: PASSING,
            wait: None,
        };
        assert_eq!(cooldown.failed(later, same), None);
        assert_eq!(cooldown.remaining(later), Duration::from_millis(700));
        cooldown.failed(
            later,
            Failed {
                wait: Some(Duration::from_secs(5)),
                ..same
            },
        );
        assert_eq!(cooldown.remaining(later), Duration::from_secs(5));
        fail(&mut cooldown, later + Duration::from_secs(5), PASSING, None);
        assert_eq!(
            cooldown.remaining(later + Duration::from_secs(5)),
            Duration::from_secs(2)
        );
    }

    #[test]
    fn a_late_success_does_not_end_a_pause_that_began_after_it_was_asked() {
        let asked_at = Instant::now();
        let failed_at = asked_at + Duration::from_millis(100);
        let mut cooldown = Cooldown::default();
        fail(&mut cooldown, failed_at, PASSING, Some(30));
        assert_eq!(cooldown.succeeded(asked_at), None);
        assert_eq!(cooldown.remaining(failed_at), Duration::from_secs(30));
    }

    #[test]
    fn each_state_is_reported_once() {
        let mut now = Instant::now();
        let mut cooldown = Cooldown::default();
        let refused = Trouble {
            cause: Cause::Connect,
            configuration: false,
        };
        let no_path = Trouble {
            cause: Cause::NotFound,
            configuration: true,
        };
        let script = [
            (PASSING, Some(Change::Failing(PASSING))),
            (PASSING, None),
            (refused, None),
            (LASTING, Some(Change::Failing(LASTING))),
            (LASTING, None),
            (no_path, Some(Change::Failing(no_path))),
            (PASSING, Some(Change::Failing(PASSING))),
        ];
        for (trouble, change) in script {
            assert_eq!(fail(&mut cooldown, now, trouble, None), change);
            now += Duration::from_mins(1);
        }
        assert_eq!(cooldown.succeeded(now), Some(Change::Recovered));
        assert_eq!(cooldown.succeeded(now), None);
    }

    #[test]
    fn a_passing_fault_of_the_same_incident_does_not_hide_a_configuration_fault() {
        let asked_at = Instant::now();
        let mut cooldown = Cooldown::default();
        fail(&mut cooldown, asked_at, LASTING, None);
        assert_eq!(fail(&mut cooldown, asked_at, PASSING, None), None);
        assert_eq!(cooldown.trouble().unwrap().0, LASTING);
    }
}
