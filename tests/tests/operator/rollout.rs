//! A new revision goes out, a bad one does not, and both can be seen.

use jevmetrics_testkit::cluster::{HollowNodes, Script};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::policies::with_replicas;
use crate::stage::{Stage, changed};

/// Most changes for a new revision of two pods: settings and Deployment, the old settings gone; a table for each slot that
/// is handed over; and the status on the way: taken up, each pod made, ready and gone.
const WRITES_FOR_A_REVISION: usize = 3 + 2 + 9;

#[tokio::test]
async fn a_new_revision_rolls_out_and_can_be_waited_for() {
    let (stage, operator) = Stage::with_operator("revision").await;
    stage.apply("jm", &with_replicas(2)).await;
    stage.rolled_out("jm").await;
    let mark = stage.plane.audit_mark().unwrap();
    stage.patch("jm", &json!({"revision": "2"})).await;
    stage.observed("jm").await;
    let waited = stage
        .kubectl(&["wait", "--for=condition=RolledOut", "--timeout=120s", "jmp/jm"])
        .await;
    assert!(waited.contains("condition met"), "{waited}");
    let revision = stage.revision("jm").await;
    assert_eq!(
        (revision.current.as_deref(), revision.target.as_str()),
        (Some("2"), "2")
    );
    assert_eq!((revision.updated, revision.ready), (2, 2));

    let writes = changed(&stage.settled(&operator, mark).await);
    assert!(writes.len() <= WRITES_FOR_A_REVISION, "{writes:#?}");
    println!(
        "{} writes for a new revision of 2 pods: {writes:#?}",
        writes.len()
    );
    let settings = async || {
        let maps: Api<ConfigMap> = Api::namespaced(stage.client.clone(), &stage.namespace);
        let all = maps.list(&ListParams::default()).await.unwrap();
        let names = all
            .items
            .iter()
            .map(ResourceExt::name_any)
            .filter(|name| name.contains("-settings-"));
        match names.collect::<Vec<_>>() {
            one if one.len() == 1 => Ok(()),
            more => Err(format!("{more:?}")),
        }
    };
    stage.eventually("the end of the old settings", settings).await;
    let columns = stage.kubectl(&["get", "jmp", "jm", "-o", "wide"]).await;
    println!("{columns}");
    for text in [
        "MODE", "REVISION", "READY", "REASON", "ENDPOINT", "Annotate", "2/2", "Serving",
    ] {
        assert!(columns.contains(text), "{text} in {columns}");
    }
}

/// *Scenario*: pods of revision `bad` crash; then revision `good` is applied.
/// *Guarantees*: the old revision serves all the while; the status names the pod and why; `good` goes out unaided.
#[tokio::test]
async fn a_bad_revision_leaves_the_old_one_serving_and_a_good_one_goes_out_unaided() {
    let (stage, _operator) = Stage::with_operator("bad").await;
    let nodes = HollowNodes::shared().await.unwrap();
    nodes.script(&stage.namespace, |pod| {
        if pod
            .labels()
            .get("jevmetrics.io/revision")
            .is_some_and(|revision| revision == "bad")
        {
            Script::waiting("CrashLoopBackOff", "back-off 10s restarting failed container")
        } else {
            Script::READY
        }
    });
    stage.apply("jm", &with_replicas(2)).await;
    stage.rolled_out("jm").await;
    stage.patch("jm", &json!({"revision": "bad"})).await;
    let message = stage
        .condition("jm", "RolledOut", "False", "PodNotStarting")
        .await;
    let pods = stage
        .pods
        .list(&ListParams::default().labels("jevmetrics.io/revision=bad"))
        .await
        .unwrap();
    let name = pods.items[0].name_any();
    assert_eq!(message, format!("pod {name}: CrashLoopBackOff"));
    stage.event("jm", "PodNotStarting").await;
    stage.condition("jm", "Ready", "True", "Serving").await;
    let revision = stage.revision("jm").await;
    assert_eq!(
        (revision.current.as_deref(), revision.target.as_str()),
        (Some("1"), "bad")
    );
    assert_eq!(revision.ready, 0);

    stage.patch("jm", &json!({"revision": "good"})).await;
    stage.rolled_out("jm").await;
    let revision = stage.revision("jm").await;
    assert_eq!((revision.current.as_deref(), revision.ready), (Some("good"), 2));
}

/// *Guarantees*: who rolls the Deployment back by hand is told to apply the former spec; the target stays.
#[tokio::test]
async fn a_rollback_by_hand_is_undone_and_an_event_says_how_to_go_back() {
    let (stage, _operator) = Stage::with_operator("undo").await;
    stage.apply("jm", &with_replicas(1)).await;
    stage.rolled_out("jm").await;
    stage.patch("jm", &json!({"revision": "2"})).await;
    stage.rolled_out("jm").await;
    stage
        .kubectl(&["rollout", "undo", "deployment", "jm-dataplane"])
        .await;
    let note = stage.event("jm", "RollbackUndone").await;
    assert!(note.contains("apply the former spec"), "{note}");
    stage.rolled_out("jm").await;
    let revision = stage.revision("jm").await;
    assert_eq!(revision.current.as_deref(), Some("2"));
}
