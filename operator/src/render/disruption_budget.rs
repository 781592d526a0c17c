//! How many pods a drain of nodes may take at a time.

use jevmetrics_api::policy::ValidPolicy;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::metadata::{metadata, selector, workload_name};

pub(super) fn disruption_budget(policy: &ValidPolicy) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: metadata(policy, workload_name(policy.name())),
        spec: Some(PodDisruptionBudgetSpec {
            // One at a time, also of one: a drain that waits for ever helps nobody.
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(selector(policy)),
            // A pod that never got ready must not hold up a drain.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}
