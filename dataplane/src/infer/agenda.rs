//! Who has the next turn: the order of what waits, and waiting without a worker.
//!
//! ```text
//! enter --> [not looked up] --looked_up--> [ready] --best rank--> next --> answered: gone
//!                                             ^ ^------ give_back <--- not yet, all wait
//!                    [waiting for its time] --' '<----- come_back <--- not yet, it alone waits
//! ```
//! Pure: `now` and randomness are arguments. Equals have their turns in the order in which they came. Every operation takes
//! a time that grows with the logarithm of what waits.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use super::gate::delay;
use super::rank::{Rank, Turn};

/// One item with what decides about its turn.
#[derive(Debug)]
pub(super) struct Entry<T> {
    /// What is to be asked about.
    pub(super) item: T,
    rank: Rank,
    number: u64,
    looked_up: Option<Instant>,
    waits: u32,
    place: Place,
}

/// Where an entry waits.
#[derive(Debug, Clone, Copy)]
enum Place {
    NotLookedUp,
    Ready,
    Until(Instant),
}

impl<T> Entry<T> {
    /// How much it needs its answer.
    pub(super) fn rank(&self) -> Rank {
        self.rank
    }
}

/// See the head of the module.
#[derive(Debug)]
pub(super) struct Agenda<T> {
    entries: HashMap<u64, Entry<T>>,
    entered: u64,
    ready: BTreeSet<(Turn, Reverse<u64>)>,
    later: BTreeSet<(Instant, u64)>,
    worth: BTreeSet<(u64, Reverse<u64>)>,
    looked_up: BTreeSet<(Option<Instant>, u64)>,
}

impl<T> Agenda<T> {
    /// An empty one.
    pub(super) fn new() -> Self {
        Self {
            entries: HashMap::new(),
            entered: 0,
            ready: BTreeSet::new(),
            later: BTreeSet::new(),
            worth: BTreeSet::new(),
            looked_up: BTreeSet::new(),
        }
    }

    /// Gives an item its place; it has a turn once it was looked up, unless nothing can be looked up.
    pub(super) fn enter(&mut self, item: T, rank: Rank, looked_up: Option<Instant>) {
        let number = self.entered;
        self.entered += 1;
        self.put(Entry {
            item,
            rank,
            number,
            looked_up,
            waits: 0,
            place: match looked_up {
                None => Place::NotLookedUp,
                Some(_) => Place::Ready,
            },
        });
    }

    /// The one whose turn it is.
    pub(super) fn next(&mut self, now: Instant) -> Option<Entry<T>> {
        while let Some((at, number)) = self.later.first().copied().filter(|(at, _)| *at <= now) {
            self.later.remove(&(at, number));
            if let Some(entry) = self.entries.get_mut(&number) {
                entry.place = Place::Ready;
                self.ready.insert((entry.rank.turn(), Reverse(number)));
            }
        }
        let (_, Reverse(number)) = *self.ready.last()?;
        self.remove(number)
    }

    /// It has to wait, for a reason of its own: the others have their turn meanwhile.
    pub(super) fn come_back(&mut self, mut entry: Entry<T>, now: Instant, random: f64) {
        entry.place = Place::Until(now + delay(entry.waits, random));
        entry.waits = entry.waits.saturating_add(1);
        self.put(entry);
    }

    /// It had no turn, for a reason that concerns all.
    pub(super) fn give_back(&mut self, mut entry: Entry<T>) {
        entry.place = Place::Ready;
        self.put(entry);
    }

    /// When somebody is ready, if nothing else happens: at `now` if somebody is.
    pub(super) fn wakes_at(&self, now: Instant) -> Option<Instant> {
        if self.ready.is_empty() {
            self.later.first().map(|(at, _)| *at)
        } else {
            Some(now)
        }
    }

    /// Whether one was never looked up.
    pub(super) fn has_new(&self) -> bool {
        self.looked_up.first().is_some_and(|(at, _)| at.is_none())
    }

    /// When the one whose look-up is longest ago was looked up; `None` if one never was.
    pub(super) fn oldest_look_up(&self) -> Option<Instant> {
        self.looked_up.first().and_then(|(at, _)| *at)
    }

    /// Up to `most` of those that were never looked up, or before `before`, the longest ago first.
    pub(super) fn to_look_up(&self, before: Option<Instant>, most: usize) -> Vec<(u64, &T)> {
        self.looked_up
            .iter()
            .take_while(|(at, _)| at.is_none() || *at < before)
            .take(most)
            .filter_map(|(_, number)| Some((*number, &self.entries.get(number)?.item)))
            .collect()
    }

    /// The rank of one that still waits.
    pub(super) fn rank_of(&self, number: u64) -> Option<Rank> {
        self.entries.get(&number).map(|entry| entry.rank)
    }

    /// It was looked up without success: may have its turn.
    pub(super) fn looked_up(&mut self, number: u64, now: Instant) {
        let Some(mut entry) = self.remove(number) else {
            return;
        };
        entry.looked_up = Some(now);
        if matches!(entry.place, Place::NotLookedUp) {
            entry.place = Place::Ready;
        }
        self.put(entry);
    }

    /// Takes one out that still waits.
    pub(super) fn take(&mut self, number: u64) -> Option<T> {
        self.remove(number).map(|entry| entry.item)
    }

    /// What the one is worth that would lose its place first.
    pub(super) fn least_worth(&self) -> Option<u64> {
        self.worth.first().map(|(worth, _)| *worth)
    }

    /// Takes out that one.
    pub(super) fn take_least(&mut self) -> Option<T> {
        let (_, Reverse(number)) = *self.worth.first()?;
        self.take(number)
    }

