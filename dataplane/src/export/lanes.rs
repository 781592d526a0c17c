//! Which connection a request takes, and which are to be opened. Pure: time, chance and results come in.
//!
//! A lane is the place of one connection to one address:
//! ```text
//! Idle --(due)--> Connecting --> Ready --(ended)--> Idle
//!   ^-------(failed: not before ...)---'
//! ```
//! Invariants: at most [`MAX_LANES`] lanes; every lane has at most one connection or attempt; an attempt
//! number names one connection for ever, so that late news about an old one change nothing.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

/// Connections to one address: HTTP/2 serves a connection under one lock, and behind a virtual address two
/// connections may reach two servers.
const PER_ADDRESS: usize = 2;
/// Connections in all. With more addresses than this, some are left to other replicas: the caller shuffles.
pub(super) const MAX_LANES: usize = 16;
/// A name is looked up again after this time, or sooner when a connection fails or ends.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(30);
/// But never more often than this.
const RESOLVE_PAUSE: Duration = Duration::from_secs(1);
/// A connection that ended sooner than this, and without any answer, is counted as a failure to connect.
const SHORT_LIFE: Duration = Duration::from_secs(5);
/// The first failure is tried again at once, the second after this, doubling.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// Downstream that is back is found within this time.
const LAST_BACKOFF: Duration = Duration::from_secs(5);

/// What can carry a request.
pub(super) trait Carrier: Clone {
    /// False once the connection is known to be over.
    fn is_open(&self) -> bool;
    /// True once a request was answered on it.
    fn has_served(&self) -> bool;
}

#[derive(Debug)]
enum State<C> {
    Idle,
    Connecting,
    Ready { carrier: C, since: Instant },
}

#[derive(Debug)]
struct Lane<C> {
    address: SocketAddr,
    attempt: u64,
    state: State<C>,
    failures: u32,
    not_before: Option<Instant>,
}

/// What the caller has to do now.
#[derive(Debug)]
pub(super) struct Plan<C> {
    /// Look up the name; ends in [`Lanes::resolved`] or [`Lanes::not_resolved`].
    pub(super) resolve: bool,
    /// Open these; each ends in [`Lanes::connected`] or [`Lanes::not_connected`].
    pub(super) connect: Vec<(u64, SocketAddr)>,
    /// And then.
    pub(super) next: Next<C>,
}

/// How a request goes on.
#[derive(Debug)]
pub(super) enum Next<C> {
    /// On this connection.
    Use { attempt: u64, carrier: C },
    /// Something that was begun will end.
    Wait,
    /// Not now; the reason is for the sender.
    Fail(String),
}

/// All lanes of one endpoint.
#[derive(Debug)]
pub(super) struct Lanes<C> {
    places: Vec<Lane<C>>,
    attempts: u64,
    turn: usize,
    resolving: bool,
    resolved_at: Option<Instant>,
    resolve_at: Option<Instant>,
    last_error: String,
}

impl<C: Carrier> Lanes<C> {
    pub(super) fn new() -> Self {
        Self {
            places: Vec::new(),
            attempts: 0,
            turn: 0,
            resolving: false,
            resolved_at: None,
            resolve_at: None,
            last_error: String::new(),
        }
    }

    /// The next connection in turn. `avoid`: one that just failed, taken only if there is no other.
    pub(super) fn plan(&mut self, now: Instant, avoid: Option<u64>) -> Plan<C> {
        let resolve = !self.resolving && self.resolve_at.is_none_or(|at| at <= now);
        self.resolving |= resolve;
        Plan {
            resolve,
            connect: self.due(now),
            next: self.next(avoid),
        }
    }

    fn due(&mut self, now: Instant) -> Vec<(u64, SocketAddr)> {
        let mut connect = Vec::new();
        for lane in &mut self.places {
            if matches!(lane.state, State::Idle) && lane.not_before.is_none_or(|at| at <= now) {
                self.attempts += 1;
                lane.attempt = self.attempts;
                lane.state = State::Connecting;
                connect.push((lane.attempt, lane.address));
            }
        }
        connect
    }

