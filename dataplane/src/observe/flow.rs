//! The equation, in data points, per process:
//!
//! ```text
//! received = kept + dropped        kept = exported + failed + in flight
//! ```
//! It holds under failure too: a request that is abandoned in the middle is counted as failed by the guard
//! that stands for it ([`InFlight`]).

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::counters::{Counters, Failure, MODES, mode_label};
use crate::retain::decide::{Decision, Reason};
use crate::retain::engine::Processed;
use crate::retain::tally::{Count, cell, outcomes};
use crate::verdict::Verdict;

/// Counts what flows through this process.
#[derive(Clone)]
pub struct Flow(Arc<Counters>);

/// The equation's numbers at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Equation {
    /// Data points received and read.
    pub received: u64,
    /// Not dropped by policy.
    pub kept: u64,
    /// Dropped by policy.
    pub dropped: u64,
    /// Accepted by downstream.
    pub exported: u64,
    /// Kept, but not accepted by downstream.
    pub failed: u64,
    /// Sent, not answered yet.
    pub in_flight: u64,
    /// Companion points accepted by downstream.
    pub companions_exported: u64,
}

impl Flow {
    /// Registers every counter.
    pub fn register(registry: &mut Registry) -> Self {
        Self(Arc::new(Counters::register(registry)))
    }

    /// Counts a request that was read and decided. The guard must see its verdict.
    pub fn start(&self, processed: &Processed) -> InFlight {
        let inner = &*self.0;
        let mode = MODES.iter().position(|mode| *mode == processed.mode).unwrap_or(0);
        for (decision, reason, count) in processed.tally.iter() {
            let Count { instruments, points } = count;
            if instruments > 0 {
                let counters = &inner.outcomes[mode][cell(decision, reason)];
                counters.instruments.inc_by(instruments);
                counters.points.inc_by(points);
            }
        }
        inner.metrics_processed.inc_by(processed.received_metrics);
        inner
            .metrics_kept
            .inc_by(processed.received_metrics - processed.dropped_metrics);
        inner.metrics_dropped.inc_by(processed.dropped_metrics);
        inner.metrics_annotated.inc_by(processed.annotated_metrics);
        inner.cache_hits.inc_by(processed.cache_hits);
        inner
            .cache_misses
            .inc_by(processed.received_metrics - processed.cache_hits);
        inner.alias_collisions.inc_by(processed.alias_collisions);
        inner.points_received.inc_by(processed.received_points);
        inner.points_kept.inc_by(processed.kept_points);
        inner.points_dropped.inc_by(processed.dropped_points);
        inner.points_in_flight.inc_by(as_i64(processed.kept_points));
        inner.companions_added.inc_by(processed.companion_points);
        InFlight {
            flow: self.clone(),
            points: processed.kept_points,
            companions: processed.companion_points,
            is_settled: false,
        }
    }

    /// The numbers now. Exact once traffic has stopped.
    pub fn equation(&self) -> Equation {
        let inner = &*self.0;
        Equation {
            received: inner.points_received.get(),
            kept: inner.points_kept.get(),
            dropped: inner.points_dropped.get(),
            exported: inner.points_exported.get(),
            failed: inner.points_failed.iter().map(Counter::get).sum(),
            in_flight: inner.points_in_flight.get().max(0).unsigned_abs(),
            companions_exported: inner.companions_exported.get(),
        }
    }

    /// Instruments and points by mode, decision and reason; zeros left out.
    pub fn outcomes(&self) -> Vec<(&'static str, &'static str, &'static str, Count)> {
        let mut rows = Vec::new();
        for (index, mode) in MODES.iter().enumerate() {
            for (decision, reason) in outcomes() {
                let counters = &self.0.outcomes[index][cell(decision, reason)];
                let count = Count {
                    instruments: counters.instruments.get(),
                    points: counters.points.get(),
                };
                if count.instruments > 0 {
                    rows.push((mode_label(*mode), decision.as_str(), reason.as_str(), count));
                }
            }
        }
        rows
    }

    /// Points that had a fresh assessment, and all points, since the start.
    pub fn covered(&self) -> (u64, u64) {
        let assessed = [
            (Decision::Keep, Reason::CachedScore),
            (Decision::Drop, Reason::CachedScore),
            (Decision::Keep, Reason::Uncertain),
        ];
        let covered = self.0.outcomes.iter().flat_map(|counters| {
            assessed
                .iter()
                .map(|(decision, reason)| counters[cell(*decision, *reason)].points.get())
        });
        (covered.sum(), self.0.points_received.get())
    }
}

/// Kept points on their way to downstream. Dropped without a verdict, they are counted as abandoned.
pub struct InFlight {
    flow: Flow,
    points: u64,
    companions: u64,
    is_settled: bool,
}

