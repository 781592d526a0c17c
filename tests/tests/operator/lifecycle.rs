//! A policy comes, serves, and goes.

use std::collections::BTreeSet;

use jevmetrics_testkit::poll;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::json;

use crate::policies::with_replicas;
use crate::stage::{Stage, WITHIN, changed, unchanged};

/// Most writes from an applied policy to its last status: eight objects; the first table, if pods settle meanwhile; the
/// status on the way (waiting, first pod, all pods, and the turns between them).
const WRITES_TO_SERVE: usize = 8 + 1 + 8;

#[tokio::test]
async fn an_applied_policy_gets_its_objects_and_is_ready_when_its_pods_are() {
    let (stage, operator) = Stage::with_operator("ready").await;
    let mark = stage.plane.audit_mark().unwrap();
    stage.apply("jm", &with_replicas(3)).await;
    stage.condition("jm", "Ready", "True", "Serving").await;
    stage.rolled_out("jm").await;
    stage.condition("jm", "ConfigurationValid", "True", "Valid").await;

    let names: Vec<_> = stage
        .owned(&stage.uid("jm").await)
        .await
        .into_iter()
        .map(|(kind, object)| format!("{kind} {}", object.name_any()))
        .collect();
    let digest = names
        .iter()
        .find_map(|name| name.strip_prefix("ConfigMap jm-settings-"))
        .unwrap();
    assert_eq!(digest.len(), 16, "{digest}");
    let wanted = [
        "ConfigMap jm-live",
        &format!("ConfigMap jm-settings-{digest}"),
        "Deployment jm-dataplane",
        "PodDisruptionBudget jm-dataplane",
        "Role jm-dataplane",
        "RoleBinding jm-dataplane",
        "Service jm-otlp",
        "ServiceAccount jm-dataplane",
    ];
    assert_eq!(names, wanted);

    let writes = stage.settled(&operator, mark).await;
    assert!(
        changed(&writes).len() <= WRITES_TO_SERVE,
        "{:#?}",
        changed(&writes)
    );
    assert_eq!(unchanged(&writes), [""; 0], "applies that changed nothing");
    let status = stage.policies.get("jm").await.unwrap().status.unwrap();
    assert_eq!(status.ready.as_deref(), Some("3/3"));
    assert_eq!(status.replicas, Some(3));
    let revision = status.revision.unwrap();
    assert_eq!(
        (revision.current.as_deref(), revision.target.as_str()),
        (Some("1"), "1")
    );
    assert_eq!((revision.updated, revision.ready), (3, 3));
    println!("{} writes until served: {:#?}", writes.len(), changed(&writes));
}

#[tokio::test]
async fn a_deleted_policy_takes_all_its_objects_along_also_without_an_operator() {
    let (stage, operator) = Stage::with_operator("gone").await;
    for name in ["with", "without"] {
        stage.apply(name, &with_replicas(1)).await;
        stage.rolled_out(name).await;
    }
    let gone = async |name: &str| {
        let uid = stage.uid(name).await;
        stage.delete(name).await;
        let nothing = async || {
            let owned = stage.owned(&uid).await;
            let pods = stage
                .pods
                .list(&ListParams::default().labels(&format!("jevmetrics.io/policy={name}")))
                .await;
            match (owned.len(), pods.unwrap().items.len()) {
                (0, 0) => Ok(()),
                left => Err(format!("{left:?} are left")),
            }
        };
        poll::eventually(&format!("the end of {name}"), WITHIN, nothing)
            .await
            .unwrap();
    };
    gone("with").await;
    operator.stop().await.unwrap();
    gone("without").await;
}

/// *Scenario*: Collectors are put in front of a data plane, which route, and are taken away again.
/// *Guarantees*: what they need is there as long as they route, and nothing else changes; somebody who deletes it gets it
/// back.
#[tokio::test]
async fn what_a_tier_in_front_needs_is_there_as_long_as_it_routes() {
    let (stage, operator) = Stage::with_operator("upstream").await;
    stage.apply("jm", &with_replicas(1)).await;
    stage.rolled_out("jm").await;
    let uid = stage.uid("jm").await;
    let names = async || -> BTreeSet<String> {
        let owned = stage.owned(&uid).await;
        let named = owned.iter();
        named
            .map(|(kind, object)| format!("{kind} {}", object.name_any()))
            .collect()
    };
    let becomes = async |what: &str, wanted: &BTreeSet<String>| {
        let look = async || {
            let found = names().await;
            if found == *wanted {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        };
        stage.eventually(what, look).await;
    };
    let without = names().await;
    let more = ["ConfigMap jm-collector-routing", "Service jm-members"].map(str::to_owned);
    let with: BTreeSet<_> = without.iter().cloned().chain(more).collect();
    stage
        .patch("jm", &json!({"routing": {"affinity": "Upstream"}}))
        .await;
    becomes("what Collectors need", &with).await;
    for object in ["configmap/jm-collector-routing", "service/jm-members"] {
        stage.kubectl(&["delete", object]).await;
    }
    becomes("what was deleted", &with).await;
    stage.patch("jm", &json!({"routing": {"affinity": "None"}})).await;
    becomes("the end of what Collectors need", &without).await;
    operator.stop().await.unwrap();
}

/// *Scenario*: the namespace of a policy that serves is deleted, with all that is in it.
/// *Guarantees*: the operator does not hold it up: once it was told that nothing new is taken, it asks for nothing more.
#[tokio::test]
async fn a_namespace_that_goes_is_let_go() {
    let (stage, operator) = Stage::with_operator("going").await;
    stage.apply("jm", &with_replicas(2)).await;
    stage.rolled_out("jm").await;
    let mark = stage.plane.audit_mark().unwrap();
    stage.plane.delete_namespace(&stage.namespace).await.unwrap();
    let requests = stage.plane.requests_of(operator.user(), mark).unwrap();
    let refused = requests.iter().filter(|request| {
        request.code == 403
            && request.is_write()
            && request.resource != "leases"
            && request.resource != "events"
    });
    let refused: Vec<_> = refused.collect();
    assert!(refused.len() <= 1, "{refused:#?}");
}