    fn next(&mut self, avoid: Option<u64>) -> Next<C> {
        let mut last_choice = None;
        for step in 0..self.places.len() {
            let place = (self.turn + step) % self.places.len();
            let lane = &self.places[place];
            let State::Ready { carrier, .. } = &lane.state else {
                continue;
            };
            if !carrier.is_open() {
                continue;
            }
            let choice = Next::Use {
                attempt: lane.attempt,
                carrier: carrier.clone(),
            };
            if Some(lane.attempt) == avoid {
                last_choice = Some(choice);
                continue;
            }
            self.turn = place + 1;
            return choice;
        }
        let connecting = self
            .places
            .iter()
            .any(|lane| matches!(lane.state, State::Connecting));
        match last_choice {
            Some(choice) => choice,
            None if connecting || (self.places.is_empty() && self.resolving) => Next::Wait,
            // Its end is known to the carrier, and about to be known here.
            None if self
                .places
                .iter()
                .any(|lane| matches!(lane.state, State::Ready { .. })) =>
            {
                Next::Wait
            }
            None => Next::Fail(self.last_error.clone()),
        }
    }

    /// The name has these addresses. Connections to addresses that are gone are let go.
    pub(super) fn resolved(&mut self, addresses: Vec<SocketAddr>, now: Instant) {
        self.resolving = false;
        self.resolved_at = Some(now);
        self.resolve_at = Some(now + RESOLVE_INTERVAL);
        let mut seen = HashSet::new();
        let known: HashSet<SocketAddr> = self.places.iter().map(|lane| lane.address).collect();
        let (mut chosen, new): (Vec<_>, Vec<_>) = addresses
            .into_iter()
            .filter(|address| seen.insert(*address))
            .partition(|a| known.contains(a));
        chosen.extend(new);
        chosen.truncate(MAX_LANES);
        let each = PER_ADDRESS.min(MAX_LANES / chosen.len().max(1));
        let mut old = std::mem::take(&mut self.places);
        for address in (0..each).flat_map(|_| chosen.iter().copied()) {
            let kept = old.iter().position(|lane| lane.address == address);
            let new = || Lane {
                address,
                attempt: 0,
                state: State::Idle,
                failures: 0,
                not_before: None,
            };
            self.places.push(kept.map_or_else(new, |place| old.remove(place)));
        }
    }

    /// The name could not be looked up; what is known goes on being used.
    pub(super) fn not_resolved(&mut self, error: String, now: Instant) {
        self.resolving = false;
        self.resolved_at = Some(now);
        self.resolve_at = Some(now + RESOLVE_PAUSE);
        if self.places.is_empty() {
            self.last_error = error;
        }
    }

    /// True if the connection was wanted; else it is to be dropped.
    pub(super) fn connected(&mut self, attempt: u64, carrier: C, now: Instant) -> bool {
        let Some(lane) = self.lane(attempt) else {
            return false;
        };
        lane.state = State::Ready { carrier, since: now };
        true
    }

    /// True if this is news worth a line in the log.
    pub(super) fn not_connected(&mut self, attempt: u64, error: String, now: Instant, random: u32) -> bool {
        let Some(lane) = self.lane(attempt) else {
            return false;
        };
        lane.state = State::Idle;
        lane.fail(now, random);
        let first = lane.failures == 1;
        self.last_error = error;
        self.resolve_soon(now);
        first
    }

    /// The connection takes no more requests.
    pub(super) fn ended(&mut self, attempt: u64, now: Instant, random: u32) {
        let Some(lane) = self.lane(attempt) else { return };
        let State::Ready { carrier, since } = &lane.state else {
            return;
        };
        let failed = !carrier.has_served() && now.duration_since(*since) < SHORT_LIFE;
        lane.state = State::Idle;
        if failed {
            lane.fail(now, random);
        } else {
            lane.failures = 0;
            lane.not_before = None;
        }
        "connection closed".clone_into(&mut self.last_error);
        self.resolve_soon(now);
    }

