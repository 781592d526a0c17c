//! Whether this process has wanted to ask lately, and whether it got an answer: what the operator calls healthy.
//!
//! Wants come in runs: a run begins with the first want after a minute without any, and goes on as long as something
//! is in the queue. Asking fails if a run has gone for a minute without an answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jevmetrics_api::member::InferenceState;

/// So long may an answer be waited for, and so long does a want count.
pub(super) const WINDOW: Duration = Duration::from_mins(1);

/// A run of wants, in whole seconds since the epoch of [`Wanted`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first: u32,
    last: u32,
}

/// Remembers the latest run. Noting takes no lock and, within a second, one atomic load.
#[derive(Debug)]
pub(super) struct Wanted {
    epoch: Instant,
    /// First and last second of the run, one more than counted; 0 if there was none.
    run: AtomicU64,
}

impl Wanted {
    pub(super) fn new(epoch: Instant) -> Self {
        Self {
            epoch,
            run: AtomicU64::new(0),
        }
    }

    /// Something is to be asked at `now`; `busy` if other questions are still open.
    pub(super) fn note(&self, now: Instant, busy: bool) {
        let second = self.second(now);
        let extend = |packed| {
            let run = unpack(packed);
            if run.is_some_and(|run| run.last >= second) {
                return None;
            }
            Some(pack(extended(run, second, busy)))
        };
        // An error means that this second is noted already.
        let _ = self
            .run
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, extend);
    }

    /// How asking goes at `now`; `busy` if questions are open.
    pub(super) fn state(&self, now: Instant, busy: bool, last_success: Option<Instant>) -> InferenceState {
        let run = unpack(self.run.load(Ordering::Relaxed));
        let answered = last_success.map(|at| self.second(at));
        state(run, self.second(now), busy, answered)
    }

    fn second(&self, at: Instant) -> u32 {
        let seconds = at.saturating_duration_since(self.epoch).as_secs();
        u32::try_from(seconds).unwrap_or(u32::MAX).min(u32::MAX - 1)
    }
}

fn pack(run: Run) -> u64 {
    (u64::from(run.first + 1) << 32) | u64::from(run.last + 1)
}

fn unpack(packed: u64) -> Option<Run> {
    let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).ok()?.checked_sub(1);
    Some(Run {
        first: half(packed >> 32)?,
        last: half(packed)?,
    })
}

fn is_recent(last: u32, now: u32) -> bool {
    u64::from(now.saturating_sub(last)) < WINDOW.as_secs()
}

fn extended(run: Option<Run>, now: u32, busy: bool) -> Run {
    match run {
        Some(run) if busy || is_recent(run.last, now) => Run { last: now, ..run },
        _ => Run {
            first: now,
            last: now,
        },
    }
}

fn state(run: Option<Run>, now: u32, busy: bool, answered: Option<u32>) -> InferenceState {
    let Some(run) = run.filter(|run| busy || is_recent(run.last, now)) else {
        return InferenceState::Idle;
    };
    let waits_since = answered.map_or(run.first, |answered| answered.max(run.first));
    if is_recent(waits_since, now) {
        InferenceState::Healthy
    } else {
        InferenceState::Failing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_fails_after_a_minute_of_wanting_without_an_answer() {
        let run = |first, last| Some(Run { first, last });
        for (run, now, busy, answered, expected) in [
            (None, 500, false, None, InferenceState::Idle),
            // Wanted since a moment ago.
            (run(500, 500), 500, false, None, InferenceState::Healthy),
            (run(500, 559), 559, true, None, InferenceState::Healthy),
            (run(500, 560), 560, true, None, InferenceState::Failing),
            // An answer within the minute, and none since.
            (run(500, 900), 900, false, Some(841), InferenceState::Healthy),
            (run(500, 900), 900, false, Some(840), InferenceState::Failing),
            // An answer from before the run does not count, nor against it.
            (run(500, 530), 530, false, Some(3), InferenceState::Healthy),
            (run(500, 570), 570, false, Some(3), InferenceState::Failing),
            // Nothing more to ask.
            (run(500, 570), 629, false, None, InferenceState::Failing),
            (run(500, 570), 630, false, None, InferenceState::Idle),
            (run(500, 570), 630, false, Some(569), InferenceState::Idle),
            // What is in the queue is still wanted.
            (run(500, 570), 9_000, true, None, InferenceState::Failing),
        ] {
            assert_eq!(
                state(run, now, busy, answered),
                expected,
                "{run:?} {now} {busy} {answered:?}"
            );
        }
    }

    #[test]
    fn a_run_ends_with_a_minute_without_wants_unless_questions_are_open() {
        let begin = Instant::now();
        let wanted = Wanted::new(begin);
        let at = |seconds| begin + Duration::from_secs(seconds);
        let run = |wanted: &Wanted| unpack(wanted.run.load(Ordering::Relaxed));
        assert_eq!(run(&wanted), None);
        wanted.note(at(0), false);
        assert_eq!(run(&wanted), Some(Run { first: 0, last: 0 }));
        wanted.note(at(59), false);
        wanted.note(at(40), false);
        assert_eq!(run(&wanted), Some(Run { first: 0, last: 59 }));
        wanted.note(at(119), false);
        assert_eq!(
            run(&wanted),
            Some(Run {
                first: 119,
                last: 119
            })
        );
        wanted.note(at(400), true);
        assert_eq!(
            run(&wanted),
            Some(Run {
                first: 119,
                last: 400
            })
        );
        assert_eq!(wanted.state(at(400), true, None), InferenceState::Failing);
        assert_eq!(
            wanted.state(at(400), true, Some(at(390))),
            InferenceState::Healthy
        );
    }
}
