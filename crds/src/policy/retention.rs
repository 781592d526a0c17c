//! Which instruments are kept.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens to an instrument that the policy drops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// Everything is passed on; companions and counters say what `Reduce` would do.
    #[default]
    Annotate,
    /// What the policy drops is removed.
    Reduce,
}

/// Which instruments are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.dropThresholdPercent) ? self.dropThresholdPercent : 30) \
     <= (has(self.keepThresholdPercent) ? self.keepThresholdPercent : 70)"
).message(
    "spec.retention.dropThresholdPercent: must be at most keepThresholdPercent (by default 30 and 70)"
))]
pub struct Retention {
    /// An instrument whose probability of being worth keeping is at least this is kept. Percent, by default 70.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub keep_threshold_percent: Option<i32>,

    /// An instrument whose probability of being worth keeping is at most this is dropped. Percent, by default 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub drop_threshold_percent: Option<i32>,

    /// Names of instruments that are always kept. By default `up`; an empty list protects none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000), inner(length(min = 1, max = 255)), extend("x-kubernetes-list-type" = "set"))]
    pub protected_metrics: Option<Vec<String>>,

    /// Beginnings of names of instruments that are always kept. By default `otelcol_`, `scrape_`, `target_`; an
    /// empty list protects none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1_000), inner(length(min = 1, max = 255)), extend("x-kubernetes-list-type" = "set"))]
    pub protected_prefixes: Option<Vec<String>>,
}