    fn lane(&mut self, attempt: u64) -> Option<&mut Lane<C>> {
        self.places.iter_mut().find(|lane| lane.attempt == attempt)
    }

    fn resolve_soon(&mut self, now: Instant) {
        let earliest = self.resolved_at.map_or(now, |at| at + RESOLVE_PAUSE);
        self.resolve_at = self.resolve_at.map(|at| at.min(earliest));
    }
}

impl<C> Lane<C> {
    fn fail(&mut self, now: Instant, random: u32) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + backoff(self.failures, random));
    }
}

/// Half to all of the doubled time. `random` is uniform.
fn backoff(failures: u32, random: u32) -> Duration {
    let Some(doublings) = failures.checked_sub(2) else {
        return Duration::ZERO;
    };
    let whole = FIRST_BACKOFF
        .saturating_mul(1 << doublings.min(10))
        .min(LAST_BACKOFF);
    whole.mul_f64(0.5 + 0.5 * f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[derive(Debug, Clone)]
    struct Fake(Rc<Cell<bool>>);

    impl Carrier for Fake {
        fn is_open(&self) -> bool {
            self.0.get()
        }

        fn has_served(&self) -> bool {
            false
        }
    }

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 4317))
    }

    fn addresses(count: u8) -> Vec<SocketAddr> {
        (0..count).map(address).collect()
    }

    fn open(lanes: &mut Lanes<Fake>, connect: Vec<(u64, SocketAddr)>, now: Instant) {
        for (attempt, _) in connect {
            assert!(lanes.connected(attempt, Fake(Rc::new(Cell::new(true))), now));
        }
    }

    fn started(count: u8, now: Instant) -> Lanes<Fake> {
        let mut lanes = Lanes::new();
        let plan = lanes.plan(now, None);
        assert!(plan.resolve && matches!(plan.next, Next::Wait));
        lanes.resolved(addresses(count), now);
        let plan = lanes.plan(now, None);
        assert!(!plan.resolve && matches!(plan.next, Next::Wait));
        open(&mut lanes, plan.connect, now);
        lanes
    }

    fn used(lanes: &mut Lanes<Fake>, now: Instant, avoid: Option<u64>) -> (u64, Fake) {
        match lanes.plan(now, avoid).next {
            Next::Use { attempt, carrier } => (attempt, carrier),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_take_turns_over_all_addresses() {
        let now = Instant::now();
        let mut lanes = started(3, now);
        let mut seen = std::collections::HashMap::new();
        for _ in 0..12 {
            *seen.entry(used(&mut lanes, now, None).0).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 3 * PER_ADDRESS);
        assert!(seen.values().all(|&count| count == 2));
    }

    #[test]
    fn there_are_never_more_lanes_than_allowed() {
        let now = Instant::now();
        for (count, expected) in [(1, 2), (8, 16), (9, 9), (16, 16), (200, 16)] {
            assert_eq!(started(count, now).places.len(), expected);
        }
    }

    #[test]
    fn a_connection_that_failed_is_avoided_only_if_there_is_another() {
        let now = Instant::now();
        let mut lanes = started(1, now);
        let (first, _) = used(&mut lanes, now, None);
        for _ in 0..4 {
            assert_ne!(used(&mut lanes, now, Some(first)).0, first);
        }
        let (other, _) = used(&mut lanes, now, Some(first));
        lanes.ended(other, now, 0);
        assert_eq!(used(&mut lanes, now, Some(first)).0, first);
    }

    #[test]
    fn failures_are_tried_again_once_at_once_and_then_after_a_growing_time() {
        let mut now = Instant::now();
        let mut lanes: Lanes<Fake> = Lanes::new();
        lanes.plan(now, None);
        lanes.resolved(addresses(1), now);
        for round in 0..12 {
            let plan = lanes.plan(now, None);
            assert_eq!(plan.connect.len(), PER_ADDRESS, "round {round}");
            for (attempt, _) in plan.connect {
                assert_eq!(
                    lanes.not_connected(attempt, "refused".into(), now, u32::MAX),
                    round == 0
                );
            }
            if round > 0 {
                match lanes.plan(now, None) {
                    Plan {
                        connect,
                        next: Next::Fail(reason),
                        ..
                    } => {
                        assert!(connect.is_empty());
                        assert_eq!(reason, "refused");
                    }
                    other => panic!("{other:?}"),
                }
                now += backoff(round + 1, u32::MAX);
            }
        }
        assert_eq!(backoff(u32::MAX, u32::MAX), LAST_BACKOFF);
        assert_eq!(backoff(2, 0), FIRST_BACKOFF / 2);
    }

    #[test]
    fn an_old_connections_end_does_not_touch_its_successor() {
        let now = Instant::now();
        let mut lanes = started(1, now);
        let (old, _) = used(&mut lanes, now, None);
        lanes.ended(old, now, 0);
        let plan = lanes.plan(now, None);
        assert_eq!(plan.connect.len(), 1);
        open(&mut lanes, plan.connect, now);
        lanes.ended(old, now, 0);
        assert!(
            lanes
                .places
                .iter()
                .all(|lane| matches!(lane.state, State::Ready { .. }))
        );
    }

    #[test]
    fn addresses_that_are_gone_are_let_go_and_the_others_keep_their_connections() {
        let now = Instant::now();
        let mut lanes = started(2, now);
        lanes.resolved(vec![address(1), address(7)], now);
        let kept = lanes
            .places
            .iter()
            .filter(|lane| matches!(lane.state, State::Ready { .. }));
        assert_eq!(
            kept.filter(|lane| lane.address == address(1)).count(),
            PER_ADDRESS
        );
        let plan = lanes.plan(now, None);
        assert!(plan.connect.iter().all(|(_, to)| *to == address(7)) && plan.connect.len() == PER_ADDRESS);
        assert!(!lanes.connected(9_999, Fake(Rc::default()), now));
    }

    #[test]
    fn the_name_is_looked_up_again_in_time_and_sooner_after_an_end() {
        let now = Instant::now();
        let mut lanes = started(1, now);
        assert!(
            !lanes
                .plan(now + RESOLVE_INTERVAL - Duration::from_millis(1), None)
                .resolve
        );
        assert!(lanes.plan(now + RESOLVE_INTERVAL, None).resolve);
        assert!(!lanes.plan(now + RESOLVE_INTERVAL, None).resolve, "one at a time");
        let now = now + RESOLVE_INTERVAL;
        lanes.resolved(addresses(1), now);
        let (attempt, _) = used(&mut lanes, now, None);
        lanes.ended(attempt, now, 0);
        assert!(!lanes.plan(now, None).resolve);
        assert!(lanes.plan(now + RESOLVE_PAUSE, None).resolve);
    }

    #[test]
    fn a_name_without_addresses_fails_and_is_asked_again() {
        let now = Instant::now();
        let mut lanes: Lanes<Fake> = Lanes::new();
        lanes.plan(now, None);
        lanes.not_resolved("no such name".into(), now);
        assert!(matches!(lanes.plan(now, None).next, Next::Fail(reason) if reason == "no such name"));
        let plan = lanes.plan(now + RESOLVE_PAUSE, None);
        assert!(plan.resolve && matches!(plan.next, Next::Wait));
    }

    #[test]
    fn a_connection_known_to_be_closed_is_not_used() {
        let now = Instant::now();
        let mut lanes = started(1, now);
        let (first, carrier) = used(&mut lanes, now, None);
        carrier.0.set(false);
        for _ in 0..4 {
            assert_ne!(used(&mut lanes, now, None).0, first);
        }
    }
}
