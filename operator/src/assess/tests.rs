#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use jevmetrics_api::policy::{JevMetricsPolicy, JevMetricsPolicyStatus, ValidPolicy};
use jevmetrics_api::routing::TableError;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::{Seen, status, undecodable};
use crate::conditions::ROUTING_CONVERGED;
use crate::health::Health;
use crate::reconcile::{Outcome, ReconcileError};
use crate::render::settings_name;
use crate::voices::Voices;

fn policy(revision: &str) -> (JevMetricsPolicy, ValidPolicy) {
    let policy: JevMetricsPolicy = serde_json::from_value(json!({
        "apiVersion": "jevmetrics.io/v1alpha1",
        "kind": "JevMetricsPolicy",
        "metadata": {"name": "jm", "namespace": "ns", "uid": "u", "generation": 2},
        "spec": {"revision": revision, "replicas": 2, "export": {"endpoint": "http://a:4317"}},
    }))
    .unwrap();
    let valid = ValidPolicy::try_from(&policy).unwrap();
    (policy, valid)
}

fn pod(name: &str, revision: &str, is_ready: bool, waiting: Option<&str>) -> Arc<Pod> {
    let state = waiting.map_or(
        json!({"running": {}}),
        |reason| json!({"waiting": {"reason": reason}}),
    );
    let ready = if is_ready { "True" } else { "False" };
    let (_, valid) = policy(revision);
    let pod = json!({
        "metadata": {"name": name, "labels": {"jevmetrics.io/revision": revision}},
        "spec": {"containers": [], "volumes": [{"name": "settings", "configMap": {"name": settings_name(&valid)}}]},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{
                "name": "dataplane", "image": "a/b:1", "imageID": "", "ready": is_ready, "restartCount": 0, "state": state,
            }],
        },
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn deployment(observed: i64, replicas: i32, updated: i32, ready: i32) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "jm-dataplane", "generation": 2},
        "spec": {"replicas": 2, "selector": {}, "template": {}},
        "status": {
            "observedGeneration": observed, "replicas": replicas, "updatedReplicas": updated, "readyReplicas": ready,
        },
    }))
    .unwrap()
}

fn assess(revision: &str, deployment: Option<&DynamicObject>, pods: &[Arc<Pod>]) -> JevMetricsPolicyStatus {
    let (policy, valid) = policy(revision);
    let seen = Seen {
        policy: &policy,
        valid: Some(&valid),
        outcome: &Outcome::default(),
        deployment,
        pods,
        health: &Health::default(),
        voices: &Voices::default(),
    };
    status(&seen, None, &Time(jiff::Timestamp::UNIX_EPOCH)).0
}

fn told(status: &JevMetricsPolicyStatus, type_: &str) -> String {
    let found = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_);
    let Condition { status, reason, .. } = found.unwrap();
    format!("{status} {reason}")
}

#[test]
fn all_pods_on_the_target_are_a_complete_rollout() {
    let pods = [pod("a", "1", true, None), pod("b", "1", true, None)];
    let status = assess("1", Some(&deployment(2, 2, 2, 2)), &pods);
    assert_eq!(told(&status, "RolledOut"), "True Complete");
    assert_eq!(told(&status, "Ready"), "True Serving");
    assert_eq!(status.ready.as_deref(), Some("2/2"));
}

#[test]
fn counts_of_before_the_change_do_not_complete_it() {
    let pods = [pod("a", "1", true, None), pod("b", "1", true, None)];
    let status = assess("1", Some(&deployment(1, 2, 2, 2)), &pods);
    assert_eq!(told(&status, "RolledOut"), "False Progressing");
    assert_eq!(told(&status, "Ready"), "True Serving", "what runs serves");
}

#[test]
fn an_old_pod_that_still_runs_holds_up_the_end_of_a_rollout() {
    let pods = [
        pod("a", "1", true, None),
        pod("b", "2", true, None),
        pod("c", "2", true, None),
    ];
    let status = assess("2", Some(&deployment(2, 3, 2, 3)), &pods);
    assert_eq!(told(&status, "RolledOut"), "False Progressing");
    let revision = status.revision.unwrap();
    assert_eq!(
        (
            revision.current.as_deref(),
            revision.target.as_str(),
            revision.ready
        ),
        (Some("1"), "2", 2)
    );
}

#[test]
fn a_pod_that_does_not_start_is_named_with_its_reason() {
    let pods = [
        pod("a", "1", true, None),
        pod("b", "1", true, None),
        pod("c", "2", false, Some("ImagePullBackOff")),
    ];
    let status = assess("2", Some(&deployment(2, 3, 1, 2)), &pods);
    assert_eq!(told(&status, "RolledOut"), "False PodNotStarting");
    assert_eq!(told(&status, "Ready"), "True Serving");
    let rolled_out = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "RolledOut")
        .unwrap();
    assert_eq!(rolled_out.message, "pod c: ImagePullBackOff: a/b:1");
}

#[test]
fn some_ready_pods_serve_and_none_do_not() {
    let pods = [
        pod("a", "1", true, None),
        pod("b", "1", false, Some("CrashLoopBackOff")),
    ];
    let status = assess("1", Some(&deployment(2, 2, 2, 1)), &pods);
    assert_eq!(told(&status, "Ready"), "True SomePodsNotReady");
    let status = assess("1", Some(&deployment(2, 2, 2, 0)), &pods[1..]);
    assert_eq!(told(&status, "Ready"), "False NoPodReady");
    assert_eq!(told(&assess("1", None, &[]), "Ready"), "False NoDeployment");
}

