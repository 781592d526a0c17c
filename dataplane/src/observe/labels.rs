//! Label values of our own metrics. No label ever carries a metric name or a resource value.

use prometheus_client::encoding::EncodeLabelSet;

/// Of `jevmetrics_policy_*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OutcomeLabels {
    pub(super) mode: &'static str,
    pub(super) decision: &'static str,
    pub(super) reason: &'static str,
}

/// Where data points came from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct FromLabel {
    pub(super) from: &'static str,
}

/// Why data points did not arrive downstream.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CauseLabel {
    pub(super) cause: &'static str,
}
