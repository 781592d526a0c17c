//! Policies that are wrong: each says so, the others go on, and what ran goes on.

use jevmetrics_api::policy::{JevMetricsPolicy, definition};
use jevmetrics_api::routing::RoutingTable;
use jevmetrics_testkit::cluster::{ControlPlane, HollowNodes, OperatorOptions, Options};
use jevmetrics_testkit::poll;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};

use crate::policies::with_replicas;
use crate::stage::{Stage, WITHIN, changed};

fn with_key(replicas: i32) -> Value {
    let mut spec = with_replicas(replicas);
    spec["inference"] = json!({"apiKeySecretRef": {"name": "jev", "key": "api-key"}});
    spec
}

pub(crate) async fn put_secret(stage: &Stage, name: &str, data: &Value) {
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
    let params = PatchParams::apply("user").force();
    secrets
        .patch(name, &params, &Patch::Apply(&secret))
        .await
        .unwrap();
}

/// *Guarantees*: without its Jev key a data plane serves; a condition and an event name the Secret, then the key; when
/// it is there, the condition turns within seconds; what is in it is never in an object, and changes none.
#[tokio::test]
async fn a_missing_api_key_is_named_and_holds_up_nothing() {
    let (stage, operator) = Stage::with_operator("key").await;
    stage.apply("jm", &with_key(1)).await;
    let message = stage
        .condition("jm", "ConfigurationValid", "False", "SecretNotFound")
        .await;
    assert_eq!(
        message,
        "spec.inference.apiKeySecretRef: Secret jev must exist; pods serve without it and keep everything"
    );
    stage.event("jm", "SecretNotFound").await;
    stage.rolled_out("jm").await;
    stage.condition("jm", "Ready", "True", "Serving").await;

    put_secret(&stage, "jev", &json!({"other": "x"})).await;
    let look = async || {
        let message = stage
            .condition("jm", "ConfigurationValid", "False", "SecretNotFound")
            .await;
        if message.contains("must have the key api-key") {
            Ok(())
        } else {
            Err(message)
        }
    };
    stage.eventually("the key to be named", look).await;
    put_secret(&stage, "jev", &json!({"api-key": "sk-very-secret"})).await;
    stage.condition("jm", "ConfigurationValid", "True", "Valid").await;

    let mark = stage.calm(&operator).await;
    put_secret(&stage, "jev", &json!({"api-key": "sk-another-secret"})).await;
    assert_eq!(
        stage.settled(&operator, mark).await,
        [],
        "a changed Secret changes no object"
    );
    let mut shown = operator.printed();
    for kinds in [
        "jmp,configmaps,deployments,replicasets,pods,services,events",
        "events.events.k8s.io",
    ] {
        shown += &stage.kubectl(&["get", kinds, "-o", "json"]).await;
    }
    assert!(shown.contains("jev"));
    for secret in [
        "sk-very-secret",
        "sk-another-secret",
        "c2stdmVyeS1zZWNyZXQ",
        "c2stYW5vdGhlci1zZWNyZXQ",
    ] {
        assert!(!shown.contains(secret), "a value is shown");
    }
    let requests = stage.plane.requests_of(operator.user(), stage.start).unwrap();
    let of_secrets = requests.iter().filter(|request| request.resource == "secrets");
    let of_secrets: Vec<_> = of_secrets
        .map(|request| (request.verb.as_str(), request.name.as_str()))
        .collect();
    assert!(!of_secrets.is_empty());
    assert!(
        of_secrets.iter().all(|seen| *seen == ("get", "jev")),
        "{of_secrets:?}"
    );
}

/// *Guarantees*: new pods wait for a Secret that they need, old ones serve; when it is there, the rollout ends unaided.
#[tokio::test]
async fn a_missing_export_header_holds_up_new_pods_and_leaves_old_ones_serving() {
    let (stage, _operator) = Stage::with_operator("header").await;
    stage.apply("jm", &with_replicas(1)).await;
    stage.rolled_out("jm").await;
    let mut spec = with_replicas(1);
    spec["export"]["headers"] =
        json!([{"name": "x-tenant", "secretKeyRef": {"name": "backend", "key": "tenant"}}]);
    stage.apply("jm", &spec).await;
    let message = stage
        .condition("jm", "ConfigurationValid", "False", "SecretNotFound")
        .await;
    assert_eq!(
        message,
        "spec.export.headers[0].secretKeyRef: Secret backend must exist; new pods wait for it"
    );
    stage.condition("jm", "RolledOut", "False", "Progressing").await;
    stage.condition("jm", "Ready", "True", "Serving").await;
    put_secret(&stage, "backend", &json!({"tenant": "a"})).await;
    stage.condition("jm", "ConfigurationValid", "True", "Valid").await;
    stage.rolled_out("jm").await;
}

