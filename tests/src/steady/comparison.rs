//! A source's word held against the sink's: what was lost, what came twice. Pure.
//!
//! Of an instrument that is to be kept, every number that was acknowledged must be there. One that failed may be there:
//! nobody knows whether a request without an answer was taken. Of an instrument that may be dropped, nothing must be.

use std::collections::BTreeMap;
use std::fmt;

use super::Counts;
use crate::numbers::Numbers;
use crate::sink::Ledger;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Points of instruments to be kept that were acknowledged.
    pub acknowledged: u64,
    /// How many of them are there.
    pub delivered: u64,
    /// The others: numbers by source and instrument.
    pub lost: BTreeMap<(String, String), Numbers>,
    /// Points of instruments to be kept that are there, although their export failed or has not ended.
    pub unconfirmed: u64,
    /// Points of instruments that may be dropped that are there.
    pub droppable_delivered: u64,
    /// Points that arrived again.
    pub duplicates: u64,
    /// Their numbers, by source and instrument.
    pub doubled: BTreeMap<(String, String), Numbers>,
}

impl Comparison {
    /// Of what `counts` says was sent, and `ledger` says has arrived.
    pub fn new(counts: &Counts, ledger: &Ledger) -> Self {
        let mut found = Self::default();
        let nothing = Numbers::default();
        for (source, sent) in &counts.sources {
            let arrived = ledger.sources.get(source);
            found.duplicates += arrived.map_or(0, |arrived| arrived.duplicates);
            let instrument = |name: &String| arrived.and_then(|arrived| arrived.instruments.get(name));
            for name in &counts.kept_instruments {
                let there = instrument(name).map_or(&nothing, |instrument| &instrument.arrived);
                let lost = sent.acknowledged.without(there);
                found.acknowledged += sent.acknowledged.count();
                found.delivered += sent.acknowledged.count() - lost.count();
                found.unconfirmed += there.without(&sent.acknowledged).count();
                if !lost.is_empty() {
                    found.lost.insert((source.clone(), name.clone()), lost);
                }
            }
            for name in &counts.droppable_instruments {
                found.droppable_delivered +=
                    instrument(name).map_or(0, |instrument| instrument.arrived.count());
            }
            for (name, instrument) in arrived.iter().flat_map(|arrived| &arrived.instruments) {
                if !instrument.doubled.is_empty() {
                    found
                        .doubled
                        .insert((source.clone(), name.clone()), instrument.doubled.clone());
                }
            }
        }
        found
    }

    /// Whether all that was acknowledged is there.
    pub fn is_complete(&self) -> bool {
        self.lost.is_empty()
    }
}

impl fmt::Display for Comparison {
    /// One line, and one more for each instrument that has lost points.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "acknowledged={} delivered={} lost={} duplicates={} unconfirmed={} droppable_delivered={}",
            self.acknowledged,
            self.delivered,
            self.acknowledged - self.delivered,
            self.duplicates,
            self.unconfirmed,
            self.droppable_delivered
        )?;
        for ((source, instrument), numbers) in &self.lost {
            write!(formatter, "\nlost: {source} {instrument}: {numbers}")?;
        }
        Ok(())
    }
}
