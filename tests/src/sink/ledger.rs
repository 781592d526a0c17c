//! Which numbered points have arrived, and which of them more than once.
//!
//! Invariants: a point is known by its source, its instrument and its number; whatever is not numbered is only counted.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use serde::{Deserialize, Serialize};

use crate::numbers::Numbers;
use crate::steady::numbered;

/// All that arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// By the id of the source.
    pub sources: BTreeMap<String, SourceLedger>,
    /// Points that were not numbered, companions not.
    pub unnumbered: u64,
}

/// What arrived of one source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLedger {
    /// Points, each counted once.
    pub unique: u64,
    /// Points that had arrived before.
    pub duplicates: u64,
    /// By the name of the instrument.
    pub instruments: BTreeMap<String, InstrumentLedger>,
}

/// What arrived of one instrument of one source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstrumentLedger {
    /// Numbers that arrived.
    pub arrived: Numbers,
    /// Numbers that arrived more than once.
    pub doubled: Numbers,
    /// Numbers up to the highest that did not arrive. What is above it, only the source knows.
    pub missing: Numbers,
}

impl Ledger {
    pub(super) fn add(&mut self, request: &ExportMetricsServiceRequest) {
        numbered::read(request, |point| match point {
            None => self.unnumbered += 1,
            Some((source, instrument, number)) => {
                let source = entry(&mut self.sources, source);
                if entry(&mut source.instruments, instrument).arrive(number) {
                    source.unique += 1;
                } else {
                    source.duplicates += 1;
                }
            }
        });
    }
}

impl InstrumentLedger {
    /// Says whether it is the first time.
    fn arrive(&mut self, number: u64) -> bool {
        let is_new = self.arrived.insert(number);
        if !is_new {
            self.doubled.insert(number);
        }
        let highest = self.arrived.last().unwrap_or(0);
        self.missing = Numbers::up_to(highest).without(&self.arrived);
        is_new
    }
}

/// The entry under `key`, which is copied only if it is new.
fn entry<'a, V: Default>(map: &'a mut BTreeMap<String, V>, key: &str) -> &'a mut V {
    if !map.contains_key(key) {
        map.insert(key.to_owned(), V::default());
    }
    map.entry(key.to_owned()).or_default()
}

#[cfg(test)]
mod tests {
    use super::Ledger;
    use crate::source::{Generator, Shape, everything};
    use crate::steady::numbered::write;

    const SHAPE: Shape = Shape {
        metrics: 6,
        points: 1,
        resources: 1,
        scopes: 1,
        droppable_percent: 50,
    };

    #[test]
    fn lost_and_doubled_points_are_named() {
        let mut generator = Generator::new(SHAPE, 1);
        let mut ledger = Ledger::default();
        for number in [1, 2, 5, 4, 5, 5] {
            let mut request = generator.next_request();
            write(&mut request, "s", 1_000, number);
            ledger.add(&request);
        }
        let source = &ledger.sources["s"];
        assert_eq!((source.unique, source.duplicates), (4 * 6, 2 * 6));
        assert_eq!(source.instruments.len(), 6);
        for instrument in source.instruments.values() {
            assert_eq!(instrument.arrived.to_string(), "1-2, 4-5");
            assert_eq!(instrument.doubled.to_string(), "5");
            assert_eq!(instrument.missing.to_string(), "3");
        }
    }

    #[test]
    fn sources_and_instruments_are_told_apart_and_a_dropped_instrument_is_missing_alone() {
        let mut generator = Generator::new(SHAPE, 1);
        let names = generator.names();
        let mut ledger = Ledger::default();
        for (source, number) in [("s", 1), ("t", 1), ("s", 2), ("s", 3)] {
            let mut request = generator.next_request();
            write(&mut request, source, 1_000, number);
            if number == 2 {
                request.resource_metrics[0].scope_metrics[0].metrics.remove(3);
            }
            ledger.add(&request);
        }
        assert_eq!((ledger.sources["s"].unique, ledger.sources["t"].unique), (17, 6));
        for (index, name) in names.iter().enumerate() {
            let missing = ledger.sources["s"].instruments[name].missing.to_string();
            assert_eq!(missing, if index == 3 { "2" } else { "" });
        }
    }

    #[test]
    fn what_others_send_is_only_counted_and_companions_are_not() {
        let mut ledger = Ledger::default();
        let mut request = everything(1);
        "jev.metric.relevance".clone_into(&mut request.resource_metrics[0].scope_metrics[0].metrics[0].name);
        ledger.add(&request);
        assert_eq!(ledger.unnumbered, 5);
        assert!(ledger.sources.is_empty());
    }
}