/// *Guarantees*: what the API server does not take, such as a quantity that is none, is said in its words.
#[tokio::test]
async fn an_object_that_the_api_server_refuses_is_named_with_its_words() {
    let (stage, _operator) = Stage::with_operator("refused").await;
    stage.apply("jm", &with_replicas(1)).await;
    stage.rolled_out("jm").await;
    stage
        .patch(
            "jm",
            &json!({"template": {"nodeSelector": {"not a label key!": "x"}}}),
        )
        .await;
    let message = stage
        .condition("jm", "ConfigurationValid", "False", "Refused")
        .await;
    assert!(
        message.starts_with("Deployment jm-dataplane is refused: "),
        "{message}"
    );
    assert!(message.contains("not a label key!"), "{message}");
    stage.condition("jm", "Ready", "True", "Serving").await;
    stage.patch("jm", &json!({"template": null})).await;
    stage.rolled_out("jm").await;
}

/// *Scenario*: an older definition has let in a policy that cannot be read and one that contradicts itself.
/// *Guarantees*: each says so in status and events; what ran for them goes on, and their pods come and go in their tables,
/// also after somebody has taken the table or the whole live object away; the others are looked after.
#[tokio::test]
async fn an_undecodable_and_a_contradicting_policy_say_so_and_disturb_nobody() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    plane.install(&[lax_definition()]).await.unwrap();
    let _nodes = HollowNodes::start(&plane, 1).await.unwrap();
    // The plane is this test's: it lives as long as the stage that borrows it.
    let plane: &'static ControlPlane = Box::leak(Box::new(plane));
    let stage = Stage::on(plane, "lax").await;
    let operator = plane
        .operator(&OperatorOptions::for_namespace(&stage.namespace))
        .await
        .unwrap();
    for name in ["odd", "contrary", "good"] {
        stage.apply(name, &with_replicas(1)).await;
        stage.rolled_out(name).await;
    }
    for name in ["odd", "contrary"] {
        owner_of_all(&stage, name, None).await;
    }
    let raw: Api<DynamicObject> = Api::namespaced_with(
        stage.client.clone(),
        &stage.namespace,
        &ApiResource::erase::<JevMetricsPolicy>(&()),
    );
    let patch = |spec: Value| Patch::Merge(json!({"spec": spec}));
    let params = PatchParams::default();
    raw.patch("odd", &params, &patch(json!({"replicas": "three"})))
        .await
        .unwrap();
    let contrary = json!({"retention": {"keepThresholdPercent": 10, "dropThresholdPercent": 20}});
    raw.patch("contrary", &params, &patch(contrary)).await.unwrap();

    let condition = async |name: &str, reason: &str| {
        let look = async || {
            let object = raw.get(name).await.map_err(|error| error.to_string())?;
            let conditions = object.data["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let found = conditions.iter().find(|condition| {
                condition["type"] == "ConfigurationValid"
                    && condition["status"] == "False"
                    && condition["reason"] == reason
            });
            found
                .map(|found| found["message"].as_str().unwrap().to_owned())
                .ok_or_else(|| format!("{conditions:?}"))
        };
        poll::eventually(reason, WITHIN, look).await.unwrap()
    };
    let message = condition("odd", "Undecodable").await;
    assert!(
        message.starts_with("spec.replicas: invalid type: string"),
        "{message}"
    );
    let message = condition("contrary", "Invalid").await;
    assert!(
        message.contains("spec.retention.dropThresholdPercent: must be at most keepThresholdPercent (10)"),
        "{message}"
    );
    stage.event("odd", "Undecodable").await;
    stage.event("contrary", "Invalid").await;

    stage.apply("good", &with_replicas(2)).await;
    stage.rolled_out("good").await;
    stage.apply("new", &with_replicas(1)).await;
    stage.rolled_out("new").await;
    for name in ["odd", "contrary"] {
        let deployment = stage.deployments.get(&format!("{name}-dataplane")).await.unwrap();
        assert_eq!(deployment.status.unwrap().ready_replicas, Some(1), "{name}");
    }
    for name in ["odd", "contrary"] {
        owner_is_replaced(&stage, name).await;
    }
    let maps: Api<ConfigMap> = Api::namespaced(stage.client.clone(), &stage.namespace);
    maps.delete("odd-live", &DeleteParams::default()).await.unwrap();
    let without_table = Patch::Merge(json!({"data": {"routing": null}}));
    maps.patch("contrary-live", &params, &without_table)
        .await
        .unwrap();
    for name in ["odd", "contrary"] {
        owner_of_all(&stage, name, None).await;
        owner_is_replaced(&stage, name).await;
    }
    let routing = async || {
        let object = raw.get("odd").await.map_err(|error| error.to_string())?;
        let conditions = object.data["status"]["conditions"].as_array().cloned();
        let found = conditions
            .unwrap_or_default()
            .into_iter()
            .find(|condition| condition["type"] == "RoutingConverged" && condition["status"] == "Unknown");
        found
            .map(|found| assert_eq!(found["reason"], "NotAsked"))
            .ok_or_else(|| format!("{:?}", object.data["status"]))
    };
    poll::eventually("a pod that nobody asks", WITHIN, routing)
        .await
        .unwrap();
    // Both are quiet about it, and heal.
    let mark = stage.calm(&operator).await;
    assert_eq!(changed(&stage.settled(&operator, mark).await), [""; 0]);
    raw.patch("odd", &params, &patch(json!({"replicas": 1})))
        .await
        .unwrap();
    raw.patch("contrary", &params, &patch(json!({"retention": null})))
        .await
        .unwrap();
    for name in ["odd", "contrary"] {
        stage.condition(name, "ConfigurationValid", "True", "Valid").await;
        let live = maps.get(&format!("{name}-live")).await.unwrap();
        let keys: Vec<String> = live.data.unwrap().into_keys().collect();
        assert_eq!(keys, ["policy", "routing"], "{name}");
    }
}

