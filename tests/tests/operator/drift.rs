//! Others change what the operator has made.

use futures_util::{StreamExt as _, TryStreamExt as _};
use jevmetrics_operator::kinds::Kind;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::core::{DynamicObject, WatchEvent};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::policies::{minimal, with_replicas};
use crate::stage::{Stage, changed};

const DEPLOYMENT: &str = "jm-dataplane";

async fn replicas(stage: &Stage) -> i32 {
    let deployment = stage.deployments.get(DEPLOYMENT).await.unwrap();
    deployment.spec.unwrap().replicas.unwrap()
}

async fn has_replicas(stage: &Stage, wanted: i32) {
    let look = async || match replicas(stage).await {
        found if found == wanted => Ok(()),
        other => Err(other),
    };
    stage.eventually(&format!("{wanted} replicas"), look).await;
}

#[tokio::test]
async fn an_edited_object_is_repaired_and_an_event_says_so() {
    let (stage, operator) = Stage::with_operator("edited").await;
    stage.apply("jm", &with_replicas(1)).await;
    stage.rolled_out("jm").await;
    // Else the first table may come after the repairs.
    stage.calm(&operator).await;
    for (kind, name, patch, pointer) in [
        (
            Kind::ConfigMap,
            "jm-live",
            json!({"data": {"policy": "mode: Reduce"}}),
            "/data/policy",
        ),
        (
            Kind::Service,
            "jm-otlp",
            json!({"spec": {"selector": {"jevmetrics.io/policy": "other"}}}),
            "/spec/selector",
        ),
        (Kind::Role, DEPLOYMENT, json!({"rules": []}), "/rules"),
        (
            Kind::PodDisruptionBudget,
            DEPLOYMENT,
            json!({"spec": {"maxUnavailable": 0}}),
            "/spec/maxUnavailable",
        ),
        (
            Kind::Deployment,
            DEPLOYMENT,
            json!({"spec": {"replicas": 5}}),
            "/spec/replicas",
        ),
        (
            Kind::ServiceAccount,
            DEPLOYMENT,
            json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}),
            "/x",
        ),
    ] {
        let api = kind.api(&stage.client, &stage.namespace);
        let value = |object: &DynamicObject| (object.data.pointer(pointer).cloned(), object.labels().clone());
        let before = value(&api.get(name).await.unwrap());
        let edited = api
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
        assert_ne!(value(&edited), before, "{name}");
        let look = async || match value(&api.get(name).await.unwrap()) {
            now if now == before => Ok(()),
            now => Err(format!("{now:?}")),
        };
        stage
            .eventually(&format!("repair of {} {name}", kind.name()), look)
            .await;
    }
    stage.event("jm", "Repaired").await;
    let mark = stage.plane.audit_mark().unwrap();
    assert_eq!(
        stage.settled_objects(&operator, mark).await,
        [],
        "writes after the repair"
    );
}

#[tokio::test]
async fn every_deleted_object_is_made_again() {
    let (stage, _operator) = Stage::with_operator("deleted").await;
    stage.apply("jm", &with_replicas(0)).await;
    stage.observed("jm").await;
    let uid = stage.uid("jm").await;
    let all = stage.owned(&uid).await;
    assert_eq!(all.len(), 8);
    for (kind_name, object) in all {
        let kind = Kind::ALL
            .into_iter()
            .find(|kind| kind.name() == kind_name)
            .unwrap();
        let (api, name, old) = (
            kind.api(&stage.client, &stage.namespace),
            object.name_any(),
            object.uid(),
        );
        api.delete(&name, &DeleteParams::background()).await.unwrap();
        let look = async || match api.get_opt(&name).await.unwrap() {
            Some(new) if new.uid() != old => Ok(()),
            found => Err(format!("{found:?}")),
        };
        stage
            .eventually(&format!("another {kind_name} {name}"), look)
            .await;
    }
    stage.event("jm", "Recreated").await;
}

