//! What the benchmarks share: how two sides are compared, how much effort is wanted, where results go.
//!
//! Two sides are measured in turns: in every round first, second, first, second. Each side is thus also
//! measured against itself: what two measurements of one side in one round differ is the noise in which a
//! difference between the sides must be seen. A machine that gets slower from round to round does not count,
//! for it does so for both sides.

use std::path::PathBuf;

/// A spread above this makes a measurement void.
pub const MOST_SPREAD: f64 = 0.15;
/// A void measurement is made again, this often in all.
pub const ATTEMPTS: usize = 3;

/// The middle and the ends of some measurements.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// The middle; of an even number, between the two.
    pub median: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl Range {
    /// Of at least one value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(at(middle.wrapping_sub(1)), at(middle))
        } else {
            at(middle)
        };
        Self {
            median,
            low: at(0),
            high: at(values.len().wrapping_sub(1)),
        }
    }
}

/// What the rounds of two sides say together.
#[derive(Debug, Clone, Copy)]
pub struct Paired {
    /// The first side, round by round.
    pub first: Range,
    /// The second side, round by round.
    pub second: Range,
    /// Second ÷ first, round by round.
    pub ratio: Range,
    /// Median relative difference of one side to itself within a round; of the side where it is larger.
    pub spread: f64,
}

impl Paired {
    /// Of the two measurements of each side in each round.
    pub fn of(first: &[[f64; 2]], second: &[[f64; 2]]) -> Self {
        let mean = |[one, two]: &[f64; 2]| f64::midpoint(*one, *two);
        let itself = |[one, two]: &[f64; 2]| (one - two).abs() / one.min(*two);
        let spread = |side: &[[f64; 2]]| Range::of(side.iter().map(itself)).median;
        let rounds = first.iter().zip(second);
        Self {
            first: Range::of(first.iter().map(mean)),
            second: Range::of(second.iter().map(mean)),
            ratio: Range::of(rounds.map(|(first, second)| mean(second) / mean(first))),
            spread: spread(first).max(spread(second)),
        }
    }
}

/// Whether `QUICK=1` asks for shorter and fewer rounds.
pub fn is_quick() -> bool {
    std::env::var_os("QUICK").is_some_and(|value| value != "0")
}

/// `bench/summary.json` in cargo's target directory.
pub fn summary_path() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").filter(|target| !target.is_empty());
    let target = target.map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target"),
        PathBuf::from,
    );
    target.join("bench/summary.json")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, reason = "no rounding happens to these values")]
    use super::{Paired, Range};

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        let range = Range::of([4.0, 1.0, 2.0, 8.0]);
        assert_eq!([range.low, range.median, range.high], [1.0, 3.0, 8.0]);
        assert_eq!(Range::of([5.0]).median, 5.0);
    }

    #[test]
    fn a_machine_that_gets_slower_changes_neither_ratio_nor_spread() {
        let first = [[4.0, 5.0], [40.0, 50.0], [400.0, 500.0]];
        let second = first.map(|round| round.map(|value| 2.0 * value));
        let paired = Paired::of(&first, &second);
        assert_eq!([paired.ratio.low, paired.ratio.high], [2.0, 2.0]);
        assert_eq!(paired.spread, 0.25);
    }
}
