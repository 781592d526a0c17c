//! Points and instruments by decision and reason: counted within a request, added up once at its end.

use super::decide::{Decision, Reason};

/// Decisions × reasons.
const CELLS: usize = 2 * Reason::ALL.len();

/// Points and instruments of one outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Instruments, once each time a request holds them.
    pub instruments: u64,
    /// Data points.
    pub points: u64,
}

/// Counts by decision and reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    cells: [Count; CELLS],
}

/// Where an outcome is counted, in any array of [`Tally::CELLS`] counters.
#[inline]
pub fn cell(decision: Decision, reason: Reason) -> usize {
    (decision as usize) * Reason::ALL.len() + reason as usize
}

impl Tally {
    /// How many outcomes are told apart.
    pub const CELLS: usize = CELLS;

    /// Counts one metric.
    #[inline]
    pub fn add(&mut self, decision: Decision, reason: Reason, points: u64) {
        let count = &mut self.cells[cell(decision, reason)];
        count.instruments += 1;
        count.points += points;
    }

    /// One outcome.
    pub fn get(&self, decision: Decision, reason: Reason) -> Count {
        self.cells[cell(decision, reason)]
    }

    /// All outcomes that can happen, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Decision, Reason, Count)> + '_ {
        outcomes().map(|(decision, reason)| (decision, reason, self.get(decision, reason)))
    }
}

/// All outcomes that can happen: only a score drops.
pub fn outcomes() -> impl Iterator<Item = (Decision, Reason)> {
    let keeps = Reason::ALL.into_iter().map(|reason| (Decision::Keep, reason));
    keeps.chain([(Decision::Drop, Reason::CachedScore)])
}
