//! Two systems in turn under one load, and what their numbers say together.

use std::sync::Arc;

use crate::load::{Measured, Trial, measure};
use crate::sink::Sink;
use crate::system::System;
use crate::workload::Workload;
use crate::{Effort, Failure};

/// A system that differs from itself by more, between rounds, makes the row void.
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

    /// How far it is from agreeing with itself.
    pub(crate) fn spread(self) -> f64 {
        (self.high - self.low) / self.median
    }
}

/// The rounds of one system.
#[derive(Debug, Default)]
pub(crate) struct Side(Vec<Measured>);

impl Side {
    pub(crate) fn range(&self, of: impl Fn(&Measured) -> f64) -> Range {
        Range::of(self.0.iter().map(of))
    }

    pub(crate) fn nanos(&self) -> Range {
        self.range(|measured| measured.nanos_per_point)
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
        let rounds = self.first.0.iter().zip(&self.second.0);
        Range::of(rounds.map(|(first, second)| second.nanos_per_point / first.nanos_per_point))
    }

    /// The larger difference of a side to itself.
    pub(crate) fn spread(&self) -> f64 {
        self.first.nanos().spread().max(self.second.nanos().spread())
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
            for (side, system) in [(&mut pair.first, systems[0]), (&mut pair.second, systems[1])] {
                side.0
                    .push(measure_quietly(system, workload, trial, effort.tries, sink).await?);
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
