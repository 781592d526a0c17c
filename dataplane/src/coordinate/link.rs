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
    /// Says that this process is there: what it alone meets stops nobody else.
    Show,
    /// Reads who is there: as `Show`, and its answer may be so long that it comes late. The answers behind it wait for it;
    /// that it is late says no more than that they are.
    List,
    /// Takes this process out: worth a try even over a closed gate, for there is no later. Its failures close none.
    Leave,
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
        let is_closed = |gate: &Gate| purpose != Use::Leave && !gate.backoff.remaining(now).is_zero();
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

    /// Somebody with less time than others got no answer over `connection`: the next call makes a new one. Whether nobody
    /// answers, those others find out.
    pub(super) fn leave_behind(&mut self, connection: &C) {
        if self
            .connection
            .as_ref()
            .is_some_and(|(present, _)| present == connection)
        {
            self.connection = None;
        }
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
        if purpose == Use::List && connection.is_some() && *trouble == Trouble::Timeout {
            // Whether anybody is there, short calls find out: also those that wait behind it.
            return None;
        }
        if purpose == Use::Leave {
            if trouble.reach() == Reach::Connection {
                self.connection = None;
            }
            return None;
        }
        if matches!(purpose, Use::Show | Use::List) && !trouble.stops_everything() {
            // The next one looks the name up again: it may lead to the primary by then.
            if matches!(trouble, Trouble::ReadOnly | Trouble::NotReady(_)) {
                self.connection = None;
            }
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
        // That it may show itself says nothing of what others may do.
        if matches!(purpose, Use::Show | Use::List | Use::Leave)
            && self
                .reading
                .trouble
                .as_ref()
                .is_some_and(|trouble| !trouble.stops_everything())
        {
            return None;
        }
        self.reading = Gate::default();
        if matches!(purpose, Use::Write | Use::Finish) {
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
            Use::Read | Use::Finish | Use::Show | Use::List | Use::Leave => reading,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::trouble::Code;
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
    fn what_heartbeats_alone_meet_stops_nobody_else() {
        let now = Instant::now();
        let mut link = connected(now);
        for trouble in [Trouble::Permission, Trouble::OutOfMemory, Trouble::Answer] {
            assert_eq!(link.failed(Some(&1), Use::Show, &trouble, now, 1.0), None);
            assert_eq!(link.way(Use::Write, now), Way::Ready(1), "{trouble}");
        }
        // The connection leads to the wrong server, or to one that may be replaced: that is all.
        for trouble in [Trouble::ReadOnly, Trouble::NotReady(Code::new("MASTERDOWN"))] {
            for purpose in [Use::Show, Use::List] {
                let mut link = connected(now);
                link.failed(Some(&1), purpose, &trouble, now, 1.0);
                assert_eq!(link.way(Use::Write, now), Way::Connect, "{trouble}");
                assert_eq!(link.trouble(), None);
            }
        }
    }

    #[test]
    fn heartbeats_find_out_that_nobody_answers_and_that_somebody_does() {
        let now = Instant::now();
        let mut link = connected(now);
        let change = link.failed(Some(&1), Use::Show, &Trouble::Timeout, now, 1.0);
        assert_eq!(change, Some(Change::Failing(Trouble::Timeout)));
        assert_eq!(link.way(Use::Read, now), Way::Closed);
        link.connected(2, now + FAR);
        assert_eq!(link.succeeded(Use::Show), Some(Change::Recovered));
        assert_eq!(link.way(Use::Read, now), Way::Ready(2));
    }

    #[test]
    fn a_list_that_comes_late_closes_no_gate() {
        let now = Instant::now();
        let mut link = connected(now);
        assert_eq!(
            link.failed(Some(&1), Use::List, &Trouble::Timeout, now, 1.0),
            None
        );
        for purpose in [Use::Read, Use::Write, Use::Finish, Use::Show, Use::List] {
            assert_eq!(link.way(purpose, now), Way::Ready(1), "{purpose:?}");
        }
        assert_eq!(link.trouble(), None);
        // That the connection broke, or that there is none, is true for all.
        let change = link.failed(Some(&1), Use::List, &Trouble::Closed, now, 1.0);
        assert_eq!(change, Some(Change::Failing(Trouble::Closed)));
        let later = now + FAR;
        link.failed(None, Use::List, &Trouble::Timeout, later, 1.0);
        assert_eq!(link.way(Use::Write, later), Way::Closed);
    }

    #[test]
    fn leaving_passes_a_closed_gate_and_closes_none() {
        let now = Instant::now();
        let mut link = connected(now);
        link.failed(Some(&1), Use::Read, &Trouble::Answer, now, 1.0);
        assert_eq!(link.way(Use::Show, now), Way::Closed);
        assert_eq!(link.way(Use::Leave, now), Way::Ready(1));
        let mut link = connected(now);
        assert_eq!(
            link.failed(Some(&1), Use::Leave, &Trouble::Timeout, now, 1.0),
            None
        );
        assert_eq!(
            link.way(Use::Finish, now),
            Way::Connect,
            "over another connection"
        );
        assert_eq!(link.failed(None, Use::Leave, &Trouble::Timeout, now, 1.0), None);
        assert_eq!(link.way(Use::Finish, now), Way::Connect);
        assert_eq!(link.trouble(), None);
    }

    #[test]
    fn who_had_less_time_than_others_leaves_a_connection_behind_and_closes_no_gate() {
        let now = Instant::now();
        let mut link = connected(now);
        link.leave_behind(&2);
        assert_eq!(
            link.way(Use::Show, now),
            Way::Ready(1),
            "there is a new one already"
        );
        link.leave_behind(&1);
        for purpose in [Use::Read, Use::Write, Use::Finish, Use::Show, Use::List] {
            assert_eq!(link.way(purpose, now), Way::Connect, "{purpose:?}");
        }
        assert_eq!(link.trouble(), None);
    }

    #[test]
    fn a_heartbeat_that_works_does_not_hide_that_others_may_not() {
        let now = Instant::now();
        let mut link = connected(now);
        link.failed(Some(&1), Use::Write, &Trouble::OutOfMemory, now, 1.0);
        assert_eq!(link.succeeded(Use::Show), None);
        assert_eq!(link.trouble(), Some(&Trouble::OutOfMemory));
        let mut link = connected(now);
        link.failed(Some(&1), Use::Read, &Trouble::Permission, now, 1.0);
        assert_eq!(link.succeeded(Use::Show), None);
        assert_eq!(link.trouble(), Some(&Trouble::Permission));
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
