//! Whether Redis may be used now, and over which connection. Pure but for the connection that it holds.
//!
//! ```text
//! failure --> gate closes for 0.25 to 4 s --> next call connects or tries --> success: gate open
//! ```
//! Two gates: a server that is full, or a replica now, still reads. Calls that fail together close a gate once.

use std::time::{Duration, Instant};

use super::backoff::Backoff;
use super::trouble::{Reach, Trouble};

/// What a script does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Reads only.
    Read,
    /// Asks for something that can wait until Redis is well again.
    Write,
    /// Ends a lease: worth a try as long as there is a connection.
    Finish,
}

/// A change of state, for one log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// It began to fail, or fails in another way.
    Failing(Trouble),
    /// It works again.
    Recovered,
}

#[derive(Debug, Default)]
struct Gate {
    backoff: Backoff,
    trouble: Option<Trouble>,
}

/// See the head of the module. `C` is the connection.
#[derive(Debug)]
pub(super) struct Link<C> {
    connection: Option<(C, Instant)>,
    reading: Gate,
    writing: Gate,
}

/// What to do for a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way<C> {
    /// Use this one.
    Ready(C),
    /// Use this one, and look for its successor: names are looked up anew from time to time.
    Old(C),
    /// Connect.
    Connect,
    /// Leave it alone.
    Closed,
}

impl<C> Default for Link<C> {
    fn default() -> Self {
        Self {
            connection: None,
            reading: Gate::default(),
            writing: Gate::default(),
        }
    }
}

impl<C: Clone + PartialEq> Link<C> {
    /// How a call gets to Redis at `now`.
    pub(super) fn way(&self, purpose: Use, now: Instant) -> Way<C> {
        let is_closed = |gate: &Gate| !gate.backoff.remaining(now).is_zero();
        if is_closed(&self.reading) || (purpose == Use::Write && is_closed(&self.writing)) {
            return Way::Closed;
        }
        match &self.connection {
            Some((connection, renew)) if now < *renew => Way::Ready(connection.clone()),
            Some((connection, _)) => Way::Old(connection.clone()),
            None => Way::Connect,
        }
    }

    /// There is a new connection, to be renewed at `renew`.
    pub(super) fn connected(&mut self, connection: C, renew: Instant) {
        self.connection = Some((connection, renew));
    }

    /// No successor was found: the old connection stays until `renew`.
    pub(super) fn keep(&mut self, renew: Instant) {
        if let Some((_, at)) = &mut self.connection {
            *at = renew;
        }
    }

    /// Notes a failure of a call over `connection`, or of connecting. `random` is within 0..=1.
    pub(super) fn failed(
        &mut self,
        connection: Option<&C>,
        purpose: Use,
        trouble: &Trouble,
        now: Instant,
        random: f64,
    ) -> Option<Change> {
        let is_present = self.connection.as_ref().map(|(present, _)| present) == connection;
        if !is_present {
            // Somebody has seen to it already.
            return None;
        }
        if trouble.reach() == Reach::Connection {
            self.connection = None;
        }
        let gate = match trouble {
            Trouble::ReadOnly
            | Trouble::OutOfMemory
            | Trouble::NotReady(_)
            | Trouble::Permission
            | Trouble::Refused(_)
            | Trouble::Answer
                if purpose != Use::Read =>
            {
                &mut self.writing
            }
            _ => &mut self.reading,
        };
        if gate.backoff.remaining(now).is_zero() {
            gate.backoff.failed(now, random);
        }
        let former = gate.trouble.replace(trouble.clone());
        (former.as_ref().map(Trouble::as_str) != Some(trouble.as_str()))
            .then(|| Change::Failing(trouble.clone()))
    }

    /// Notes an answer.
    pub(super) fn succeeded(&mut self, purpose: Use) -> Option<Change> {
        let was_failing = self.trouble().is_some();
        self.reading = Gate::default();
        if purpose != Use::Read {
            self.writing = Gate::default();
        }
        (was_failing && self.trouble().is_none()).then_some(Change::Recovered)
    }

