#![allow(clippy::unwrap_used)]

use jevmetrics_api::policy::JevMetricsPolicy;

use super::super::{Defaults, Manifest, render};
use super::*;
use crate::kinds::Kind;

fn policy(mut spec: Value) -> ValidPolicy {
    spec["export"]["endpoint"] = json!("http://a:4317");
    let policy: JevMetricsPolicy = serde_json::from_value(json!({
        "apiVersion": "jevmetrics.io/v1alpha1",
        "kind": "JevMetricsPolicy",
        "metadata": {"name": "jm", "namespace": "ns", "uid": "u"},
        "spec": spec,
    }))
    .unwrap();
    ValidPolicy::try_from(&policy).unwrap()
}

fn manifests(spec: Value) -> Vec<Manifest> {
    let defaults = Defaults {
        image: "registry.example/dataplane:1".to_owned(),
    };
    render(&policy(spec), &defaults, 0).manifests().unwrap()
}

/// The exporter as a Collector reads it.
fn exporter_of(spec: Value) -> Value {
    let manifests = manifests(spec);
    let routing = manifests
        .iter()
        .find(|manifest| manifest.name == "jm-collector-routing")
        .unwrap();
    assert_eq!(routing.kind, Kind::ConfigMap);
    let data = routing.value["data"].as_object().unwrap();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["collector.yaml"]);
    let file: Value = serde_yaml::from_str(data["collector.yaml"].as_str().unwrap()).unwrap();
    let file = file.as_object().unwrap();
    // Nothing else: the rest is the Collector's own.
    assert_eq!(file.keys().collect::<Vec<_>>(), ["exporters"]);
    let exporters = file["exporters"].as_object().unwrap();
    assert_eq!(exporters.keys().collect::<Vec<_>>(), ["load_balancing/jm"]);
    exporters["load_balancing/jm"].clone()
}

fn upstream_with(key: &str, value: Value) -> Value {
    let mut spec = json!({"routing": {"affinity": "Upstream"}});
    spec[key] = value;
    spec
}

#[test]
fn only_upstream_has_it() {
    let names = |spec: Value| -> Vec<String> {
        manifests(spec)
            .into_iter()
            .map(|manifest| manifest.name)
            .collect()
    };
    let without = names(json!({}));
    for affinity in ["Forward", "None"] {
        assert_eq!(names(json!({"routing": {"affinity": affinity}})), without);
    }
    let mut with = names(json!({"routing": {"affinity": "Upstream"}}));
    with.retain(|name| !without.contains(name));
    assert_eq!(with, ["jm-members", "jm-collector-routing"]);
}

#[test]
fn a_collector_finds_the_ready_pods_where_they_listen() {
    let spec = json!({"routing": {"affinity": "Upstream"}});
    let exporter = exporter_of(spec.clone());
    let resolvers = exporter["resolver"].as_object().unwrap();
    assert_eq!(resolvers.keys().collect::<Vec<_>>(), ["dns"]);

    let manifests = manifests(spec);
    let named = |name: &str| {
        &manifests
            .iter()
            .find(|manifest| manifest.name == name)
            .unwrap()
            .value
    };
    let (members, entry) = (named("jm-members"), named("jm-otlp"));
    assert_eq!(resolvers["dns"]["hostname"], "jm-members.ns.svc");
    assert_eq!(members["spec"]["clusterIP"], "None");
    assert!(members["spec"].get("publishNotReadyAddresses").is_none());
    assert_eq!(members["spec"]["selector"], entry["spec"]["selector"]);
    // No Service is asked about the port: it must be the pods' own.
    let container = &manifests.last().unwrap().value["spec"]["template"]["spec"]["containers"][0];
    let ports = container["ports"].as_array().unwrap();
    let listens = ports.iter().find(|port| port["name"] == "otlp-grpc").unwrap();
    assert_eq!(
        resolvers["dns"]["port"],
        listens["containerPort"].to_string().as_str()
    );
}

#[test]
fn what_has_one_owner_has_one_key() {
    let keys = |spec: Value| {
        let exporter = exporter_of(spec);
        (
            exporter["routing_key"].clone(),
            exporter["routing_attributes"].clone(),
        )
    };
    let by = |names: Value| (json!("attributes"), names);
    let plain = json!({"routing": {"affinity": "Upstream"}});
    assert_eq!(keys(plain), (json!("resource"), Value::Null));
    let listed = json!({"affinity": "Upstream", "keyAttributes": ["service.name", "zone"]});
    assert_eq!(
        keys(json!({"routing": listed})),
        by(json!(["service.name", "zone"]))
    );
    let context = json!({"identity": "Context", "contextAttributes": ["region"]});
    assert_eq!(keys(upstream_with("inference", context)), by(json!(["region"])));
}

#[test]
fn nothing_waits_at_one_pod_and_every_attempt_has_the_time_that_pods_take() {
    let default = exporter_of(json!({"routing": {"affinity": "Upstream"}}));
    let at_pod = &default["protocol"]["otlp"];
    assert_eq!(at_pod["sending_queue"], json!({"enabled": false}));
    assert_eq!(default["sending_queue"], json!({"queue_size": 5000}));
    assert_eq!(
        (&at_pod["timeout"], &default["timeout"]),
        (&json!("10s"), &json!("60s"))
    );
    // It replaces the address of each pod: one that is given would be for all of them.
    assert!(at_pod.get("endpoint").is_none());
    let slow = exporter_of(upstream_with("export", json!({"timeoutMilliseconds": 30_001})));
    assert_eq!(slow["protocol"]["otlp"]["timeout"], "33s");
}

#[test]
fn tls_is_spoken_if_pods_speak_it_and_their_service_is_meant() {
    let plain = exporter_of(json!({"routing": {"affinity": "Upstream"}}));
    assert_eq!(plain["protocol"]["otlp"]["tls"], json!({"insecure": true}));
    let secret = json!({"tls": {"secretName": "certificate"}});
    let tls = exporter_of(upstream_with("ingest", secret))["protocol"]["otlp"]["tls"].clone();
    assert_eq!(
        tls,
        json!({"insecure": false, "server_name_override": "jm-otlp.ns.svc"})
    );
}
