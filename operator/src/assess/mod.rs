//! From what was seen to the status of a policy. Pure: equal input, equal status.
//!
//! Deployment and Pods are what counts. What the pods say of themselves matters for `InferenceHealthy` alone, so
//! that a silent pod never holds up a rollout.

mod configuration;
mod inference;
mod pods;
mod ready;
mod rollout;
#[cfg(test)]
mod tests;
mod workload;

use std::sync::Arc;

use jevmetrics_api::policy::{InferenceStatus, JevMetricsPolicy, JevMetricsPolicyStatus, ValidPolicy};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::core::DynamicObject;

use crate::conditions::{self, CONFIGURATION_VALID, INFERENCE_HEALTHY, READY, ROLLED_OUT, Verdict};
use crate::health::Health;
use crate::reconcile::Outcome;
use crate::render::{pod_selector, settings_name};

pub use self::pods::PodView;
pub use self::workload::Workload;

/// All that a status is made of.
#[derive(Debug)]
pub struct Seen<'s> {
    /// The policy.
    pub policy: &'s JevMetricsPolicy,
    /// The policy, if it holds.
    pub valid: Option<&'s ValidPolicy>,
    /// What this reconcile came to.
    pub outcome: &'s Outcome,
    /// The Deployment, if it is there.
    pub deployment: Option<&'s DynamicObject>,
    /// The pods, oldest first.
    pub pods: &'s [Arc<Pod>],
    /// What the pods say; none if this process does not know yet.
    pub health: Option<&'s Health>,
}

/// A condition that turned, worth an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Its type.
    pub type_: &'static str,
    /// What is said of it now.
    pub verdict: Verdict,
}

/// The status, and what turned since `before`.
pub fn status(
    seen: &Seen<'_>,
    before: Option<&JevMetricsPolicyStatus>,
    now: &Time,
) -> (JevMetricsPolicyStatus, Vec<Turn>) {
    let generation = seen.policy.metadata.generation;
    let workload = Workload::of(seen.deployment);
    let settings = seen.valid.map(settings_name);
    let pods: Vec<PodView> = seen.pods.iter().map(|pod| PodView::of(pod)).collect();
    let rollout = rollout::Rollout::of(&workload, &pods, settings.as_deref());
    let verdicts = [
        (READY, ready::verdict(&workload, &pods)),
        (ROLLED_OUT, rollout.verdict(seen.outcome)),
        (CONFIGURATION_VALID, configuration::verdict(seen.outcome)),
        (INFERENCE_HEALTHY, inference::verdict(seen.health, before)),
    ];
    let mut conditions = before.map(|before| before.conditions.clone()).unwrap_or_default();
    let mut turns = Vec::new();
    for (type_, verdict) in verdicts {
        let (after, turned) = conditions::with(&conditions, type_, &verdict, generation, now);
        conditions = after;
        if turned {
            turns.push(Turn { type_, verdict });
        }
    }
    let target = seen.policy.spec.revision.clone();
    let status = JevMetricsPolicyStatus {
        observed_generation: generation,
        conditions,
        replicas: Some(workload.replicas),
        selector: Some(pod_selector(&seen.policy.name_any())),
        ready: Some(format!(
            "{}/{}",
            workload.ready.min(workload.wanted),
            workload.wanted
        )),
        revision: Some(rollout.revision(target, &pods)),
        inference: seen.valid.map(|valid| InferenceStatus {
            endpoint: valid.inference_endpoint().to_owned(),
            model: inference::model(seen.health, before),
        }),
    };
    (status, turns)
}
