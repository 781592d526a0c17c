//! The audit log tells who asked for what and what that changed.

use jevmetrics_testkit::cluster::{ControlPlane, Effect, Request};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchParams};
use serde_json::json;

use crate::workload::deployment;

fn effects(requests: &[Request]) -> Vec<(&str, &str, Effect)> {
    let told = requests.iter().filter(|request| request.is_write());
    told.map(|request| {
        (
            request.verb.as_str(),
            request.subresource.as_str(),
            request.effect,
        )
    })
    .collect()
}

/// *Guarantees*: an apply that changes something is told from one that does not, a status too; each is told once, at
/// once, with its name and its client.
#[tokio::test]
async fn a_change_is_told_from_an_apply_of_the_same() {
    let plane = ControlPlane::shared().await.unwrap();
    let namespace = plane.namespace("audit").await.unwrap();
    let client = plane.client_for("writer", Some("system:masters")).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(client, &namespace);
    let params = PatchParams::apply("writer");
    let apply = async |object: &Deployment| deployments.patch("app", &params, &Patch::Apply(object)).await;

    let mark = plane.audit_mark().unwrap();
    let mut object = deployment(0, &json!({}));
    apply(&object).await.unwrap();
    apply(&object).await.unwrap();
    object.spec.as_mut().unwrap().paused = Some(true);
    apply(&object).await.unwrap();
    apply(&object).await.unwrap();
    let mut dry = params.clone();
    dry.dry_run = true;
    object.spec.as_mut().unwrap().paused = Some(false);
    deployments
        .patch("app", &dry, &Patch::Apply(&object))
        .await
        .unwrap();
    object.spec.as_mut().unwrap().selector.match_labels = None;
    apply(&object).await.unwrap_err();
    deployments.get("app").await.unwrap();

    let requests = plane.requests_of("writer", mark).unwrap();
    assert_eq!(
        effects(&requests),
        [
            ("patch", "", Effect::Changed),
            ("patch", "", Effect::Unchanged),
            ("patch", "", Effect::Changed),
            ("patch", "", Effect::Unchanged),
            ("patch", "", Effect::DryRun),
            ("patch", "", Effect::Refused),
        ]
    );
    let first = &requests[0];
    assert_eq!(
        (first.group.as_str(), first.resource.as_str()),
        ("apps", "deployments")
    );
    assert_eq!(
        (first.namespace.as_str(), first.name.as_str(), first.code),
        (namespace.as_str(), "app", 201)
    );
    assert_eq!(first.parameter("fieldManager"), Some("writer"));
    assert_eq!(requests.last().unwrap().verb, "get");
    assert!(plane.requests_of("nobody", mark).unwrap().is_empty());

    let mark = plane.audit_mark().unwrap();
    let status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"collisionCount": 1}});
    for _ in 0..2 {
        deployments
            .patch_status("app", &params, &Patch::Apply(&status))
            .await
            .unwrap();
    }
    assert_eq!(
        effects(&plane.requests_of("writer", mark).unwrap()),
        [
            ("patch", "status", Effect::Changed),
            ("patch", "status", Effect::Unchanged)
        ]
    );
}

/// *Guarantees*: reading secrets is told, a watch as soon as it has begun; their values and tokens are never written.
#[tokio::test]
async fn secrets_are_told_without_their_values() {
    let plane = ControlPlane::shared().await.unwrap();
    let namespace = plane.namespace("secrets").await.unwrap();
    let client = plane.client_for("reader", Some("system:masters")).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(client, &namespace);
    let mark = plane.audit_mark().unwrap();
    let secret = json!({"metadata": {"name": "key"}, "stringData": {"key": "marmalade"}});
    let secret: Secret = serde_json::from_value(secret).unwrap();
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let patch = Patch::Merge(json!({"stringData": {"key": "marmalade2"}}));
    secrets
        .patch("key", &PatchParams::default(), &patch)
        .await
        .unwrap();
    secrets.get("key").await.unwrap();
    secrets.list(&ListParams::default()).await.unwrap();
    let watch = secrets.watch(&WatchParams::default(), "0").await.unwrap();
    let token = plane.token_for(&namespace, "default").await.unwrap();

    let requests = plane.requests_of("reader", mark).unwrap();
    let told: Vec<_> = requests
        .iter()
        .map(|request| (request.verb.as_str(), request.effect))
        .collect();
    assert_eq!(
        told,
        [
            ("create", Effect::Changed),
            ("patch", Effect::Unknown),
            ("get", Effect::Read),
            ("list", Effect::Read),
            ("watch", Effect::Read),
        ]
    );
    assert!(requests.iter().all(|request| request.resource == "secrets"));
    drop(watch);
    let log = std::fs::read_to_string(plane.audit_log()).unwrap();
    assert!(log.contains("\"reader\""));
    for value in ["marmalade", "bWFybWFsYWRl", token.as_str()] {
        assert!(!log.contains(value));
    }
}
