//! Who owns what does not wait for anything else.

use std::time::{Duration, Instant};

use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Scene;
use crate::interrupted::{Mortal, client, term};
use crate::trouble::put_secret;

const PODS: usize = 3;
const TOUCH: Duration = Duration::from_millis(100);
/// Shorter than a call may take.
const SOON: Duration = Duration::from_secs(8);

impl Scene {
    async fn patch_pod(&self, name: &str, metadata: &Value) {
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let params = PatchParams::default();
        self.stage.pods.patch(name, &params, &patch).await.unwrap();
    }
}

/// *Scenario*: every 100 ms somebody writes to one pod what the operator reads of it; another pod is deleted.
/// *Guarantees*: the table is written although the writing never ends.
#[tokio::test]
async fn a_pod_that_never_rests_holds_up_no_other() {
    let scene = Scene::with_policy("restless", PODS, &json!({"settleSeconds": 1})).await;
    let _operator = scene.stage.operator().await;
    let before = scene.whole(PODS).await;
    let [restless, deleted, ..] = before.owners() else {
        unreachable!("{PODS} owners")
    };
    let touch = async {
        for revision in 0_u64.. {
            let revision = revision.to_string();
            let metadata = json!({
                "labels": {jevmetrics_operator::render::REVISION: revision},
                "annotations": {"touched": revision},
            });
            scene.patch_pod(&restless.name, &metadata).await;
            tokio::time::sleep(TOUCH).await;
        }
    };
    let leave = async {
        // So that it is under way before.
        tokio::time::sleep(TOUCH * 10).await;
        scene.delete_pod(&deleted.name).await;
        let deleted_at = Instant::now();
        scene.has_left(&deleted.uid).await;
        println!("it has left the table after {:?}", deleted_at.elapsed());
    };
    tokio::select! {
        () = touch => {}
        () = leave => {}
    }
}

/// *Scenario*: the ServiceAccount is somebody else's by now; a pod is deleted.
/// *Guarantees*: it leaves the table, and the next one joins.
#[tokio::test]
async fn members_come_and_go_although_an_object_before_the_table_cannot_be_written() {
    let scene = Scene::with_policy("taken", PODS, &json!({"settleSeconds": 1})).await;
    let _operator = scene.stage.operator().await;
    let before = scene.whole(PODS).await;
    scene.converged(PODS).await;
    let uid = scene.stage.uid("jm").await;
    let owned = scene.stage.owned(&uid).await;
    let (_, account) = owned.iter().find(|(kind, _)| kind == "ServiceAccount").unwrap();
    let name = account.name_any();
    let theirs = r#"{"metadata":{"ownerReferences":null}}"#;
    scene
        .stage
        .kubectl(&["patch", "serviceaccount", &name, "--type=merge", "-p", theirs])
        .await;

    let deleted = &before.owners()[1];
    scene.delete_pod(&deleted.name).await;
    scene.has_left(&deleted.uid).await;
    scene
        .stage
        .condition("jm", "ConfigurationValid", "False", "NameTaken")
        .await;
    let after = scene.whole(PODS).await;
    assert!(after.epoch() > before.epoch());
    scene.converged(PODS).await;
}

/// *Scenario*: from some moment on the API server has no answer to who reads Secrets; then two pods are deleted, one after
/// the other.
/// *Guarantees*: both leave the table without waiting for that answer.
#[tokio::test]
async fn a_secret_that_cannot_be_read_holds_up_no_table() {
    let scene = Scene::new("secrets").await;
    put_secret(&scene.stage, "jev", &json!({"api-key": "k"})).await;
    let spec = json!({
        "replicas": PODS,
        "export": {"endpoint": "http://sink.invalid:4317"},
        "inference": {"apiKeySecretRef": {"name": "jev", "key": "api-key"}},
        "routing": {"settleSeconds": 1},
    });
    scene.stage.apply("jm", &spec).await;
    let (hang, stop) = (CancellationToken::new(), CancellationToken::new());
    let life = Mortal::hanging("/secrets/", hang.clone());
    let term = term(&scene.stage, client(&scene.stage, &life).await);
    let running = tokio::spawn(term.run(stop.clone()));
    let before = scene.whole(PODS).await;
    scene.stage.rolled_out("jm").await;
    hang.cancel();
    for owner in &before.owners()[..2] {
        scene.delete_pod(&owner.name).await;
        let deleted_at = Instant::now();
        scene.has_left(&owner.uid).await;
        let took = deleted_at.elapsed();
        println!("it has left the table after {took:?}");
        assert!(took < SOON, "{took:?}");
    }
    scene
        .stage
        .condition("jm", "ConfigurationValid", "Unknown", "SecretNotChecked")
        .await;
    stop.cancel();
    running.await.unwrap();
}