#[test]
fn the_same_view_gives_the_same_status() {
    let pods = [pod("a", "1", true, None), pod("b", "1", true, None)];
    let deployment = deployment(2, 2, 2, 2);
    let text = |status: &JevMetricsPolicyStatus| serde_json::to_value(status).unwrap();
    let once: Value = text(&assess("1", Some(&deployment), &pods));
    assert_eq!(text(&assess("1", Some(&deployment), &pods)), once);
}

/// A policy that shares.
fn sharing(coordination: Value) -> JevMetricsPolicy {
    let (mut policy, _) = policy("1");
    policy.spec.coordination = serde_json::from_value(coordination).unwrap();
    policy
}

/// The status of `policy` after `before`, if this reconcile came to `outcome`.
fn shared(
    policy: &JevMetricsPolicy,
    outcome: &Outcome,
    health: &Health,
    before: Option<&JevMetricsPolicyStatus>,
) -> JevMetricsPolicyStatus {
    let valid = ValidPolicy::try_from(policy).ok();
    let seen = Seen {
        policy,
        valid: valid.as_ref(),
        outcome,
        deployment: None,
        pods: &[],
        health,
        voices: &Voices::default(),
    };
    status(&seen, before, &Time(jiff::Timestamp::UNIX_EPOCH)).0
}

fn counted(generation: u32) -> Outcome {
    Outcome {
        generation: Some(generation),
        ..Outcome::default()
    }
}

#[test]
fn sharing_is_spoken_of_only_where_pods_are_to_share() {
    let health = Health::default();
    let with = shared(&sharing(json!({"host": "redis"})), &counted(3), &health, None);
    assert_eq!(told(&with, "CoordinationHealthy"), "Unknown NoPodAnswers");
    let coordination = with.coordination.clone().unwrap();
    assert!(coordination.namespace.starts_with("ns/jm/"), "{coordination:?}");
    assert_eq!(coordination.generation, Some(3));

    let without = shared(&policy("1").0, &Outcome::default(), &health, Some(&with));
    assert_eq!(without.coordination, None);
    let types: Vec<_> = without
        .conditions
        .iter()
        .map(|condition| condition.type_.as_str())
        .collect();
    assert_eq!(
        types,
        ["Ready", "RolledOut", "ConfigurationValid", "InferenceHealthy"]
    );

    let named = sharing(json!({"host": "redis", "namespace": "team"}));
    let named = shared(&named, &counted(0), &health, Some(&with))
        .coordination
        .unwrap();
    assert_eq!((named.namespace.as_str(), named.generation), ("team", None));
}

#[test]
fn a_generation_is_remembered_as_it_was_put_into_the_live_object_and_no_further() {
    let health = Health::default();
    let good = sharing(json!({"host": "redis"}));
    let before = shared(&good, &counted(3), &health, None);
    let generation = |status: JevMetricsPolicyStatus| status.coordination.unwrap().generation;
    let failed = shared(&good, &Outcome::default(), &health, Some(&before));
    assert_eq!(
        generation(failed),
        Some(3),
        "the live object could not be written"
    );
    let next = shared(&good, &counted(4), &health, Some(&before));
    assert_eq!(generation(next), Some(4));
    let bad = sharing(json!({"host": "redis", "leaseTTLSeconds": 1}));
    assert!(ValidPolicy::try_from(&bad).is_err());
    let invalid = shared(&bad, &Outcome::default(), &health, Some(&before));
    assert_eq!(invalid.coordination, before.coordination, "what ran goes on");
}

#[test]
fn the_version_of_assessments_is_that_of_pods_of_the_target() {
    let (target, valid) = policy("2");
    let version = |health: &Health, before: Option<&JevMetricsPolicyStatus>| {
        let status = shared(&target, &Outcome::default(), health, before);
        status.revision.unwrap().assessment_version
    };
    let heard = |of: &[(&str, &str)]| Health {
        versions: Some(
            of.iter()
                .map(|(digest, version)| ((*digest).to_owned(), (*version).to_owned()))
                .collect(),
        ),
        ..Health::default()
    };
    let digest = valid.settings_digest();
    assert_eq!(
        version(&heard(&[("old", "v1"), (digest, "v2")]), None).as_deref(),
        Some("v2")
    );
    assert_eq!(version(&heard(&[("old", "v1")]), None), None);

    let before = shared(&target, &Outcome::default(), &heard(&[(digest, "v2")]), None);
    let nobody = Health::default();
    assert_eq!(
        version(&nobody, Some(&before)).as_deref(),
        Some("v2"),
        "a new leader has not asked yet"
    );
    assert_eq!(version(&heard(&[]), Some(&before)), None);
    let other = shared(&policy("3").0, &Outcome::default(), &nobody, Some(&before));
    assert_eq!(
        other.revision.unwrap().assessment_version,
        None,
        "it was said of another target"
    );
}

/// That pods come and go in a table is said only where there is one that they come and go in.
#[test]
fn what_is_said_of_the_members_of_a_policy_that_cannot_be_read() {
    let before: Vec<Condition> = serde_json::from_value(json!([{
        "type": ROUTING_CONVERGED, "status": "True", "reason": "Converged", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]))
    .unwrap();
    let failure = ReconcileError::Table(TableError::Epoch(0));
    for (is_kept, failure, reason) in [
        (true, None, "NotAsked"),
        (false, None, "NotPublished"),
        (false, Some(&failure), "NotPublished"),
    ] {
        let verdicts = undecodable(&before, "a problem".to_owned(), is_kept, failure);
        let said = verdicts.iter().find(|(type_, _)| *type_ == ROUTING_CONVERGED);
        assert_eq!(said.unwrap().1.reason, reason, "kept: {is_kept}, {failure:?}");
    }
    assert_eq!(undecodable(&[], "a problem".to_owned(), true, None).len(), 1);
}