/// *Scenario*: a ConfigMap of somebody else has a name that a policy needs, with our label or without; later it goes.
/// *Guarantees*: it is not touched, a condition and an event name it, and the policy heals when the name is free.
#[tokio::test]
async fn a_foreign_object_with_our_name_is_left_alone_and_named() {
    let (stage, operator) = Stage::with_operator("foreign").await;
    let maps: Api<ConfigMap> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let labelled = json!({"app.kubernetes.io/managed-by": "jevmetrics-operator"});
    for (policy, labels) in [("labelled", labelled), ("plain", json!({}))] {
        let name = format!("{policy}-live");
        let foreign = json!({"metadata": {"name": name, "labels": labels}, "data": {"mine": "yes"}});
        let foreign: ConfigMap = serde_json::from_value(foreign).unwrap();
        let before = maps.create(&PostParams::default(), &foreign).await.unwrap();
        stage.apply(policy, &with_replicas(1)).await;
        let message = stage
            .condition(policy, "ConfigurationValid", "False", "NameTaken")
            .await;
        let wanted = format!("ConfigMap {name} exists and is not owned");
        assert!(message.contains(&wanted), "{message}");
        stage.event(policy, "NameTaken").await;
        let mark = stage.plane.audit_mark().unwrap();
        let writes = stage.settled_objects(&operator, mark).await;
        assert_eq!(changed(&writes), [""; 0], "writes while it waits");
        let after = maps.get(&name).await.unwrap();
        assert_eq!(after.metadata.resource_version, before.metadata.resource_version);

        maps.delete(&name, &DeleteParams::default()).await.unwrap();
        stage
            .condition(policy, "ConfigurationValid", "True", "Valid")
            .await;
        stage.rolled_out(policy).await;
    }
}

/// *Guarantees*: an apply that means to create never takes over what somebody has put there in the meantime, one that
/// means to change never touches another object of the name, and one that means to change what it has seen never touches
/// what came after: what the operator's writes rest on.
#[tokio::test]
async fn the_preconditions_of_writes_hold_at_the_api_server() {
    let stage = Stage::new("precondition").await;
    let params = PatchParams::apply("jevmetrics-operator").force();
    for kind in Kind::ALL {
        let api = kind.api(&stage.client, &stage.namespace);
        let object = |extra: Value| {
            let mut object = json!({
                "apiVersion": kind.resource().api_version, "kind": kind.name(), "metadata": {"name": "a"},
            });
            for (field, value) in extra.as_object().unwrap() {
                object["metadata"][field] = value.clone();
            }
            match kind {
                Kind::Service => object["spec"] = json!({"ports": [{"port": 1}]}),
                Kind::RoleBinding => {
                    object["roleRef"] =
                        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"});
                }
                Kind::Deployment => {
                    object["spec"] = json!({
                        "replicas": 0,
                        "selector": {"matchLabels": {"a": "b"}},
                        "template": {
                            "metadata": {"labels": {"a": "b"}},
                            "spec": {"containers": [{"name": "c", "image": "none.invalid/none"}]},
                        },
                    });
                }
                _ => {}
            }
            object
        };
        let new = object(json!({"resourceVersion": "1"}));
        let created = api
            .patch("a", &params, &Patch::Apply(&new))
            .await
            .unwrap_or_else(|error| panic!("{} is not created: {error}", kind.name()));
        let label = json!({"metadata": {"labels": {"somebody": "else"}}});
        api.patch("a", &PatchParams::default(), &Patch::Merge(&label))
            .await
            .unwrap();
        for there in [
            json!({"resourceVersion": "1"}),
            json!({"uid": "another"}),
            json!({"uid": created.uid(), "resourceVersion": created.resource_version()}),
        ] {
            let refused = api.patch("a", &params, &Patch::Apply(&object(there))).await;
            let Err(kube::Error::Api(status)) = refused else {
                panic!("{}: {refused:?}", kind.name());
            };
            assert!(matches!(status.code, 409 | 422), "{}: {status:?}", kind.name());
        }
    }
}

