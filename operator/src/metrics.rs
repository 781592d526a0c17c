//! What the operator counts. No label carries a name that users choose.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::kinds::Kind;

/// What the operator counts.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    reconciles: Family<ReconcileLabels, Counter>,
    reconcile_seconds: Histogram,
    applies: Family<ApplyLabels, Counter>,
    requests: Family<RequestLabels, Counter>,
    polls: Family<PollLabels, Counter>,
    leading: Gauge,
    terms: Counter,
    renewed: Gauge<f64, AtomicU64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReconcileLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ApplyLabels {
    kind: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PollLabels {
    result: &'static str,
}

/// What an apply did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The object was not there.
    Created,
    /// It was different.
    Changed,
    /// It was as it is wanted.
    Unchanged,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("jevmetrics_operator");
        let reconciles = Family::default();
        registry.register(
            "reconciles",
            "Reconciles by what they came to",
            reconciles.clone(),
        );
        let reconcile_seconds = Histogram::new([0.005, 0.02, 0.1, 0.5, 2.0, 10.0]);
        registry.register(
            "reconcile_seconds",
            "Duration of reconciles",
            reconcile_seconds.clone(),
        );
        let applies = Family::default();
        registry.register(
            "applies",
            "Applies by kind and by what they changed",
            applies.clone(),
        );
        let requests = Family::default();
        registry.register("api_requests", "Requests to the API server", requests.clone());
        let polls = Family::default();
        registry.register("polls", "Questions to pods about themselves", polls.clone());
        let leading = Gauge::default();
        registry.register("leading", "1 while this replica leads", leading.clone());
        let terms = Counter::default();
        registry.register("terms", "How often this replica has begun to lead", terms.clone());
        let renewed = Gauge::<f64, AtomicU64>::default();
        registry.register(
            "renewed_seconds_ago",
            "Age of the last renewal of the Lease",
            renewed.clone(),
        );
        Self {
            registry: Arc::new(registry),
            reconciles,
            reconcile_seconds,
            applies,
            requests,
            polls,
            leading,
            terms,
            renewed,
        }
    }
}

impl Metrics {
    /// Counts a reconcile.
    pub fn reconciled(&self, is_success: bool, took: Duration) {
        let result = if is_success { "success" } else { "failure" };
        self.reconciles.get_or_create(&ReconcileLabels { result }).inc();
        self.reconcile_seconds.observe(took.as_secs_f64());
    }

    /// Counts an apply.
    pub fn applied(&self, kind: Kind, applied: Applied) {
        let result = match applied {
            Applied::Created => "created",
            Applied::Changed => "changed",
            Applied::Unchanged => "unchanged",
        };
        let kind = kind.name();
        self.applies.get_or_create(&ApplyLabels { kind, result }).inc();
    }

    /// Counts a request to the API server; `code` is none if there was no answer.
    pub fn requested(&self, method: &http::Method, code: Option<u16>) {
        let labels = RequestLabels {
            method: method.to_string(),
            code: code.map_or_else(|| "none".to_owned(), |code| code.to_string()),
        };
        self.requests.get_or_create(&labels).inc();
    }

    /// Counts a question to a pod.
    pub fn polled(&self, is_answered: bool) {
        let result = if is_answered { "answered" } else { "unanswered" };
        self.polls.get_or_create(&PollLabels { result }).inc();
    }

    /// Notes that this replica leads, or does not.
    pub fn set_leading(&self, leads: bool) {
        if leads && self.leading.set(1) == 0 {
            self.terms.inc();
        } else if !leads {
            self.leading.set(0);
        }
    }

    /// Everything in the text format; `renewed` is the age of the last renewal.
    pub fn encode(&self, renewed: Option<Duration>) -> Result<String, std::fmt::Error> {
        self.renewed
            .set(renewed.map_or(f64::NAN, |age| age.as_secs_f64()));
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
