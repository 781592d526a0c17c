//! The counters of this room, as Prometheus sees them.
//!
//! Once nothing is queued, `enqueued` = `score_success` + `score_shared` + the sum of `score_failure`. No label carries a name or a
//! value from the metrics that were judged.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::failure::Cause;
use super::reply::Usage;

/// Seconds. Jev answers in 0.1 to 0.5 s when warm, in 2 to 3 s when not; beyond lie longer timeouts than ours.
const DURATION_BUCKETS: [f64; 12] = [0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabel {
    cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectionLabel {
    direction: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabel {
    model: String,
}

/// Handles to the registered metrics; clones count into the same ones.
#[derive(Debug, Clone)]
pub(super) struct Stats {
    pub(super) enqueued: Counter,
    pub(super) rejected: Counter,
    pub(super) requests: Counter,
    pub(super) success: Counter,
    pub(super) duration: Histogram,
    /// Instruments that took the group's assessment instead of being asked about.
    pub(super) shared: Counter,
    pub(super) queue_length: Gauge,
    pub(super) waiting: Gauge,
    asking: Gauge,
    pub(super) cooling_down: Gauge,
    failure: Family<CauseLabel, Counter>,
    tokens: Family<DirectionLabel, Counter>,
    answering_model: Family<ModelLabel, Gauge>,
    look_ups: Family<ResultLabel, Counter>,
    waits: Family<ReasonLabel, Counter>,
}

impl Stats {
    /// Registers everything.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let stats = Self {
            enqueued: Counter::default(),
            rejected: Counter::default(),
            requests: Counter::default(),
            success: Counter::default(),
            duration: Histogram::new(DURATION_BUCKETS),
            shared: Counter::default(),
            queue_length: Gauge::default(),
            waiting: Gauge::default(),
            asking: Gauge::default(),
            cooling_down: Gauge::default(),
            failure: Family::default(),
            tokens: Family::default(),
            answering_model: Family::default(),
            look_ups: Family::default(),
            waits: Family::default(),
        };
        registry.register(
            "jevmetrics_queue_enqueued",
            "Instruments that took a place in the inference queue",
            stats.enqueued.clone(),
        );
        registry.register(
            "jevmetrics_queue_rejected",
            "Instruments that found no place in the inference queue, or found it cooling down",
            stats.rejected.clone(),
        );
        registry.register(
            "jevmetrics_inference_requests",
            "Requests to the model that were begun",
            stats.requests.clone(),
        );
        registry.register(
            "jevmetrics_score_success",
            "Instruments that the model assessed",
            stats.success.clone(),
        );
        registry.register(
            "jevmetrics_score_failure",
            "Instruments that left the queue without an assessment, by cause",
            stats.failure.clone(),
        );
        registry.register(
            "jevmetrics_score_duration_seconds",
            "Time from asking the model to its validated answer or failure",
            stats.duration.clone(),
        );
        registry.register(
            "jevmetrics_inference_tokens",
            "Tokens that the model reported as used",
            stats.tokens.clone(),
        );
        registry.register(
            "jevmetrics_inference_queue_length",
            "Instruments in the inference queue, those being asked about included",
            stats.queue_length.clone(),
        );
        registry.register(
            "jevmetrics_score_shared",
            "Instruments in the queue that took the group's assessment instead of being asked about",
            stats.shared.clone(),
        );
        registry.register(
            "jevmetrics_inference_waiting",
            "Instruments in the inference queue that wait for their turn",
            stats.waiting.clone(),
        );
        registry.register(
            "jevmetrics_inference_asking",
            "Questions to the model under way",
            stats.asking.clone(),
        );
        registry.register(
            "jevmetrics_coordination_lookups",
            "Identities that were looked up among the group's assessments, by result",
            stats.look_ups.clone(),
        );
        registry.register(
            "jevmetrics_coordination_waits",
            "Turns that were not given, by reason",
            stats.waits.clone(),
        );
        registry.register(
            "jevmetrics_inference_cooling_down",
            "1 while asking pauses after a failure, else 0",
            stats.cooling_down.clone(),
        );
        registry.register(
            "jevmetrics_inference_answering_model",
            "1 for the model that gave the latest answer",
            stats.answering_model.clone(),
        );
        stats
    }

    pub(super) fn count_failure(&self, cause: Cause) {
        self.failure
            .get_or_create(&CauseLabel {
                cause: cause.as_str(),
            })
            .inc();
    }

    /// Counts looked up identities: `hit`, `miss` or `failed`.
    pub(super) fn count_look_ups(&self, result: &'static str, identities: u64) {
        self.look_ups
            .get_or_create(&ResultLabel { result })
            .inc_by(identities);
    }

    /// Counts a turn that was not given.
    pub(super) fn count_wait(&self, reason: &'static str) {
        self.waits.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Counts a question under way for as long as what it returns lives.
    pub(super) fn asking(&self) -> Counted {
        Counted::new(self.asking.clone())
    }

    pub(super) fn count_tokens(&self, usage: Usage) {
        for (direction, tokens) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
            self.tokens
                .get_or_create(&DirectionLabel { direction })
                .inc_by(tokens);
        }
    }

    /// Only the latest model has a series, whatever a server says.
    pub(super) fn show_model(&self, model: &str) {
        self.answering_model.clear();
        self.answering_model
            .get_or_create(&ModelLabel {
                model: model.to_owned(),
            })
            .set(1);
    }
}

/// Counts as long as it lives.
pub(super) struct Counted(Gauge);

impl Counted {
    pub(super) fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