#[tokio::test]
async fn kubectl_rollout_restart_replaces_all_pods_and_stays() {
    let (stage, operator) = Stage::with_operator("restart").await;
    stage.apply("jm", &with_replicas(2)).await;
    stage.rolled_out("jm").await;
    let names = async || -> Vec<String> {
        let pods = stage.pods.list(&ListParams::default()).await.unwrap();
        let live = pods
            .items
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none());
        live.map(ResourceExt::name_any).collect()
    };
    let before = names().await;
    let mark = stage.plane.audit_mark().unwrap();
    stage
        .kubectl(&["rollout", "restart", "deployment", DEPLOYMENT])
        .await;
    let look = async || {
        let now = names().await;
        if now.len() == 2 && now.iter().all(|name| !before.contains(name)) {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    };
    stage.eventually("two other pods", look).await;
    stage.rolled_out("jm").await;
    let writes = stage.settled(&operator, mark).await;
    let other = changed(&writes)
        .into_iter()
        // Other pods own what theirs have owned: that is in the live object.
        .filter(|write| !write.contains("/status") && !write.contains("configmaps/ jm-live"));
    assert_eq!(other.collect::<Vec<_>>(), [""; 0], "the restart was touched");
    let deployment = stage.deployments.get(DEPLOYMENT).await.unwrap();
    let annotations = deployment
        .spec
        .unwrap()
        .template
        .metadata
        .unwrap()
        .annotations
        .unwrap();
    assert!(
        annotations.contains_key("kubectl.kubernetes.io/restartedAt"),
        "{annotations:?}"
    );
}