    fn put(&mut self, entry: Entry<T>) {
        let number = entry.number;
        self.worth.insert((entry.rank.worth(), Reverse(number)));
        self.looked_up.insert((entry.looked_up, number));
        match entry.place {
            Place::NotLookedUp => {}
            Place::Ready => {
                self.ready.insert((entry.rank.turn(), Reverse(number)));
            }
            Place::Until(at) => {
                self.later.insert((at, number));
            }
        }
        self.entries.insert(number, entry);
    }

    fn remove(&mut self, number: u64) -> Option<Entry<T>> {
        let entry = self.entries.remove(&number)?;
        self.worth.remove(&(entry.rank.worth(), Reverse(number)));
        self.looked_up.remove(&(entry.looked_up, number));
        match entry.place {
            Place::NotLookedUp => {}
            Place::Ready => {
                self.ready.remove(&(entry.rank.turn(), Reverse(number)));
            }
            Place::Until(at) => {
                self.later.remove(&(at, number));
            }
        }
        Some(entry)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Looked up already.
    fn enter(agenda: &mut Agenda<&'static str>, name: &'static str, rank: Rank, now: Instant) {
        agenda.enter(name, rank, Some(now));
    }

    #[test]
    fn turns_go_by_rank_then_by_arrival() {
        let now = Instant::now();
        let mut agenda = Agenda::new();
        for (name, rank) in [
            ("kept", Rank::keep_runs_out(5_000, 9)),
            ("small", Rank::unknown(1)),
            ("dropped", Rank::drop_runs_out(1, 9)),
            ("large", Rank::unknown(900)),
            ("small, later", Rank::unknown(1)),
        ] {
            enter(&mut agenda, name, rank, now);
        }
        assert_eq!(agenda.least_worth(), Some(Rank::keep_runs_out(5_000, 9).worth()));
        let order: Vec<_> = std::iter::from_fn(|| agenda.next(now).map(|entry| entry.item)).collect();
        assert_eq!(order, ["dropped", "large", "small", "small, later", "kept"]);
        assert_eq!((agenda.least_worth(), agenda.oldest_look_up()), (None, None));
    }

    #[test]
    fn one_that_waits_lets_the_others_pass_and_its_waits_grow_to_two_seconds() {
        let mut now = Instant::now();
        let mut agenda = Agenda::new();
        enter(&mut agenda, "leased", Rank::unknown(900), now);
        enter(&mut agenda, "small", Rank::unknown(1), now);
        assert_eq!(agenda.wakes_at(now), Some(now));
        let entry = agenda.next(now).unwrap();
        assert_eq!(entry.item, "leased");
        agenda.come_back(entry, now, 0.0);
        assert_eq!(agenda.next(now).unwrap().item, "small");

        let mut waits = vec![agenda.wakes_at(now).unwrap().duration_since(now)];
        for _ in 0..6 {
            now = agenda.wakes_at(now).unwrap();
            let entry = agenda.next(now).unwrap();
            agenda.come_back(entry, now, 0.0);
            waits.push(agenda.wakes_at(now).unwrap().duration_since(now));
        }
        assert_eq!(
            waits,
            [100, 200, 400, 800, 1600, 2000, 2000].map(Duration::from_millis)
        );
    }

    #[test]
    fn one_that_had_no_turn_keeps_its_place() {
        let now = Instant::now();
        let mut agenda = Agenda::new();
        enter(&mut agenda, "first", Rank::unknown(1), now);
        enter(&mut agenda, "second", Rank::unknown(1), now);
        let entry = agenda.next(now).unwrap();
        agenda.give_back(entry);
        assert_eq!(agenda.next(now).unwrap().item, "first");
    }

    #[test]
    fn nobody_has_a_turn_before_it_was_looked_up_and_who_waits_is_looked_up_again() {
        let now = Instant::now();
        let later = now + Duration::from_secs(3);
        let mut agenda = Agenda::new();
        agenda.enter("new", Rank::unknown(9), None);
        enter(&mut agenda, "known", Rank::unknown(1), now);
        assert!(agenda.has_new());
        let numbers = |agenda: &Agenda<_>, before| -> Vec<u64> {
            let found = agenda.to_look_up(before, 10);
            found.into_iter().map(|(number, _)| number).collect()
        };
        assert_eq!(numbers(&agenda, None), [0]);
        assert_eq!(agenda.next(now).unwrap().item, "known");
        assert!(agenda.next(now).is_none());
        agenda.looked_up(0, later);
        assert_eq!(numbers(&agenda, Some(later)), Vec::<u64>::new());
        let after = Some(later + Duration::from_secs(1));
        assert_eq!(numbers(&agenda, after), [0]);
        let entry = agenda.next(later).unwrap();
        assert_eq!(entry.item, "new");
        agenda.looked_up(0, later);
        assert_eq!(agenda.take(0), None, "it has its turn");
        agenda.come_back(entry, later, 0.0);
        assert_eq!(agenda.take(0), Some("new"));
        assert_eq!(agenda.wakes_at(later), None);
    }

    #[test]
    fn the_least_and_latest_gives_its_place() {
        let now = Instant::now();
        let mut agenda = Agenda::new();
        for (name, points) in [("large", 9), ("small", 1), ("small, later", 1)] {
            enter(&mut agenda, name, Rank::unknown(points), now);
        }
        assert_eq!(agenda.take_least(), Some("small, later"));
        assert_eq!(agenda.take_least(), Some("small"));
        assert_eq!(agenda.take_least(), Some("large"));
        assert_eq!(agenda.take_least(), None);
    }
}
