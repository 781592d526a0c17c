//! Sets of numbers that are nearly without gaps: what was sent or has arrived, in few bytes however long it takes.
//!
//! Invariants: ranges do not overlap and do not touch; a set and its text as JSON, a list of `[first, last]`, say the
//! same.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A set of numbers.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct Numbers {
    /// Last by first, both of them in the set.
    ranges: BTreeMap<u64, u64>,
}

impl Numbers {
    /// The numbers from 1 to `last`; none if that is 0.
    pub fn up_to(last: u64) -> Self {
        (last > 0).then_some((1, last)).into_iter().collect()
    }

    /// Adds a number. Says whether it is new.
    pub fn insert(&mut self, number: u64) -> bool {
        if self.contains(number) {
            return false;
        }
        let after = number.checked_add(1).and_then(|next| self.ranges.remove(&next));
        let last = after.unwrap_or(number);
        let before = self.ranges.range_mut(..number).next_back();
        match before {
            Some((_, end)) if *end + 1 == number => *end = last,
            _ => {
                self.ranges.insert(number, last);
            }
        }
        true
    }

    /// Whether `number` is in the set.
    pub fn contains(&self, number: u64) -> bool {
        let before = self.ranges.range(..=number).next_back();
        before.is_some_and(|(_, last)| *last >= number)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The highest.
    pub fn last(&self) -> Option<u64> {
        self.ranges.last_key_value().map(|(_, last)| *last)
    }

    /// Those that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        for (&first, &last) in &self.ranges {
            // None behind the highest number of all.
            let mut next = Some(first);
            for (from, to) in other.overlapping(first, last) {
                if let Some(next) = next.filter(|next| *next < from) {
                    left.push((next, from - 1));
                }
                next = to.checked_add(1);
            }
            if let Some(next) = next.filter(|next| *next <= last) {
                left.push((next, last));
            }
        }
        left.into_iter().collect()
    }

    /// The ranges that have numbers between `first` and `last`, in order.
    fn overlapping(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, u64)> {
        let begin = self
            .ranges
            .range(..=first)
            .next_back()
            .map_or(first, |(from, _)| *from);
        let ranges = self.ranges.range(begin..=last).map(|(from, to)| (*from, *to));
        ranges.filter(move |(_, to)| *to >= first)
    }
}

impl FromIterator<(u64, u64)> for Numbers {
    /// Of ranges in any order, which may overlap.
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(ranges: I) -> Self {
        let mut sorted: Vec<_> = ranges.into_iter().filter(|(first, last)| first <= last).collect();
        sorted.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(sorted.len());
        for (first, last) in sorted {
            match joined.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => joined.push((first, last)),
            }
        }
        Self {
            ranges: joined.into_iter().collect(),
        }
    }
}

impl From<Vec<(u64, u64)>> for Numbers {
    fn from(ranges: Vec<(u64, u64)>) -> Self {
        ranges.into_iter().collect()
    }
}

impl From<Numbers> for Vec<(u64, u64)> {
    fn from(numbers: Numbers) -> Self {
        numbers.ranges.into_iter().collect()
    }
}

impl fmt::Display for Numbers {
    /// As `1-7, 9`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            if first == last {
                write!(formatter, "{separator}{first}")?;
            } else {
                write!(formatter, "{separator}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Numbers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{{{self}}}")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use super::Numbers;

    fn plain(numbers: &Numbers) -> BTreeSet<u64> {
        (0..=100).filter(|number| numbers.contains(*number)).collect()
    }

    #[test]
    fn it_is_what_an_ordinary_set_is() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut numbers, mut others) = (Numbers::default(), Numbers::default());
            let mut expected = BTreeSet::new();
            let size = random.usize(0..80);
            for _ in 0..size {
                let number = random.u64(0..60);
                assert_eq!(numbers.insert(number), expected.insert(number));
                others.insert(random.u64(0..60));
            }
            assert_eq!(plain(&numbers), expected);
            assert_eq!(numbers.count(), expected.len() as u64);
            assert_eq!(numbers.last(), expected.last().copied());
            let left: BTreeSet<u64> = expected.difference(&plain(&others)).copied().collect();
            assert_eq!(plain(&numbers.without(&others)), left);
            // Equal sets have equal ranges.
            let text = serde_json::to_string(&numbers).unwrap();
            assert_eq!(serde_json::from_str::<Numbers>(&text).unwrap(), numbers);
        }
    }

    #[test]
    fn neighbours_become_one_range_and_text_says_it_shortly() {
        let mut numbers = Numbers::default();
        for number in [4, 2, 9, 3, 1] {
            numbers.insert(number);
        }
        assert_eq!(numbers.to_string(), "1-4, 9");
        assert_eq!(serde_json::to_string(&numbers).unwrap(), "[[1,4],[9,9]]");
        assert_eq!(
            serde_json::from_str::<Numbers>("[[9,9],[3,4],[1,3]]").unwrap(),
            numbers
        );
        assert_eq!(Numbers::up_to(9).without(&numbers).to_string(), "5-8");
        assert!(Numbers::up_to(0).is_empty());
        let edges: Numbers = [(0, 0), (u64::MAX, u64::MAX)].into_iter().collect();
        assert_eq!((edges.count(), edges.contains(u64::MAX)), (2, true));
        assert!(edges.without(&edges).is_empty());
    }
}