/// Deletes the pod of a policy, and waits until another owns what it has owned.
async fn owner_is_replaced(stage: &Stage, policy: &str) {
    let (name, uid) = owner_of_all(stage, policy, None).await;
    stage.pods.delete(&name, &DeleteParams::default()).await.unwrap();
    owner_of_all(stage, policy, Some(&uid)).await;
}

/// Waits until a policy of one pod has a table with another owner than `before`: its name and uid.
async fn owner_of_all(stage: &Stage, policy: &str, before: Option<&str>) -> (String, String) {
    let maps: Api<ConfigMap> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let look = async || {
        let object = maps.get(&format!("{policy}-live")).await;
        let data = object
            .map_err(|error| error.to_string())?
            .data
            .unwrap_or_default();
        let text = data.get("routing").ok_or("no table")?;
        let table = RoutingTable::from_routing_yaml(text).map_err(|error| error.to_string())?;
        let owner = &table.owners()[0];
        if before == Some(owner.uid.as_str()) {
            return Err(format!("{} owns all", owner.name));
        }
        Ok((owner.name.clone(), owner.uid.clone()))
    };
    let what = format!("another owner in the table of {policy}");
    poll::eventually(&what, WITHIN, look).await.unwrap()
}

/// Without rules, and with a looser type.
pub(crate) fn lax_definition()
-> k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition {
    fn without_rules(schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                fields.remove("x-kubernetes-validations");
                fields.values_mut().for_each(without_rules);
            }
            Value::Array(items) => items.iter_mut().for_each(without_rules),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(definition().unwrap()).unwrap();
    without_rules(&mut value);
    let spec = &mut value["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["replicas"] = json!({"x-kubernetes-int-or-string": true});
    // The scale wants a number there.
    value["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    serde_json::from_value(value).unwrap()
}

/// *Guarantees*: a namespaced operator looks at its namespace alone, and needs nothing cluster-wide to do so.
#[tokio::test]
async fn an_operator_of_one_namespace_leaves_others_alone() {
    let (stage, operator) = Stage::with_operator("alone").await;
    let other = Stage::new("other").await;
    other.apply("jm", &with_replicas(1)).await;
    stage.apply("jm", &with_replicas(1)).await;
    stage.rolled_out("jm").await;
    assert!(other.policies.get("jm").await.unwrap().status.is_none());
    let requests = stage.plane.requests_of(operator.user(), stage.start).unwrap();
    let elsewhere: Vec<_> = requests
        .iter()
        .filter(|request| !request.resource.is_empty() && request.namespace != stage.namespace)
        .collect();
    assert!(elsewhere.is_empty(), "{elsewhere:#?}");
}
