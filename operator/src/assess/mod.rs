//! From what was seen to the status of a policy. Pure: equal input, equal status.
//!
//! Deployment and Pods are what counts. What the pods say of themselves matters for `InferenceHealthy` and
//! `CoordinationHealthy` alone, so that a silent pod never holds up a rollout.

mod configuration;
mod coordination;
mod inference;
mod members;
mod pods;
mod ready;
mod rollout;
#[cfg(test)]
mod tests;
mod workload;

use std::sync::Arc;

use jevmetrics_api::policy::{
    InferenceStatus, JevMetricsPolicy, JevMetricsPolicyStatus, RevisionStatus, ValidPolicy,
};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;
use kube::core::DynamicObject;

use crate::conditions::{
    self, CONFIGURATION_VALID, COORDINATION_HEALTHY, INFERENCE_HEALTHY, READY, ROLLED_OUT, ROUTING_CONVERGED,
    Verdict,
};
use crate::health::Health;
use crate::reconcile::{Outcome, ReconcileError};
use crate::render::{pod_selector, settings_name};
use crate::voices::Voices;

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
    /// What the pods say, as far as this process knows.
    pub health: &'s Health,
    /// When the pods have last answered.
    pub voices: &'s Voices,
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
    let mut verdicts = vec![
        (READY, ready::verdict(&workload, &pods)),
        (ROLLED_OUT, rollout.verdict(seen.outcome)),
        (CONFIGURATION_VALID, configuration::verdict(seen.outcome)),
        (
            INFERENCE_HEALTHY,
            inference::verdict(seen.health, seen.valid.map(ValidPolicy::question_budget), before),
        ),
    ];
    let mut conditions = before.map(|before| before.conditions.clone()).unwrap_or_default();
    if seen.policy.spec.coordination.is_some() {
        verdicts.push((COORDINATION_HEALTHY, coordination::verdict(seen.health, before)));
    } else {
        conditions = conditions::without(conditions, COORDINATION_HEALTHY);
    }
    if let Some(decided) = &seen.outcome.membership {
        verdicts.push((ROUTING_CONVERGED, members::verdict(decided, seen.voices, before)));
    } else if conditions::is_said(&conditions, ROUTING_CONVERGED) {
        let failure = seen.outcome.failure.as_ref();
        verdicts.push((ROUTING_CONVERGED, members::nothing_published(failure)));
    }
    let mut turns = Vec::new();
    for (type_, verdict) in verdicts {
        let is_ordinary = is_ordinary(&conditions, type_, &verdict);
        let (after, turned) = conditions::with(&conditions, type_, &verdict, generation, now);
        conditions = after;
        if turned && !is_ordinary {
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
        revision: Some(RevisionStatus {
            assessment_version: assessment_version(seen, before),
            ..rollout.revision(target, &pods)
        }),
        inference: seen.valid.map(|valid| InferenceStatus {
            endpoint: valid.inference_endpoint().to_owned(),
            model: inference::model(seen.health, before),
        }),
        coordination: coordination::status(seen.valid, seen.outcome, before),
        routing: members::routing(seen.outcome.membership.as_ref(), seen.voices, before, now),
        members: members::members(seen.outcome.membership.as_ref(), seen.voices, before, now),
    };
    (status, turns)
}

/// What is said of the conditions of a policy that cannot be read: of its members, whether they could be kept, and what
/// has failed if not.
pub fn undecodable(
    before: &[Condition],
    problem: String,
    is_kept: bool,
    failure: Option<&ReconcileError>,
) -> Vec<(&'static str, Verdict)> {
    let mut verdicts = vec![(CONFIGURATION_VALID, Verdict::no("Undecodable", problem))];
    if conditions::is_said(before, ROUTING_CONVERGED) {
        let verdict = if is_kept {
            members::nobody_asked()
        } else {
            members::nothing_published(failure)
        };
        verdicts.push((ROUTING_CONVERGED, verdict));
    }
    verdicts
}

/// Whether `condition` says that the table is frozen.
pub(crate) fn is_frozen(condition: &Condition) -> bool {
    condition.type_ == ROUTING_CONVERGED && condition.reason == members::FROZEN
}

/// Each pod that comes or goes turns `RoutingConverged` twice. Only a table that is frozen is worth an event.
fn is_ordinary(before: &[Condition], type_: &str, verdict: &Verdict) -> bool {
    let was_frozen = before.iter().any(is_frozen);
    type_ == ROUTING_CONVERGED && verdict.reason != members::FROZEN && !was_frozen
}

/// What pods with the target's settings say; until they were asked, what was said of the same target.
fn assessment_version(seen: &Seen<'_>, before: Option<&JevMetricsPolicyStatus>) -> Option<String> {
    let valid = seen.valid?;
    if let Some(versions) = &seen.health.versions {
        return versions.get(valid.settings_digest()).cloned();
    }
    let revision = before?.revision.as_ref()?;
    let is_same = revision.target == valid.revision();
    revision.assessment_version.clone().filter(|_| is_same)
}
