//! Two sides, timed in turns.
//!
//! Time is this thread's time on a core: what else the machine does disturbs caches and clock rates, but is
//! not counted.

use std::time::{Duration, Instant};

use jevmetrics_testkit::benchmark::{ATTEMPTS, MOST_SPREAD, Paired, Range};
use rustix::time::{ClockId, clock_gettime};

use crate::error::BenchError;

/// How long to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// Of one measurement of one side.
    slot: Duration,
}

impl Effort {
    pub(crate) const FULL: Self = Self {
        rounds: 11,
        slot: Duration::from_millis(150),
    };
    pub(crate) const QUICK: Self = Self {
        rounds: 7,
        slot: Duration::from_millis(40),
    };
}

/// Times two sides against each other. `None` if they were too restless three times.
///
/// A side is called for one pass over its work.
pub(crate) fn compare(
    effort: Effort,
    first: &mut dyn FnMut() -> Result<(), BenchError>,
    second: &mut dyn FnMut() -> Result<(), BenchError>,
) -> Result<Option<Paired>, BenchError> {
    for _ in 0..ATTEMPTS {
        let paired = measure(effort, first, second)?;
        if paired.spread <= MOST_SPREAD {
            return Ok(Some(paired));
        }
    }
    Ok(None)
}

/// Times one side: nanoseconds a pass, in the same number of measurements.
pub(crate) fn time(
    effort: Effort,
    side: &mut dyn FnMut() -> Result<(), BenchError>,
) -> Result<Range, BenchError> {
    let passes = passes_a_slot(effort, side)?;
    let times: Result<Vec<f64>, BenchError> = (0..effort.rounds).map(|_| slot(passes, side)).collect();
    Ok(Range::of(times?))
}

fn measure(
    effort: Effort,
    first: &mut dyn FnMut() -> Result<(), BenchError>,
    second: &mut dyn FnMut() -> Result<(), BenchError>,
) -> Result<Paired, BenchError> {
    let (first_passes, second_passes) = (passes_a_slot(effort, first)?, passes_a_slot(effort, second)?);
    let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let (mut of_first, mut of_second) = ([0.0; 2], [0.0; 2]);
        for turn in 0..2 {
            of_first[turn] = slot(first_passes, first)?;
            of_second[turn] = slot(second_passes, second)?;
        }
        firsts.push(of_first);
        seconds.push(of_second);
    }
    Ok(Paired::of(&firsts, &seconds))
}

/// Runs for the length of a slot, which also warms caches and branch predictors.
fn passes_a_slot(
    effort: Effort,
    side: &mut dyn FnMut() -> Result<(), BenchError>,
) -> Result<u32, BenchError> {
    let start = Instant::now();
    let mut passes = 0;
    while start.elapsed() < effort.slot {
        side()?;
        passes += 1;
    }
    Ok(passes)
}

fn slot(passes: u32, side: &mut dyn FnMut() -> Result<(), BenchError>) -> Result<f64, BenchError> {
    let start = thread_time();
    for _ in 0..passes {
        side()?;
    }
    let taken = thread_time().saturating_sub(start);
    Ok(taken.as_secs_f64() * 1e9 / f64::from(passes))
}

fn thread_time() -> Duration {
    // Never negative.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