    /// What is wrong at present.
    pub(super) fn trouble(&self) -> Option<&Trouble> {
        self.reading.trouble.as_ref().or(self.writing.trouble.as_ref())
    }

    /// How long calls are pointless from `now` on.
    pub(super) fn pause(&self, purpose: Use, now: Instant) -> Duration {
        let reading = self.reading.backoff.remaining(now);
        match purpose {
            Use::Write => reading.max(self.writing.backoff.remaining(now)),
            Use::Read | Use::Finish => reading,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const FAR: Duration = Duration::from_mins(10);

    fn connected(now: Instant) -> Link<u32> {
        let mut link = Link::default();
        link.connected(1, now + FAR);
        link
    }

    #[test]
    fn calls_that_fail_together_count_once() {
        let now = Instant::now();
        let mut link = connected(now);
        let change = link.failed(Some(&1), Use::Read, &Trouble::Timeout, now, 1.0);
        assert_eq!(change, Some(Change::Failing(Trouble::Timeout)));
        assert_eq!(
            link.failed(Some(&1), Use::Read, &Trouble::Timeout, now, 1.0),
            None
        );
        assert_eq!(link.pause(Use::Read, now), Duration::from_millis(250));
        assert_eq!(link.way(Use::Finish, now), Way::Closed);
        let later = now + Duration::from_millis(250);
        assert_eq!(link.way(Use::Read, later), Way::Connect);
        // The next attempt fails: the pause doubles, and it is no news.
        assert_eq!(link.failed(None, Use::Read, &Trouble::Timeout, later, 1.0), None);
        assert_eq!(link.pause(Use::Read, later), Duration::from_millis(500));
    }

    #[test]
    fn a_full_server_still_reads_and_gives_leases_back() {
        let now = Instant::now();
        let mut link = connected(now);
        link.failed(Some(&1), Use::Write, &Trouble::OutOfMemory, now, 1.0);
        assert_eq!(link.way(Use::Write, now), Way::Closed);
        assert_eq!(link.way(Use::Read, now), Way::Ready(1));
        assert_eq!(link.way(Use::Finish, now), Way::Ready(1));
        assert_eq!(link.succeeded(Use::Read), None, "reading was never in trouble");
        assert_eq!(link.trouble(), Some(&Trouble::OutOfMemory));
        assert_eq!(link.succeeded(Use::Write), Some(Change::Recovered));
        assert_eq!(link.way(Use::Write, now), Way::Ready(1));
    }

    #[test]
    fn a_demoted_server_costs_the_connection_and_answered_reads_do_not_hide_it() {
        let now = Instant::now();
        let mut link = connected(now);
        link.failed(Some(&1), Use::Write, &Trouble::ReadOnly, now, 1.0);
        assert_eq!(link.way(Use::Read, now), Way::Connect);
        link.connected(2, now + FAR);
        link.succeeded(Use::Read);
        assert_eq!(link.way(Use::Write, now), Way::Closed);
        let later = now + Duration::from_millis(250);
        link.failed(Some(&2), Use::Write, &Trouble::ReadOnly, later, 1.0);
        assert_eq!(link.pause(Use::Write, later), Duration::from_millis(500));
    }

    #[test]
    fn what_failed_over_a_former_connection_is_old_news() {
        let now = Instant::now();
        let mut link = connected(now);
        link.connected(2, now + FAR);
        assert_eq!(link.failed(Some(&1), Use::Read, &Trouble::Closed, now, 1.0), None);
        assert_eq!(link.way(Use::Read, now), Way::Ready(2));
    }

    #[test]
    fn an_old_connection_is_used_until_there_is_a_successor() {
        let now = Instant::now();
        let mut link = connected(now);
        assert_eq!(link.way(Use::Write, now + FAR), Way::Old(1));
        link.keep(now + FAR * 2);
        assert_eq!(link.way(Use::Write, now + FAR), Way::Ready(1));
        link.connected(2, now + FAR * 3);
        assert_eq!(link.way(Use::Write, now + FAR * 2), Way::Ready(2));
    }
}
