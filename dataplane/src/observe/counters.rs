//! The counters behind [`super::flow`], resolved once so that a request looks nothing up.

use jevmetrics_api::live::Mode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::{CauseLabel, FromLabel, OutcomeLabels};
use crate::retain::tally::{Tally, cell, outcomes};

/// Label of a mode; `None` is the time before the policy was read.
pub fn mode_label(mode: Option<Mode>) -> &'static str {
    match mode {
        None => "none",
        Some(Mode::Annotate) => "annotate",
        Some(Mode::Reduce) => "reduce",
    }
}

pub(super) const MODES: [Option<Mode>; 3] = [None, Some(Mode::Annotate), Some(Mode::Reduce)];

/// Why kept points did not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// Downstream, or the way to it, said "later".
    Temporary,
    /// Downstream said "never".
    Permanent,
    /// Downstream accepted the request without them.
    Rejected,
    /// The sender went away, or the process stopped, before downstream answered.
    Abandoned,
}

impl Failure {
    pub(super) const ALL: [Self; 4] = [Self::Temporary, Self::Permanent, Self::Rejected, Self::Abandoned];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Temporary => "temporary",
            Self::Permanent => "permanent",
            Self::Rejected => "rejected",
            Self::Abandoned => "abandoned",
        }
    }
}

/// Instruments and points of one decision and reason in one mode.
#[derive(Default)]
pub(super) struct OutcomeCounters {
    pub(super) instruments: Counter,
    pub(super) points: Counter,
}

pub(super) struct Counters {
    /// By mode, then by [`cell`].
    pub(super) outcomes: [[OutcomeCounters; Tally::CELLS]; MODES.len()],
    pub(super) metrics_processed: Counter,
    pub(super) metrics_kept: Counter,
    pub(super) metrics_dropped: Counter,
    pub(super) metrics_annotated: Counter,
    pub(super) cache_hits: Counter,
    pub(super) cache_misses: Counter,
    pub(super) alias_collisions: Counter,
    pub(super) points_received: Counter,
    pub(super) points_kept: Counter,
    pub(super) points_dropped: Counter,
    pub(super) points_exported: Counter,
    pub(super) points_failed: [Counter; Failure::ALL.len()],
    pub(super) points_in_flight: Gauge,
    pub(super) companions_added: Counter,
    pub(super) companions_exported: Counter,
}

impl Counters {
    /// Registers every counter, all at zero: what did not happen yet can be seen too.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let counters = Self {
            metrics_processed: counter("jevmetrics_metrics_processed", "Metrics received and read"),
            metrics_kept: counter("jevmetrics_metrics_kept", "Metrics not dropped by policy"),
            metrics_dropped: counter("jevmetrics_metrics_dropped", "Metrics dropped by policy"),
            metrics_annotated: counter("jevmetrics_metrics_annotated", "Metrics that got companions"),
            cache_hits: counter(
                "jevmetrics_cache_hits",
                "Metrics whose identity was known at once",
            ),
            cache_misses: counter(
                "jevmetrics_cache_misses",
                "Metrics whose identity had to be parsed",
            ),
            alias_collisions: counter(
                "jevmetrics_alias_collisions",
                "Drops that were not done because a second hash did not agree",
            ),
            points_kept: counter("jevmetrics_points_kept", "Data points not dropped by policy"),
            points_dropped: counter("jevmetrics_points_dropped", "Data points dropped by policy"),
            points_exported: counter("jevmetrics_points_exported", "Data points accepted by downstream"),
            companions_added: counter("jevmetrics_companions_added", "Companion data points written"),
            companions_exported: counter(
                "jevmetrics_companions_exported",
                "Companion data points accepted by downstream",
            ),
            points_received: received(registry),
            points_failed: failed(registry),
            points_in_flight: Gauge::default(),
            outcomes: decided(registry),
        };
        registry.register(
            "jevmetrics_points_in_flight",
            "Kept data points sent and not answered yet",
            counters.points_in_flight.clone(),
        );
        counters
    }
}

fn received(registry: &mut Registry) -> Counter {
    let family = Family::<FromLabel, Counter>::default();
    registry.register(
        "jevmetrics_points_received",
        "Data points received and read",
        family.clone(),
    );
    family.get_or_create_owned(&FromLabel { from: "client" })
}

fn failed(registry: &mut Registry) -> [Counter; Failure::ALL.len()] {
    let family = Family::<CauseLabel, Counter>::default();
    registry.register(
        "jevmetrics_points_failed",
        "Kept data points not accepted by downstream",
        family.clone(),
    );
    Failure::ALL.map(|failure| {
        family.get_or_create_owned(&CauseLabel {
            cause: failure.as_str(),
        })
    })
}

fn decided(registry: &mut Registry) -> [[OutcomeCounters; Tally::CELLS]; MODES.len()] {
    let instruments = Family::<OutcomeLabels, Counter>::default();
    let points = Family::<OutcomeLabels, Counter>::default();
    registry.register(
        "jevmetrics_policy_instruments",
        "Instruments by decision, once for each request that holds them; in annotate, what reduce would do",
        instruments.clone(),
    );
    registry.register(
        "jevmetrics_policy_datapoints",
        "Data points by decision; in annotate, what reduce would do",
        points.clone(),
    );
    MODES.map(|mode| {
        let mut counters: [OutcomeCounters; Tally::CELLS] = Default::default();
        for (decision, reason) in outcomes() {
            let labels = OutcomeLabels {
                mode: mode_label(mode),
                decision: decision.as_str(),
                reason: reason.as_str(),
            };
            counters[cell(decision, reason)] = OutcomeCounters {
                instruments: instruments.get_or_create_owned(&labels),
                points: points.get_or_create_owned(&labels),
            };
        }
        counters
    })
}
