#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use jevmetrics_api::policy::{JevMetricsPolicy, JevMetricsPolicyStatus, ValidPolicy};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::{Seen, status};
use crate::reconcile::Outcome;
use crate::render::settings_name;

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
        health: None,
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
