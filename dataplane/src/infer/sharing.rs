//! How sharing goes, as pages and heartbeats say it: what the group answered last.
//!
//! Written by the dispatcher alone. Times are arguments.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jevmetrics_api::member::CoordinationState;

use super::wanted::WINDOW;
use crate::coordinate::block::Block;
use crate::coordinate::trouble::Trouble;
use crate::coordinate::{Mismatch, Wait};

/// What the group says of this process's budget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Budget {
    /// Nothing that keeps it from asking.
    #[default]
    Agreed,
    Pending {
        due: Instant,
        new: Block,
    },
    Superseded(Block),
    Mismatch(Mismatch),
}

#[derive(Debug, Default)]
struct Seen {
    budget: Budget,
    trouble: Option<Trouble>,
    /// Since when no call was of use.
    failing_since: Option<Instant>,
    last_call: Option<Instant>,
    highest_generation: u64,
}

/// See the head of the module.
#[derive(Debug, Default)]
pub(super) struct Sharing(Mutex<Seen>);

/// How sharing goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharingState {
    /// As the heartbeat says it: trouble counts once it has lasted a minute.
    pub state: CoordinationState,
    /// What is wrong, or waited for, now.
    pub reason: Option<String>,
    /// The same in one line, in which trouble counts at once.
    pub line: String,
    /// The highest generation of a budget that was seen.
    pub highest_generation: u64,
}

impl Sharing {
    /// A call was answered. `trouble` is what is wrong with the room all the same: a replica reads and does not write.
    pub(super) fn answered(&self, trouble: Option<Trouble>, now: Instant) {
        let mut seen = self.lock();
        seen.last_call = Some(now);
        match trouble {
            None => (seen.trouble, seen.failing_since) = (None, None),
            Some(trouble) => seen.failed(trouble, now),
        }
    }

    /// A call was not answered.
    pub(super) fn failed(&self, trouble: Trouble, now: Instant) {
        let mut seen = self.lock();
        seen.last_call = Some(now);
        seen.failed(trouble, now);
    }

    /// Nothing keeps this process from asking with its budget.
    pub(super) fn agreed(&self) {
        self.lock().budget = Budget::Agreed;
    }

    /// Nothing contradicts this process's budget.
    pub(super) fn no_mismatch(&self) {
        let mut seen = self.lock();
        if matches!(seen.budget, Budget::Mismatch(_)) {
            seen.budget = Budget::Agreed;
        }
    }

    /// Another budget contradicts this process's. True if that is news.
    pub(super) fn mismatch(&self, mismatch: Mismatch) -> bool {
        let mut seen = self.lock();
        seen.notice(mismatch.theirs.generation);
        let budget = Budget::Mismatch(mismatch);
        let is_news = seen.budget != budget;
        seen.budget = budget;
        is_news
    }

    /// Why one has to wait.
    pub(super) fn waits(&self, wait: &Wait, now: Instant) {
        let mut seen = self.lock();
        seen.budget = match wait {
            Wait::Pending { left, old, new } => {
                seen.notice(old.generation.max(new.generation));
                Budget::Pending {
                    due: now + *left,
                    new: *new,
                }
            }
            Wait::Superseded(block) => {
                seen.notice(block.generation);
                Budget::Superseded(*block)
            }
            Wait::Lease(_) | Wait::Cooldown(_) | Wait::InFlight | Wait::Rate(_) => Budget::Agreed,
        };
    }