/// *Guarantees*: `kubectl scale jmp` and an autoscaler on the scale of the policy work, and read what they need.
#[tokio::test]
async fn the_scale_of_the_policy_drives_its_pods() {
    let (stage, _operator) = Stage::with_operator("scale").await;
    stage.apply("jm", &with_replicas(1)).await;
    stage.rolled_out("jm").await;
    stage.kubectl(&["scale", "jmp", "jm", "--replicas=3"]).await;
    has_replicas(&stage, 3).await;
    stage.rolled_out("jm").await;
    let scale = stage.policies.get_scale("jm").await.unwrap();
    let status = scale.status.unwrap();
    assert_eq!(
        (status.replicas, status.selector.as_deref()),
        (3, Some("jevmetrics.io/policy=jm"))
    );
    let patch = json!({"spec": {"replicas": 2}});
    stage
        .policies
        .patch_scale("jm", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    has_replicas(&stage, 2).await;
}

#[tokio::test]
async fn unset_replicas_belong_to_whoever_scales_the_deployment() {
    let (stage, operator) = Stage::with_operator("unset").await;
    stage.apply("jm", &minimal()).await;
    stage.rolled_out("jm").await;
    assert_eq!(replicas(&stage).await, 1);
    stage
        .kubectl(&["scale", "deployment", DEPLOYMENT, "--replicas=4"])
        .await;
    stage.condition("jm", "Ready", "True", "Serving").await;
    stage.rolled_out("jm").await;
    // Another change of the policy is no reason to touch them.
    stage
        .patch(
            "jm",
            &json!({"mode": "Reduce", "template": {"labels": {"a": "b"}}}),
        )
        .await;
    stage.rolled_out("jm").await;
    assert_eq!(replicas(&stage).await, 4);
    // The last pods are given their slots.
    let mark = stage.calm(&operator).await;
    assert_eq!(stage.settled_objects(&operator, mark).await, []);
}

#[tokio::test]
async fn replicas_go_from_set_to_unset_at_their_present_value_never_through_one() {
    let (stage, _operator) = Stage::with_operator("handover").await;
    stage.apply("jm", &with_replicas(3)).await;
    stage.rolled_out("jm").await;
    let seen = watched_replicas(&stage).await;
    stage.apply("jm", &minimal()).await;
    stage.observed("jm").await;
    // Another who scales wins, now and after another change of the policy.
    stage
        .kubectl(&["scale", "deployment", DEPLOYMENT, "--replicas=2"])
        .await;
    stage
        .patch("jm", &json!({"template": {"annotations": {"a.example/b": "c"}}}))
        .await;
    stage.observed("jm").await;
    stage.rolled_out("jm").await;
    assert_eq!(replicas(&stage).await, 2);
    // And back: the policy decides again, and lets go again.
    stage.apply("jm", &with_replicas(4)).await;
    has_replicas(&stage, 4).await;
    stage.apply("jm", &minimal()).await;
    stage.observed("jm").await;
    stage.rolled_out("jm").await;
    assert_eq!(replicas(&stage).await, 4);
    let seen = seen.await.unwrap();
    assert!(!seen.contains(&1), "{seen:?}");
}

/// Every number of replicas that the Deployment has from now on until it has had 4 for a while.
async fn watched_replicas(stage: &Stage) -> tokio::task::JoinHandle<Vec<i32>> {
    let api: Api<Deployment> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let version = api.get(DEPLOYMENT).await.unwrap().resource_version().unwrap();
    let mut events = api
        .watch(&WatchParams::default().timeout(240), &version)
        .await
        .unwrap()
        .boxed();
    tokio::spawn(async move {
        let mut seen = Vec::new();
        loop {
            let patience = std::time::Duration::from_secs(if seen.contains(&4) { 5 } else { 120 });
            match tokio::time::timeout(patience, events.try_next()).await {
                Ok(Ok(Some(WatchEvent::Modified(deployment)))) => {
                    seen.push(deployment.spec.unwrap().replicas.unwrap());
                }
                Ok(Ok(Some(_))) => {}
                _ => return seen,
            }
        }
    })
}

/// *Scenario*: an admission policy of the cluster adds an annotation, a label and a toleration to every Deployment.
/// *Guarantees*: they stay, nobody fights, nothing is written again and again.
#[tokio::test]
async fn what_an_admission_adds_stays_without_a_fight() {
    let (stage, operator) = Stage::with_operator("admission").await;
    mutate_deployments(&stage).await;
    let mark = stage.plane.audit_mark().unwrap();
    stage.apply("jm", &with_replicas(1)).await;
    stage.rolled_out("jm").await;
    let first = stage.settled(&operator, mark).await;
    let deployment = stage.deployments.get(DEPLOYMENT).await.unwrap();
    assert_eq!(
        deployment.labels().get("added.example/by"),
        Some(&"admission".to_owned())
    );
    let applies = changed(&first)
        .into_iter()
        .filter(|write| write.contains("deployments"))
        .count();
    assert_eq!(applies, 1, "{:?}", changed(&first));
    // A change of the policy goes through, once.
    let mark = stage.plane.audit_mark().unwrap();
    stage
        .patch("jm", &json!({"template": {"labels": {"a": "b"}}}))
        .await;
    stage.rolled_out("jm").await;
    let second = stage.settled(&operator, mark).await;
    let applies = changed(&second)
        .into_iter()
        .filter(|write| write.contains("deployments"))
        .count();
    assert_eq!(applies, 1, "{:?}", changed(&second));
    assert_eq!(stage.deployments.get(DEPLOYMENT).await.unwrap().labels().len(), 6);
}

async fn mutate_deployments(stage: &Stage) {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": stage.namespace},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["deployments"],
            }], "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}},
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
                "Object{metadata: Object.metadata{labels: {'added.example/by': 'admission'}, \
                 annotations: {'added.example/note': 'hello'}}, \
                 spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{\
                 priorityClassName: 'system-cluster-critical'}}}}"}}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": stage.namespace},
        "spec": {"policyName": stage.namespace},
    });
    let input = format!("{policy}\n---\n{binding}");
    let kubeconfig = stage.plane.admin_kubeconfig();
    stage
        .plane
        .kubectl_with(&kubeconfig, &["apply", "-f", "-"], &input)
        .await
        .unwrap();
    // It takes a moment until the server goes by it.
    let probe = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "probe"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "none.invalid/none"}]},
        }},
    });
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let probe: Deployment = serde_json::from_value::<Deployment>(probe).unwrap();
    let look = async || {
        let made = stage
            .deployments
            .create(&dry, &probe)
            .await
            .map_err(|error| error.to_string())?;
        if made.labels().contains_key("added.example/by") {
            Ok(())
        } else {
            Err("no label".to_owned())
        }
    };
    stage.eventually("the admission policy", look).await;
}
