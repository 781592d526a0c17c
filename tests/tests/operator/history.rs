//! History does not matter: what is there follows from the spec alone.

use jevmetrics_api::policy::{JevMetricsPolicy, ValidPolicy};
use jevmetrics_operator::render::{Defaults, render};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::policies::with_replicas;
use crate::rules;
use crate::stage::Stage;

/// Everything is given, and no pods are wanted: what matters here are objects.
fn full() -> Value {
    let mut spec = rules::full();
    spec["replicas"] = json!(0);
    spec
}

/// Each optional field of [`full`], as a JSON pointer.
fn optional_fields() -> Vec<String> {
    fn collect(path: &str, value: &Value, found: &mut Vec<String>) {
        for (name, value) in value.as_object().into_iter().flatten() {
            let path = format!("{path}/{name}");
            // Names what cannot be named in part.
            let required = [
                "/export",
                "/export/endpoint",
                "/coordination/host",
                "/routing/tls/secretName",
            ];
            let is_key = path.ends_with("SecretRef/name") || path.ends_with("SecretRef/key");
            if !required.contains(&path.as_str()) && !is_key {
                found.push(path.clone());
            }
            let is_of_kubernetes = [
                "/affinity",
                "/resources",
                "/nodeSelector",
                "/labels",
                "/annotations",
            ]
            .iter()
            .any(|name| path.ends_with(name));
            if !is_of_kubernetes {
                collect(&path, value, found);
            }
        }
    }
    let mut found = Vec::new();
    collect("", &full(), &mut found);
    assert!(found.len() > 40, "{found:?}");
    found
}

fn without(spec: &Value, pointer: &str) -> Value {
    let mut spec = spec.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    spec.pointer_mut(parent)
        .unwrap()
        .as_object_mut()
        .unwrap()
        .remove(name);
    spec
}

/// What of an object follows from a spec: not who it is, when it was made, and what the cluster has given it.
fn essence(object: &DynamicObject) -> Value {
    let mut data = object.data.clone();
    let fields = data.as_object_mut().unwrap();
    fields.remove("status");
    if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
        for given in ["clusterIP", "clusterIPs", "healthCheckNodePort"] {
            spec.remove(given);
        }
        for port in spec
            .get_mut("ports")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            port.as_object_mut().unwrap().remove("nodePort");
        }
    }
    let mut annotations = object.annotations().clone();
    annotations.retain(|key, _| !key.starts_with("deployment.kubernetes.io/"));
    json!({"labels": object.labels(), "annotations": annotations, "data": data})
}

/// What the API server would make of a spec if nothing was there before: each object under another name, not stored.
async fn fresh(stage: &Stage, policy: &JevMetricsPolicy) -> Vec<(String, Value)> {
    let defaults = Defaults {
        image: "dataplane.invalid/dataplane:1".to_owned(),
    };
    let valid = ValidPolicy::try_from(policy).unwrap();
    let mut made = Vec::new();
    // The one thing that history does matter for: it counts changes.
    let counted = policy
        .status
        .as_ref()
        .and_then(|status| status.coordination.as_ref()?.generation);
    let generation = counted.unwrap_or(0).try_into().unwrap();
    for mut manifest in render(&valid, &defaults, generation).manifests().unwrap() {
        manifest.value["metadata"]["name"] = json!("fresh");
        let api = manifest.kind.api(&stage.client, &stage.namespace);
        let params = PatchParams::apply("jevmetrics-operator").force().dry_run();
        let object = api
            .patch("fresh", &params, &Patch::Apply(&manifest.value))
            .await
            .unwrap();
        made.push((
            format!("{} {}", manifest.kind.name(), manifest.name),
            essence(&object),
        ));
    }
    made.sort_by(|(one, _), (other, _)| one.cmp(other));
    made
}

/// Waits until what is there is what a fresh policy with the present spec would have.
async fn as_fresh(stage: &Stage, name: &str, what: &str) {
    stage.observed(name).await;
    let policy = stage.policies.get(name).await.unwrap();
    let wanted = fresh(stage, &policy).await;
    let look = async || {
        let owned = stage.owned(&policy.uid().unwrap()).await;
        let found: Vec<_> = owned
            .iter()
            .map(|(kind, object)| (format!("{kind} {}", object.name_any()), essence(object)))
            .collect();
        if found == wanted {
            return Ok(());
        }
        let names = |all: &[(String, Value)]| all.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        if names(&found) != names(&wanted) {
            return Err(format!("{:?}, not {:?}", names(&found), names(&wanted)));
        }
        let differs = found.iter().zip(&wanted).find(|(one, other)| one != other);
        Err(format!("{differs:#?}"))
    };
    stage.eventually(what, look).await;
}

#[tokio::test]
async fn the_way_to_a_spec_does_not_matter() {
    let (stage, _operator) = Stage::with_operator("history").await;
    let ways = [
        [
            with_replicas(0),
            full(),
            json!({"revision": "c", "replicas": 0, "export": {"endpoint": "http://c:1"}}),
        ],
        [
            full(),
            json!({"mode": "Reduce", "replicas": 0, "export": {"endpoint": "http://b:1"}}),
            with_replicas(0),
        ],
        [
            with_replicas(0),
            json!({"replicas": 0, "export": {"endpoint": "http://b:1"}, "template": {"image": "b.invalid/b"}}),
            full(),
        ],
    ];
    for (number, way) in ways.iter().enumerate() {
        for spec in way {
            stage.apply("jm", spec).await;
            stage.observed("jm").await;
        }
        as_fresh(&stage, "jm", &format!("the end of way {number}")).await;
    }
}

#[tokio::test]
async fn removing_each_optional_field_removes_its_effect() {
    let (stage, _operator) = Stage::with_operator("removed").await;
    for field in optional_fields() {
        let spec = without(&full(), &field);
        if spec["replicas"].is_null() {
            // What is unset stays at its value: drift.rs.
            continue;
        }
        if serde_json::from_value::<JevMetricsPolicy>(json!({
            "apiVersion": "jevmetrics.io/v1alpha1", "kind": "JevMetricsPolicy",
            "metadata": {"name": "jm", "namespace": "default"}, "spec": spec,
        }))
        .ok()
        .is_none_or(|policy| ValidPolicy::try_from(&policy).is_err())
        {
            // The rest does not hold without it.
            continue;
        }
        stage.apply("jm", &spec).await;
        as_fresh(&stage, "jm", &format!("nothing left of {field}")).await;
    }
}
