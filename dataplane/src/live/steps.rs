//! When the live object is asked for and what is said about it. Pure: no clock, no client, no randomness of its own.
//!
//! ```text
//! Get --read--> Watch --end, 410, error, silence--> Wait --> Get
//!  '--not read------------------------------------> Wait --> Get
//! ```
//! The watch begins at the version that the get has seen, so no change falls between the two.

use std::time::Duration;

use super::Problem;

/// The first wait.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait.
const LAST_WAIT: Duration = Duration::from_secs(30);
/// A watch that lived so long did not fail, even if nothing happened on it.
const STEADY: Duration = Duration::from_secs(30);

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask for the object.
    Get,
    /// Watch its changes from this version on.
    Watch {
        /// `resourceVersion` of the object that was got.
        version: String,
    },
    /// Do nothing for this time.
    Wait(Duration),
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The object is there.
    Read {
        /// Its `resourceVersion`.
        version: String,
    },
    /// It is not there, or nobody could be asked.
    NotRead,
    /// The watch is over, for whatever reason.
    WatchEnded {
        /// How long it lasted.
        lived: Duration,
        /// Whether an event came.
        delivered: bool,
    },
    /// The time is over.
    Waited,
}

/// Counts failures in a row.
#[derive(Debug, Default)]
pub(super) struct Steps {
    failures: u32,
}

impl Steps {
    /// What follows `outcome`; `random` is uniform.
    pub(super) fn next(&mut self, outcome: Outcome, random: u32) -> Step {
        match outcome {
            // A get that works does not end the failures: the watch may be what is refused.
            Outcome::Read { version } => return Step::Watch { version },
            Outcome::Waited => return Step::Get,
            Outcome::WatchEnded { lived, delivered } if delivered || lived >= STEADY => self.failures = 1,
            Outcome::NotRead | Outcome::WatchEnded { .. } => self.failures = self.failures.saturating_add(1),
        }
        Step::Wait(wait(self.failures, random))
    }
}

/// Half to all of the doubled time, so that many pods do not come back at once.
fn wait(failures: u32, random: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(10);
    let whole = FIRST_WAIT.saturating_mul(1 << doublings).min(LAST_WAIT);
    whole.mul_f64(0.5 + 0.5 * f64::from(random) / f64::from(u32::MAX))
}

/// A call to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Get,
    Watch,
}

/// What is wrong with the object, and with the way to it.
#[derive(Debug, Default)]
pub(super) struct View {
    content: Option<Problem>,
    access: Option<(Call, Problem)>,
}

impl View {
    /// The object was seen; `problem` is what is wrong with its content.
    pub(super) fn seen(&mut self, problem: Option<Problem>) {
        self.content = problem;
        self.works(Call::Get);
    }

    /// The API server took this call.
    pub(super) fn works(&mut self, call: Call) {
        // A get that works does not mean that a watch does: else the two would take turns in the log.
        self.access = self.access.take().filter(|(failed, _)| *failed != call);
    }

    /// This call failed.
    pub(super) fn fails(&mut self, call: Call, problem: Problem) {
        self.access = Some((call, problem));
    }

    /// What to say. What the API server does not let us see any more comes first.
    pub(super) fn problem(&self) -> Option<&Problem> {
        self.access
            .as_ref()
            .map(|(_, problem)| problem)
            .or(self.content.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(seconds: u64, delivered: bool) -> Outcome {
        Outcome::WatchEnded {
            lived: Duration::from_secs(seconds),
            delivered,
        }
    }

    fn read() -> Outcome {
        Outcome::Read {
            version: "7".to_owned(),
        }
    }

    #[test]
    fn the_watch_begins_where_the_get_has_seen() {
        let mut steps = Steps::default();
        assert_eq!(
            steps.next(read(), 0),
            Step::Watch {
                version: "7".to_owned()
            }
        );
        assert_eq!(steps.next(Outcome::Waited, 0), Step::Get);
    }

    #[test]
    fn waits_double_from_half_a_second_to_thirty_and_are_spread() {
        let mut steps = Steps::default();
        for milliseconds in [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            let wait = Duration::from_millis(milliseconds);
            assert_eq!(steps.next(Outcome::NotRead, u32::MAX), Step::Wait(wait));
        }
        assert_eq!(wait(1, 0), FIRST_WAIT / 2);
        assert_eq!(wait(u32::MAX, 0), LAST_WAIT / 2);
    }

    #[test]
    fn a_watch_that_worked_ends_the_failures_and_a_get_alone_does_not() {
        let mut steps = Steps::default();
        for milliseconds in [500, 1_000, 2_000] {
            steps.next(read(), 0);
            let wait = Duration::from_millis(milliseconds);
            assert_eq!(steps.next(ended(1, false), u32::MAX), Step::Wait(wait));
        }
        for outcome in [ended(1, true), ended(30, false)] {
            steps.next(read(), 0);
            assert_eq!(steps.next(outcome, u32::MAX), Step::Wait(FIRST_WAIT));
        }
        assert_eq!(steps.next(Outcome::NotRead, u32::MAX), Step::Wait(2 * FIRST_WAIT));
    }

    #[test]
    fn a_refused_watch_is_said_until_a_watch_works() {
        let problem = |text: &str| Problem::of_content(text.to_owned());
        let mut view = View::default();
        view.fails(Call::Get, problem("away"));
        assert_eq!(view.problem(), Some(&problem("away")));
        view.seen(Some(problem("broken")));
        assert_eq!(view.problem(), Some(&problem("broken")));
        view.seen(None);
        assert_eq!(view.problem(), None);
        view.fails(Call::Watch, problem("forbidden"));
        view.seen(None);
        assert_eq!(view.problem(), Some(&problem("forbidden")));
        view.works(Call::Watch);
        assert_eq!(view.problem(), None);
        view.fails(Call::Get, problem("away"));
        view.works(Call::Watch);
        assert_eq!(view.problem(), Some(&problem("away")));
    }
}
