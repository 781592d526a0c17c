//! What went out and what became of it, as Prometheus metrics with handles resolved once.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::{
    counter::Counter,
    family::Family,
    histogram::{Histogram, exponential_buckets},
};
use prometheus_client::registry::Registry;

use crate::verdict::Verdict;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Accepted.
    Accepted,
    /// Accepted but for some points.
    Partial,
    /// Not accepted now.
    Temporary,
    /// Never to be accepted.
    Permanent,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Accepted, Self::Partial, Self::Temporary, Self::Permanent];

    fn of(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Accepted => Self::Accepted,
            Verdict::Partial { .. } => Self::Partial,
            Verdict::Temporary { .. } => Self::Temporary,
            Verdict::Permanent { .. } => Self::Permanent,
        }
    }
}

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        match self {
            Self::Accepted => "accepted",
            Self::Partial => "partial",
            Self::Temporary => "temporary",
            Self::Permanent => "permanent",
        }
        .encode(encoder)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: Outcome,
}

#[derive(Debug)]
struct Inner {
    requests: [Counter; 4],
    bytes: Counter,
    duration: Histogram,
}

/// Shared by all exporters of a process.
#[derive(Debug, Clone)]
pub struct Stats(Arc<Inner>);

impl Stats {
    /// Registers `jevmetrics_export_*`.
    pub fn register(registry: &mut Registry) -> Self {
        let requests = Family::<OutcomeLabel, Counter>::default();
        let inner = Inner {
            requests: Outcome::ALL.map(|outcome| requests.get_or_create_owned(&OutcomeLabel { outcome })),
            bytes: Counter::default(),
            // 1 ms to 16 s: the default deadline of 8 s is a border.
            duration: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
        };
        let prefix = registry.sub_registry_with_prefix("jevmetrics_export");
        prefix.register(
            "requests",
            "Requests sent downstream, by what became of them",
            requests,
        );
        prefix.register(
            "bytes",
            "Bytes of the messages of these requests on the wire",
            inner.bytes.clone(),
        );
        prefix.register(
            "duration_seconds",
            "Time from send to verdict",
            inner.duration.clone(),
        );
        Self(Arc::new(inner))
    }

    pub(super) fn record(&self, verdict: &Verdict, bytes: u64, took: Duration) {
        self.0.requests[Outcome::of(verdict) as usize].inc();
        self.0.bytes.inc_by(bytes);
        self.0.duration.observe(took.as_secs_f64());
    }

    /// Bytes of all requests so far, as they went over the wire.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.get()
    }

    /// Requests with this outcome so far.
    pub fn requests(&self, outcome: Outcome) -> u64 {
        self.0.requests[outcome as usize].get()
    }
}
