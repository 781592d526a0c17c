//! Two systems in turn under one load, and what their numbers say together.

use std::sync::Arc;

use jevmetrics_testkit::benchmark::{ATTEMPTS, MOST_SPREAD, Paired, Range};

use crate::load::{Measured, Trial, measure};
use crate::sink::Sink;
use crate::system::System;
use crate::workload::Workload;
use crate::{Effort, Failure};

/// More than this of a core used by others disturbs a measurement: it is repeated.
const MOST_DISTURBANCE: f64 = 0.15;
/// Above this share of its core the harness may be what limits throughput and latency.
pub(crate) const HARNESS_LIMIT: f64 = 0.85;

/// The rounds of one system. In each it is measured twice, with the other in between.
#[derive(Debug, Default)]
pub(crate) struct Side(Vec<[Measured; 2]>);

impl Side {
    pub(crate) fn range(&self, of: impl Fn(&Measured) -> f64) -> Range {
        Range::of(self.0.iter().flatten().map(of))
    }

    fn nanos(&self) -> Vec<[f64; 2]> {
        let nanos = |round: &[Measured; 2]| round.map(|measured| measured.nanos_per_point);
        self.0.iter().map(nanos).collect()
    }
}

/// A row's measurements.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) first: Side,
    pub(crate) second: Side,
}

impl Pair {
    /// CPU time for each data point.
    pub(crate) fn nanos(&self) -> Paired {
        Paired::of(&self.first.nanos(), &self.second.nanos())
    }

    /// Why it must not be shown, if so.
    pub(crate) fn void(&self) -> Option<&'static str> {
        let others = |side: &Side| side.range(|measured| measured.others).high;
        if others(&self.first).max(others(&self.second)) > MOST_DISTURBANCE {
            return Some("other processes or the host used the cores");
        }
        (self.nanos().spread > MOST_SPREAD).then_some("a side differed from itself")
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
        let [first, second] = systems;
        let measured = async |system| measure_quietly(system, workload, trial, effort.tries, sink).await;
        for _ in 0..effort.rounds {
            let (first_once, second_once) = (measured(first).await?, measured(second).await?);
            let (first_again, second_again) = (measured(first).await?, measured(second).await?);
            pair.first.0.push([first_once, first_again]);
            pair.second.0.push([second_once, second_again]);
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