    /// The state at `now`; `is_busy` if something waits for Redis, `generation` that of the budget in use.
    pub(super) fn state(&self, now: Instant, is_busy: bool, generation: u64) -> SharingState {
        let mut seen = self.lock();
        if matches!(seen.budget, Budget::Superseded(block) if block.generation <= generation) {
            // It has been read meanwhile.
            seen.budget = Budget::Agreed;
        }
        let is_recent = |at: Instant| now.saturating_duration_since(at) < WINDOW;
        let is_idle = !is_busy && !seen.last_call.is_some_and(is_recent);
        let (budget_state, budget_reason) = seen.budget.describe(now);
        let trouble = seen.trouble.as_ref().map(ToString::to_string);
        let has_failed = seen.failing_since.is_some_and(|since| !is_recent(since));
        let state = match budget_state {
            _ if is_idle => CoordinationState::Idle,
            _ if has_failed => CoordinationState::Failing,
            Some(state) => state,
            None => CoordinationState::Healthy,
        };
        let word = match (&trouble, budget_state) {
            (Some(_), _) => "failing",
            (None, Some(CoordinationState::Pending)) => "pending",
            (None, Some(CoordinationState::Superseded)) => "superseded",
            (None, Some(_)) => "mismatch",
            (None, None) if is_idle => "idle",
            (None, None) => "healthy",
        };
        let reason = trouble.or(budget_reason);
        let line = match &reason {
            Some(reason) => format!("{word}, {reason}"),
            None => word.to_owned(),
        };
        SharingState {
            state,
            reason,
            line,
            highest_generation: seen.highest_generation,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn failed(&mut self, trouble: Trouble, now: Instant) {
        self.failing_since.get_or_insert(now);
        // Being left alone says nothing of why.
        if trouble != Trouble::Backoff || self.trouble.is_none() {
            self.trouble = Some(trouble);
        }
    }

    fn notice(&mut self, generation: u64) {
        self.highest_generation = self.highest_generation.max(generation);
    }
}

impl Budget {
    fn describe(&self, now: Instant) -> (Option<CoordinationState>, Option<String>) {
        match self {
            Self::Agreed => (None, None),
            // Over by itself: whoever asks next finds it in force.
            Self::Pending { due, .. } if *due <= now => (None, None),
            Self::Pending { due, new } => {
                let left = due.saturating_duration_since(now);
                let seconds = left.as_secs() + u64::from(left > Duration::from_secs(left.as_secs()));
                let reason = format!("the budget {} comes into force in {seconds} s", Shown(new));
                (Some(CoordinationState::Pending), Some(reason))
            }
            Self::Superseded(block) => (
                Some(CoordinationState::Superseded),
                Some(format!("a newer budget is in force: {}", Shown(block))),
            ),
            Self::Mismatch(Mismatch { mine, theirs }) => {
                let reason = format!(
                    "this process has the budget {}, its namespace has {}",
                    Shown(mine),
                    Shown(theirs)
                );
                (Some(CoordinationState::Mismatch), Some(reason))
            }
        }
    }
}

/// A block for people.
struct Shown<'a>(&'a Block);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Block {
            generation,
            lease,
            in_flight,
            per_second,
        } = self.0;
        write!(
            f,
            "[lease {} s, {in_flight} in flight, {per_second} per second",
            lease.as_secs_f64()
        )?;
        if *generation > 0 {
            write!(f, ", generation {generation}")?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn block(text: &str) -> Block {
        text.parse().unwrap()
    }

    #[test]
    fn trouble_is_said_at_once_and_counts_after_a_minute() {
        let now = Instant::now();
        let sharing = Sharing::default();
        assert_eq!(sharing.state(now, false, 3).line, "idle");
        sharing.answered(None, now);
        assert_eq!(sharing.state(now, false, 3).line, "healthy");
        sharing.failed(Trouble::Timeout, now);
        sharing.failed(Trouble::Backoff, now + SECOND);
        let state = sharing.state(now + SECOND, false, 3);
        assert_eq!(
            (state.state, state.line.as_str()),
            (CoordinationState::Healthy, "failing, no answer in time")
        );
        let later = now + 61 * SECOND;
        assert_eq!(sharing.state(later, true, 3).state, CoordinationState::Failing);
        assert_eq!(
            sharing.state(later, false, 3).state,
            CoordinationState::Idle,
            "nothing was wanted since"
        );
        sharing.answered(Some(Trouble::ReadOnly), later);
        assert_eq!(sharing.state(later, false, 3).state, CoordinationState::Failing);
        sharing.answered(None, later);
        assert_eq!(sharing.state(later, false, 3).line, "healthy");
    }

    #[test]
    fn what_keeps_a_budget_from_use_is_named_with_its_numbers() {
        let now = Instant::now();
        let sharing = Sharing::default();
        sharing.answered(None, now);
        sharing.waits(
            &Wait::Pending {
                left: 1500 * SECOND / 1000,
                old: block("3 10000 4 10"),
                new: block("4 7000 2 20"),
            },
            now,
        );
        let state = sharing.state(now, false, 3);
        assert_eq!(
            (state.state, state.highest_generation, state.line.as_str()),
            (
                CoordinationState::Pending,
                4,
                "pending, the budget [lease 7 s, 2 in flight, 20 per second, generation 4] comes into force in 2 s"
            )
        );
        assert_eq!(sharing.state(now + 2 * SECOND, false, 3).line, "healthy");

        sharing.waits(&Wait::Superseded(block("9 7000 2 20")), now);
        let state = sharing.state(now, false, 3);
        assert_eq!(
            (state.state, state.highest_generation),
            (CoordinationState::Superseded, 9)
        );
        assert_eq!(sharing.state(now, false, 9).line, "healthy", "it was read");
        sharing.waits(&Wait::Superseded(block("9 7000 2 20")), now);
        sharing.waits(&Wait::InFlight, now);
        assert_eq!(sharing.state(now, false, 3).reason, None);

        let mismatch = Mismatch {
            mine: block("0 7000 2 20"),
            theirs: block("0 10000 4 10"),
        };
        assert!(sharing.mismatch(mismatch.clone()) && !sharing.mismatch(mismatch));
        assert_eq!(
            sharing.state(now, false, 3).line,
            "mismatch, this process has the budget [lease 7 s, 2 in flight, 20 per second], its namespace has [lease \
             10 s, 4 in flight, 10 per second]"
        );
        sharing.no_mismatch();
        assert_eq!(sharing.state(now, false, 3).state, CoordinationState::Healthy);
    }
}
