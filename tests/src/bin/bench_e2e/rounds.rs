//! Two systems in turn under one load, and what their numbers say together.

use std::sync::Arc;

use crate::load::{Measured, Trial, measure};
use crate::sink::Sink;
use crate::system::System;
use crate::workload::Workload;
use crate::{Effort, Failure};

/// A system that differs from itself by more makes the row void.
const MOST_SPREAD: f64 = 0.15;
/// More than this of a core used by others disturbs a measurement: it is repeated.
const MOST_DISTURBANCE: f64 = 0.15;
/// A void row is measured again, this often in all.
const ATTEMPTS: usize = 3;
/// Above this share of its core the harness may be what limits throughput and latency.
pub(crate) const HARNESS_LIMIT: f64 = 0.85;

/// Median with lowest and highest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Range {
    /// Of at least one value.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
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

/// The rounds of one system. In each it is measured twice, with the other in between.
#[derive(Debug, Default)]
pub(crate) struct Side(Vec<[Measured; 2]>);

impl Side {
    pub(crate) fn range(&self, of: impl Fn(&Measured) -> f64) -> Range {
        Range::of(self.0.iter().flatten().map(of))
    }

    pub(crate) fn nanos(&self) -> Range {
        Range::of(self.each_nanos())
    }

    fn each_nanos(&self) -> impl Iterator<Item = f64> {
        let nanos = |measured: &Measured| measured.nanos_per_point;
        self.0
            .iter()
            .map(move |[first, second]| f64::midpoint(nanos(first), nanos(second)))
    }

    /// How far it is from agreeing with itself: the median difference within a round. A host that gets slower
    /// from round to round does not count, for it does so for both sides.
    fn spread(&self) -> f64 {
        let differences = self.0.iter().map(|[first, second]| {
            let (first, second) = (first.nanos_per_point, second.nanos_per_point);
            (first - second).abs() / f64::midpoint(first, second)
        });
        Range::of(differences).median
    }
}

/// A row's measurements.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) first: Side,
    pub(crate) second: Side,
}

impl Pair {
    /// `second / first` of each round.
    pub(crate) fn ratio(&self) -> Range {
        let rounds = self.first.each_nanos().zip(self.second.each_nanos());
        Range::of(rounds.map(|(first, second)| second / first))
    }

    /// The larger difference of a side to itself.
    pub(crate) fn spread(&self) -> f64 {
        self.first.spread().max(self.second.spread())
    }

    /// Why it must not be shown, if so.
    pub(crate) fn void(&self) -> Option<&'static str> {
        let others = |side: &Side| side.range(|measured| measured.others).high;
        if others(&self.first).max(others(&self.second)) > MOST_DISTURBANCE {
            return Some("other processes or the host used the cores");
        }
        (self.spread() > MOST_SPREAD).then_some("a side differed from itself")
    }
}

/// Measures both in turn, and again if they disagree with themselves. The last attempt is returned as it is.
pub(crate) async fn compare(
    systems: [&System; 2],
    workload: &Arc<Workload>,
    trial: Trial,
    effort: Effort,
    sink: &Sink,
) -> Result<Pair, Failure> {
    let mut attempt = 1;
    loop {
        let mut pair = Pair {
            first: Side::default(),
            second: Side::default(),
        };
        for _ in 0..effort.rounds {
            let [a, b] = systems;
            let mut measured = Vec::with_capacity(4);
            for system in [a, b, a, b] {
                measured.push(measure_quietly(system, workload, trial, effort.tries, sink).await?);
            }
            if let [a1, b1, a2, b2] = measured[..] {
                pair.first.0.push([a1, a2]);
                pair.second.0.push([b1, b2]);
            }
        }
        if pair.void().is_none() || attempt == ATTEMPTS {
            return Ok(pair);
        }
        attempt += 1;
    }
}

async fn measure_quietly(
    system: &System,
    workload: &Arc<Workload>,
    trial: Trial,
    tries: usize,
    sink: &Sink,
) -> Result<Measured, Failure> {
    let mut best = measure(system, workload, trial, sink).await?;
    for _ in 1..tries {
        if best.others <= MOST_DISTURBANCE {
            break;
        }
        let next = measure(system, workload, trial, sink).await?;
        if next.others < best.others {
            best = next;
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::Range;

    #[test]
    #[allow(clippy::float_cmp, reason = "no arithmetic is done on them")]
    fn the_median_of_an_even_number_lies_between() {
        let range = Range::of([4.0, 1.0, 2.0, 8.0]);
        assert_eq!([range.low, range.median, range.high], [1.0, 3.0, 8.0]);
        assert_eq!(Range::of([5.0]).median, 5.0);
    }
}