impl InFlight {
    /// Nothing was left to send.
    pub fn nothing_to_send(mut self) {
        debug_assert_eq!(self.points, 0, "nothing is sent only if nothing is kept");
        self.settle(self.points, None);
    }

    /// Counts downstream's verdict and makes it the sender's: rejected companions are ours, not the sender's.
    pub fn settle_with(mut self, verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Accepted => {
                self.flow.0.companions_exported.inc_by(self.companions);
                self.settle(self.points, None);
                Verdict::Accepted
            }
            Verdict::Partial { rejected, message } => {
                // Downstream does not say which: as many as there are companions may have been those.
                let of_sender = rejected.saturating_sub(self.companions).min(self.points);
                self.flow
                    .0
                    .companions_exported
                    .inc_by(self.companions.saturating_sub(rejected));
                self.settle(self.points - of_sender, Some((Failure::Rejected, of_sender)));
                Verdict::Partial {
                    rejected: of_sender,
                    message,
                }
            }
            Verdict::Temporary { .. } => {
                self.settle(0, Some((Failure::Temporary, self.points)));
                verdict
            }
            Verdict::Permanent { .. } => {
                self.settle(0, Some((Failure::Permanent, self.points)));
                verdict
            }
        }
    }

    fn settle(&mut self, exported: u64, failed: Option<(Failure, u64)>) {
        let inner = &*self.flow.0;
        inner.points_exported.inc_by(exported);
        if let Some((failure, points)) = failed {
            inner.points_failed[failure as usize].inc_by(points);
        }
        inner.points_in_flight.dec_by(as_i64(self.points));
        self.is_settled = true;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.is_settled {
            self.settle(0, Some((Failure::Abandoned, self.points)));
        }
    }
}

fn as_i64(points: u64) -> i64 {
    i64::try_from(points).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use jevmetrics_api::live::Mode;
    use tonic::Code;

    use super::*;
    use crate::retain::tally::Tally;

    fn processed(points: u64, dropped: u64, companions: u64) -> Processed {
        let mut tally = Tally::default();
        tally.add(
            crate::retain::decide::Decision::Keep,
            Reason::CachedScore,
            points - dropped,
        );
        Processed {
            output: None,
            mode: Some(Mode::Reduce),
            received_points: points,
            kept_points: points - dropped,
            dropped_points: dropped,
            received_metrics: 2,
            dropped_metrics: 1,
            annotated_metrics: companions / 4,
            companion_points: companions,
            cache_hits: 2,
            alias_collisions: 0,
            tally,
        }
    }

    fn flow() -> Flow {
        Flow::register(&mut Registry::default())
    }

    fn assert_balanced(flow: &Flow) -> Equation {
        let equation = flow.equation();
        assert_eq!(equation.received, equation.kept + equation.dropped);
        assert_eq!(
            equation.kept,
            equation.exported + equation.failed + equation.in_flight
        );
        equation
    }

    #[test]
    fn the_equation_holds_after_every_verdict() {
        let flow = flow();
        let temporary = Verdict::unavailable("later");
        let permanent = Verdict::Permanent {
            code: Code::InvalidArgument,
            message: String::new(),
        };
        for verdict in [Verdict::Accepted, temporary, permanent] {
            let in_flight = flow.start(&processed(10, 4, 8));
            assert_eq!(assert_balanced(&flow).in_flight, 6);
            assert_eq!(in_flight.settle_with(verdict.clone()), verdict);
            assert_balanced(&flow);
        }
        let equation = flow.equation();
        assert_eq!(
            (equation.exported, equation.failed, equation.companions_exported),
            (6, 12, 8)
        );
    }

    #[test]
    fn a_request_that_is_abandoned_is_counted_as_failed() {
        let flow = flow();
        drop(flow.start(&processed(10, 0, 0)));
        assert_eq!(assert_balanced(&flow).failed, 10);
    }

    #[test]
    fn a_request_of_which_all_was_dropped_sends_nothing() {
        let flow = flow();
        flow.start(&processed(10, 10, 0)).nothing_to_send();
        let equation = assert_balanced(&flow);
        assert_eq!((equation.dropped, equation.kept), (10, 0));
    }

    #[test]
    fn rejected_companions_are_not_the_senders() {
        let flow = flow();
        let partial = |rejected| Verdict::Partial {
            rejected,
            message: "too many".into(),
        };
        let told = flow.start(&processed(10, 0, 8)).settle_with(partial(8));
        assert_eq!(told, partial(0), "the words are passed on all the same");
        assert_eq!(flow.equation().exported, 10);
        let told = flow.start(&processed(10, 0, 8)).settle_with(partial(11));
        assert_eq!(told, partial(3));
        assert_eq!(assert_balanced(&flow).failed, 3);
        let told = flow.start(&processed(10, 0, 0)).settle_with(partial(1_000));
        assert_eq!(told, partial(10), "no more than was sent");
        assert_balanced(&flow);
    }
}
