//! What a source has sent, and what it was told. In data points if nothing else is said.
//!
//! Invariants, at any moment:
//! - `points_sent = points_acknowledged + rejected + points_failed + points_in_flight`
//! - `attempts = retries + requests`
//! - of each source, a number up to `last` is acknowledged, failed, or in flight.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::attempt::{Cause, Outcome};
use crate::numbers::Numbers;

/// Totals, and what became of every number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Exports begun, each counted once.
    pub requests: u64,
    /// Times that one was sent.
    pub attempts: u64,
    /// Attempts but the first of each.
    pub retries: u64,
    /// Exports given up, or refused for good.
    pub failed_exports: u64,
    /// Exports that have not ended.
    pub in_flight: u64,
    /// Exports that were due, but not begun, as too many were in flight.
    pub held_back: u64,
    /// Of all exports begun.
    pub points_sent: u64,
    /// That the other side has said it took.
    pub points_acknowledged: u64,
    /// That it has said it did not take, of exports that it took.
    pub rejected: u64,
    /// Of failed exports.
    pub points_failed: u64,
    /// Of exports that have not ended.
    pub points_in_flight: u64,
    /// Attempts that were not accepted, by gRPC code, HTTP status, or `no answer`.
    pub causes: BTreeMap<String, u64>,
    /// What was said to the last of them.
    pub last_cause: Option<String>,
    /// Names of the instruments of each source that the mock of Jev tells to keep.
    pub kept_instruments: Vec<String>,
    /// And those that it tells to drop.
    pub droppable_instruments: Vec<String>,
    /// By the id of the source.
    pub sources: BTreeMap<String, SourceCounts>,
}

/// Numbers of one source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceCounts {
    /// The highest one sent; the first is 1.
    pub last: u64,
    /// That the other side took.
    pub acknowledged: Numbers,
    /// Of failed exports.
    pub failed: Numbers,
}

/// One export.
#[derive(Debug, Clone, Copy)]
pub(super) struct Export<'a> {
    pub(super) source: &'a str,
    pub(super) number: u64,
    pub(super) points: u64,
}

impl Counts {
    pub(super) fn begin(&mut self, export: Export<'_>) {
        self.requests += 1;
        self.in_flight += 1;
        self.points_sent += export.points;
        self.points_in_flight += export.points;
        self.source(export).last = export.number;
    }

    /// `attempt` is 1 for the first of an export.
    pub(super) fn attempt(&mut self, attempt: u32) {
        self.attempts += 1;
        if attempt > 1 {
            self.retries += 1;
        }
    }

    /// An attempt was not accepted.
    pub(super) fn refused(&mut self, cause: &Cause) {
        *self.causes.entry(cause.code.clone()).or_default() += 1;
        self.last_cause = Some(format!("{}: {}", cause.code, cause.message));
    }

    pub(super) fn end(&mut self, export: Export<'_>, outcome: &Outcome) {
        self.in_flight -= 1;
        self.points_in_flight -= export.points;
        match outcome {
            Outcome::Accepted { rejected } => {
                let rejected = (*rejected).min(export.points);
                self.rejected += rejected;
                self.points_acknowledged += export.points - rejected;
                self.source(export).acknowledged.insert(export.number);
            }
            Outcome::Temporary { .. } | Outcome::Permanent { .. } => {
                self.failed_exports += 1;
                self.points_failed += export.points;
                self.source(export).failed.insert(export.number);
            }
        }
    }

    fn source(&mut self, export: Export<'_>) -> &mut SourceCounts {
        self.sources.entry(export.source.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Cause, Counts, Export, Outcome};

    fn cause() -> Cause {
        Cause {
            code: "503".to_owned(),
            message: "later".to_owned(),
        }
    }

    fn adds_up(counts: &Counts) {
        let ended = counts.points_acknowledged + counts.rejected + counts.points_failed;
        assert_eq!(counts.points_sent, ended + counts.points_in_flight);
        assert_eq!(counts.attempts, counts.requests + counts.retries);
    }

    #[test]
    fn every_point_is_in_exactly_one_place() {
        let mut counts = Counts::default();
        let outcomes = [
            Outcome::Accepted { rejected: 0 },
            Outcome::Temporary {
                cause: cause(),
                wait: None,
            },
            Outcome::Accepted { rejected: 3 },
            Outcome::Permanent { cause: cause() },
        ];
        for (number, outcome) in (1..).zip(&outcomes) {
            let export = Export {
                source: "s",
                number,
                points: 10,
            };
            counts.begin(export);
            counts.attempt(1);
            adds_up(&counts);
            assert_eq!((counts.in_flight, counts.points_in_flight), (1, 10));
            counts.refused(&cause());
            counts.attempt(2);
            counts.end(export, outcome);
            adds_up(&counts);
        }
        assert_eq!(
            (counts.points_acknowledged, counts.rejected, counts.points_failed),
            (17, 3, 20)
        );
        assert_eq!(
            (
                counts.requests,
                counts.attempts,
                counts.retries,
                counts.failed_exports
            ),
            (4, 8, 4, 2)
        );
        assert_eq!(
            (counts.causes["503"], counts.last_cause.as_deref()),
            (4, Some("503: later"))
        );
        let source = &counts.sources["s"];
        assert_eq!(source.last, 4);
        assert_eq!(
            (source.acknowledged.to_string(), source.failed.to_string()),
            ("1, 3".into(), "2, 4".into())
        );
    }

    #[test]
    fn a_backend_that_rejects_more_than_it_was_sent_is_not_believed() {
        let mut counts = Counts::default();
        let export = Export {
            source: "s",
            number: 1,
            points: 2,
        };
        counts.begin(export);
        counts.attempt(1);
        counts.end(export, &Outcome::Accepted { rejected: 9 });
        adds_up(&counts);
        assert_eq!(counts.rejected, 2);
    }
}
