//! Writes what was seen into the status, if it differs from what is there.

use std::time::{Duration, Instant};

use jevmetrics_api::policy::{JevMetricsPolicy, JevMetricsPolicyStatus, RevisionStatus, ValidPolicy};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, Patch, PatchParams};
use kube::{Resource as _, ResourceExt as _};
use serde_json::json;

use super::apply::{FIELD_MANAGER, is_about_uid};
use super::{Outcome, ReconcileError};
use crate::assess::{self, Seen};
use crate::conditions::{READY, ROLLED_OUT, ROUTING_CONVERGED};
use crate::context::Context;
use crate::events::Happening;
use crate::kinds::Kind;
use crate::memory::{Memory, version};
use crate::render::workload_name;

/// Writes the status of `policy` and an event for every condition that has turned. If it was written a moment ago or often,
/// and all that has changed is counts and where members are, nothing is written, and it says when it may be: each pod that
/// comes or goes changes several things shortly after each other, and a rollout of hundreds goes on for minutes. What turns
/// waits only after very many.
pub(super) async fn write(
    policy: &JevMetricsPolicy,
    valid: Option<&ValidPolicy>,
    outcome: &Outcome,
    context: &Context,
    memory: &mut Memory,
) -> Result<Option<Duration>, ReconcileError> {
    let (name, namespace) = (policy.name_any(), policy.namespace().unwrap_or_default());
    let watched = context
        .observed
        .object(Kind::Deployment, &namespace, &workload_name(&name));
    let uid = policy.uid().unwrap_or_default();
    let (health, voices) = (context.health.of(&uid), context.voices.of(&uid));
    let seen = Seen {
        policy,
        valid,
        outcome,
        // Right after an apply the watch still shows what was before.
        deployment: memory.newest_deployment(watched.as_deref()),
        pods: &context.observed.pods(&namespace, &name),
        health: &health,
        voices: &voices,
    };
    let before = memory.status(version(policy), policy.status.as_ref()).cloned();
    let (after, turns) = assess::status(&seen, before.as_ref(), &Time(Timestamp::now()));
    if before.as_ref() == Some(&after) {
        return Ok(None);
    }
    let has_turned = before
        .as_ref()
        .is_none_or(|before| turning(before) != turning(&after));
    if let Some(wait) = memory.status_wait(Instant::now(), has_turned) {
        return Ok(Some(wait));
    }
    let api: Api<JevMetricsPolicy> = Api::namespaced(context.client.clone(), &namespace);
    let patch = json!({
        "apiVersion": JevMetricsPolicy::api_version(&()),
        "kind": JevMetricsPolicy::kind(&()),
        // Another policy of the same name has a status of its own.
        "metadata": {"name": name, "uid": policy.uid()},
        "status": after,
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    match api.patch_status(&name, &params, &Patch::Apply(&patch)).await {
        Ok(written) => memory.wrote_status(version(&written), after, Instant::now()),
        // Gone, or another policy by now.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) || is_about_uid(&status) => {
            return Ok(None);
        }
        Err(error) => return Err(ReconcileError::Status(error)),
    }
    for turn in &turns {
        context.events.publish(policy, &Happening::from(turn)).await;
    }
    Ok(None)
}

/// All but where members are, how many pods there are, and what only counts them: what people wait for. Of who owns what
/// that is whether the table is frozen.
fn turning(status: &JevMetricsPolicyStatus) -> JevMetricsPolicyStatus {
    let mut conditions = status.conditions.clone();
    conditions.retain(|condition| condition.type_ != ROUTING_CONVERGED || assess::is_frozen(condition));
    for condition in &mut conditions {
        if matches!(condition.type_.as_str(), READY | ROLLED_OUT | ROUTING_CONVERGED) {
            condition.message.clear();
        }
        // Whether all pods are ready or only enough of them goes to and fro in a rollout.
        if (condition.type_.as_str(), condition.status.as_str()) == (READY, "True") {
            condition.reason.clear();
        }
    }
    JevMetricsPolicyStatus {
        conditions,
        replicas: None,
        ready: None,
        revision: status.revision.clone().map(|revision| RevisionStatus {
            updated: 0,
            ready: 0,
            ..revision
        }),
        routing: None,
        members: Vec::new(),
        ..status.clone()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::Value;

    use super::*;

    fn status(change: impl FnOnce(&mut Value)) -> JevMetricsPolicyStatus {
        let condition = |type_: &str, reason: &str| {
            json!({
                "type": type_, "status": "True", "reason": reason, "message": "1 of 3",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
            })
        };
        let mut status = json!({
            "observedGeneration": 1, "replicas": 3, "ready": "1/3",
            "conditions": [
                condition("Ready", "SomePodsNotReady"), condition("ConfigurationValid", "Valid"),
                condition("RoutingConverged", "Converged"),
            ],
            "revision": {"target": "2", "updated": 1, "ready": 1},
            "routing": {"affinity": "Forward", "epoch": 7, "members": 3, "converged": "3/3"},
        });
        change(&mut status);
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn counts_and_members_may_wait() {
        let before = turning(&status(|_| {}));
        let changes: [fn(&mut Value); 7] = [
            |status| status["replicas"] = json!(4),
            |status| status["ready"] = json!("2/3"),
            |status| status["conditions"][0]["message"] = json!("2 of 3"),
            |status| status["conditions"][0]["reason"] = json!("Serving"),
            |status| status["conditions"][2]["reason"] = json!("Converging"),
            |status| status["revision"]["updated"] = json!(2),
            |status| status["routing"]["epoch"] = json!(8),
        ];
        for change in changes {
            assert_eq!(turning(&status(change)), before);
        }
    }

    #[test]
    fn what_somebody_waits_for_does_not() {
        let before = turning(&status(|_| {}));
        let changes: [fn(&mut Value); 6] = [
            |status| status["observedGeneration"] = json!(2),
            |status| status["conditions"][0]["status"] = json!("False"),
            |status| status["conditions"][0]["observedGeneration"] = json!(2),
            |status| status["conditions"][1]["message"] = json!("another"),
            |status| status["revision"]["current"] = json!("2"),
            |status| frozen(status, "2 of 5"),
        ];
        for change in changes {
            assert_ne!(turning(&status(change)), before);
        }
    }

    #[test]
    fn why_nothing_serves_does_not_wait_either() {
        let not_ready = |reason: &'static str| {
            turning(&status(|status| {
                status["conditions"][0]["status"] = json!("False");
                status["conditions"][0]["reason"] = json!(reason);
            }))
        };
        assert_ne!(not_ready("NoPodReady"), not_ready("ScaledToZero"));
    }

    #[test]
    fn how_few_members_a_frozen_table_has_left_may_wait() {
        let frozen = |message| turning(&status(|status| frozen(status, message)));
        assert_eq!(frozen("2 of 5"), frozen("1 of 5"));
    }

    fn frozen(status: &mut Value, message: &str) {
        status["conditions"][2]["status"] = json!("False");
        status["conditions"][2]["reason"] = json!("Frozen");
        status["conditions"][2]["message"] = json!(message);
    }
}
