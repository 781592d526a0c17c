//! What is wrong with asking, and until when it pauses: for health, pages and one log line a change.
//!
//! Pure: `now` is an argument. The room decides how long a pause is; what was asked before it began belongs to the same
//! incident.

use std::time::{Duration, Instant};

use super::failure::Cause;

/// What is wrong at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The latest cause.
    pub(crate) cause: Cause,
    /// Only a change of the configuration helps: key, address, model, credit.
    pub(crate) configuration: bool,
}

/// A change of state, for one log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Asking began to fail, or fails in another way that somebody must act upon.
    Failing(Trouble),
    /// Asking works again.
    Recovered,
}

/// The default has seen nothing.
#[derive(Debug, Default)]
pub(super) struct Outage {
    trouble: Option<Trouble>,
    /// The present or last pause since the last success: begin and end.
    pause: Option<(Instant, Instant)>,
}

impl Outage {
    /// Notes that a question of `asked_at` failed, and that nobody asks for `pause` now.
    pub(super) fn failed(
        &mut self,
        asked_at: Instant,
        trouble: Trouble,
        pause: Duration,
        now: Instant,
    ) -> Option<Change> {
        let earlier = self.pause.filter(|(begin, _)| asked_at <= *begin);
        let begin = earlier.map_or(now, |(begin, _)| begin);
        self.pause = Some((begin, now + pause));
        let former = self.trouble;
        let outranked =
            earlier.is_some() && !trouble.configuration && former.is_some_and(|former| former.configuration);
        if outranked {
            return None;
        }
        self.trouble = Some(trouble);
        (!former.is_some_and(|former| former.same_state(trouble))).then_some(Change::Failing(trouble))
    }

    /// Asking pauses for longer than was known.
    pub(super) fn lasts(&mut self, until: Instant) {
        if let Some((_, end)) = &mut self.pause {
            *end = (*end).max(until);
        }
    }

    /// Notes that a question of `asked_at` was answered.
    pub(super) fn succeeded(&mut self, asked_at: Instant) -> Option<Change> {
        if self.pause.is_some_and(|(begin, _)| asked_at <= begin) {
            return None;
        }
        let former = std::mem::take(self);
        former.trouble.map(|_| Change::Recovered)
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn passing() -> Trouble {
        Cause::Timeout.trouble()
    }

    fn lasting() -> Trouble {
        Cause::Unauthorized.trouble()
    }

    #[test]
    fn each_state_is_reported_once() {
        let mut now = Instant::now();
        let mut outage = Outage::default();
        let no_path = Cause::NotFound.trouble();
        let script = [
            (passing(), Some(Change::Failing(passing()))),
            (passing(), None),
            (Cause::Connect.trouble(), None),
            (lasting(), Some(Change::Failing(lasting()))),
            (lasting(), None),
            (no_path, Some(Change::Failing(no_path))),
            (passing(), Some(Change::Failing(passing()))),
        ];
        for (trouble, change) in script {
            assert_eq!(outage.failed(now, trouble, SECOND, now), change);
            now += Duration::from_mins(1);
        }
        assert_eq!(outage.succeeded(now), Some(Change::Recovered));
        assert_eq!(outage.succeeded(now), None);
    }

    #[test]
    fn a_passing_fault_of_the_same_incident_does_not_hide_a_configuration_fault() {
        let asked_at = Instant::now();
        let mut outage = Outage::default();
        outage.failed(asked_at, lasting(), SECOND, asked_at);
        assert_eq!(outage.failed(asked_at, passing(), SECOND, asked_at), None);
        assert_eq!(outage.trouble().unwrap().0, lasting());
    }

    #[test]
    fn a_late_success_does_not_end_a_pause_that_began_after_it_was_asked() {
        let asked_at = Instant::now();
        let failed_at = asked_at + SECOND;
        let mut outage = Outage::default();
        outage.failed(failed_at, passing(), 30 * SECOND, failed_at);
        assert_eq!(outage.succeeded(asked_at), None);
        assert_eq!(outage.trouble(), Some((passing(), failed_at + 30 * SECOND)));
        let later = failed_at + 31 * SECOND;
        assert_eq!(outage.succeeded(later), Some(Change::Recovered));
    }
}
