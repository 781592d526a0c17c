//! Every value: it has an effect, and that is where it should be.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::rendered::{OPERATOR, Rendered, rendered};
use crate::values::{defaults, keys, leaves};

/// What a value is set to, where it must be seen (kind and JSON pointer), and as what.
type Effect = (&'static str, Value, &'static str, &'static str, Value);

fn effects() -> Vec<Effect> {
    let digest = format!("sha256:{}", "a".repeat(64));
    let toleration = json!([{"key": "a", "operator": "Exists"}]);
    let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}});
    let spread = json!([{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"a": "b"}},
    }]);
    let resources = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}});
    let image = "/spec/template/spec/containers/0/image";
    let arguments = "/spec/template/spec/containers/0/args";
    let args = |dataplane: &str, listen: &str| {
        json!([
            "run",
            format!("--dataplane-image={dataplane}"),
            "--lease-namespace=observability",
            format!("--lease-name={OPERATOR}"),
            format!("--listen={listen}"),
        ])
    };
    let of_namespace = "/spec/template/spec/containers/0/args/1";
    let on =
        |key: &'static str, value: Value, at: &'static str| (key, value.clone(), "Deployment", at, value);
    vec![
        (
            "scope",
            json!("Namespaced"),
            "Deployment",
            of_namespace,
            json!("--namespace=observability"),
        ),
        on("replicaCount", json!(2), "/spec/replicas"),
        (
            "image.repository",
            json!("r.example/a"),
            "Deployment",
            image,
            json!("r.example/a:0.1.0"),
        ),
        (
            "image.tag",
            json!("7"),
            "Deployment",
            image,
            json!("jevmetrics-operator:7"),
        ),
        (
            "image.digest",
            json!(digest),
            "Deployment",
            image,
            json!(format!("jevmetrics-operator@{digest}")),
        ),
        on(
            "image.pullPolicy",
            json!("Always"),
            "/spec/template/spec/containers/0/imagePullPolicy",
        ),
        (
            "dataplaneImage.repository",
            json!("r.example:5/a"),
            "Deployment",
            arguments,
            args("r.example:5/a:0.1.0", "0.0.0.0:9464"),
        ),
        (
            "dataplaneImage.tag",
            json!("7"),
            "Deployment",
            arguments,
            args("jevmetrics-dataplane:7", "0.0.0.0:9464"),
        ),
        (
            "dataplaneImage.digest",
            json!(digest),
            "Deployment",
            arguments,
            args(&format!("jevmetrics-dataplane@{digest}"), "0.0.0.0:9464"),
        ),
        on(
            "imagePullSecrets",
            json!([{"name": "pull"}]),
            "/spec/template/spec/imagePullSecrets",
        ),
        (
            "fullnameOverride",
            json!("other"),
            "Deployment",
            "/metadata/name",
            json!("other-operator"),
        ),
        (
            "logFilter",
            json!("debug"),
            "Deployment",
            "/spec/template/spec/containers/0/env",
            json!([{"name": "JEVMETRICS_LOG", "value": "debug"}]),
        ),
        (
            "serviceAccount.name",
            json!("other"),
            "Deployment",
            "/spec/template/spec/serviceAccountName",
            json!("other"),
        ),
        (
            "serviceAccount.annotations",
            json!({"a": "b"}),
            "ServiceAccount",
            "/metadata/annotations",
            json!({"a": "b"}),
        ),
        (
            "podDisruptionBudget.maxUnavailable",
            json!("50%"),
            "PodDisruptionBudget",
            "/spec/maxUnavailable",
            json!("50%"),
        ),
        (
            "metrics.address",
            json!("[::]"),
            "Deployment",
            arguments,
            args("jevmetrics-dataplane:0.1.0", "[::]:9464"),
        ),
        (
            "metrics.port",
            json!(9000),
            "Deployment",
            "/spec/template/spec/containers/0/ports/0/containerPort",
            json!(9000),
        ),
        (
            "metrics.service.annotations",
            json!({"a": "b"}),
            "Service",
            "/metadata/annotations",
            json!({"a": "b"}),
        ),
        (
            "metrics.serviceMonitor.labels",
            json!({"a": "b"}),
            "ServiceMonitor",
            "/metadata/labels/a",
            json!("b"),
        ),
        (
            "metrics.serviceMonitor.interval",
            json!("30s"),
            "ServiceMonitor",
            "/spec/endpoints/0/interval",
            json!("30s"),
        ),
        on(
            "resources",
            resources,
            "/spec/template/spec/containers/0/resources",
        ),
        on(
            "podAnnotations",
            json!({"a": "b"}),
            "/spec/template/metadata/annotations",
        ),
        (
            "podLabels",
            json!({"a": "b"}),
            "Deployment",
            "/spec/template/metadata/labels/a",
            json!("b"),
        ),
        on(
            "nodeSelector",
            json!({"a": "b"}),
            "/spec/template/spec/nodeSelector",
        ),
        on("tolerations", toleration, "/spec/template/spec/tolerations"),
        on("affinity", affinity, "/spec/template/spec/affinity"),
        on(
            "topologySpreadConstraints",
            spread,
            "/spec/template/spec/topologySpreadConstraints",
        ),
        on(
            "priorityClassName",
            json!("high"),
            "/spec/template/spec/priorityClassName",
        ),
    ]
}

/// Values that decide whether an object is there.
fn switches() -> Vec<(&'static str, Value, &'static str, usize)> {
    vec![
        ("rbac.create", json!(false), "RoleBinding", 0),
        ("rbac.userRoles", json!("None"), "ClusterRole", 1),
        ("serviceAccount.create", json!(false), "ServiceAccount", 0),
        (
            "podDisruptionBudget.create",
            json!(false),
            "PodDisruptionBudget",
            0,
        ),
        ("metrics.service.create", json!(true), "Service", 1),
        ("metrics.serviceMonitor.create", json!(true), "ServiceMonitor", 1),
        // It selects a Service: without one it would find nothing.
        ("metrics.serviceMonitor.create", json!(true), "Service", 1),
    ]
}

/// What a value needs to be seen or taken.
fn needed(key: &str) -> Value {
    let mut values = json!({"metrics": {"service": {}, "serviceMonitor": {}}, "serviceAccount": {}});
    if key.ends_with("service.annotations") {
        values["metrics"]["service"]["create"] = json!(true);
    }
    if key.starts_with("metrics.serviceMonitor.") && !key.ends_with(".create") {
        values["metrics"]["serviceMonitor"]["create"] = json!(true);
    }
    if key == "serviceAccount.create" {
        values["serviceAccount"]["name"] = json!("there");
    }
    values
}

/// `value` at a path with dots, and what it needs.
fn set(key: &str, value: &Value) -> Value {
    let mut values = needed(key);
    let mut place = &mut values;
    for name in key.split('.') {
        place = &mut place[name];
    }
    *place = value.clone();
    values
}

#[test]
fn every_value_is_seen_where_it_should_be() {
    for (key, value, kind, pointer, wanted) in effects() {
        let [without, with] = [needed(key), set(key, &value)].map(|values| rendered(&values));
        let seen = |rendered: &Rendered| rendered.only(kind).pointer(pointer).cloned();
        assert_ne!(
            seen(&without).as_ref(),
            Some(&wanted),
            "{key}: so it is by default"
        );
        assert_eq!(seen(&with).as_ref(), Some(&wanted), "{key}");
    }
    for (key, value, kind, count) in switches() {
        assert_ne!(
            rendered(&needed(key)).of_kind(kind).len(),
            count,
            "{key}: so it is by default"
        );
        assert_eq!(rendered(&set(key, &value)).of_kind(kind).len(), count, "{key}");
    }
}

#[test]
fn every_value_has_an_effect_that_is_looked_at() {
    let effects = effects();
    let mut looked_at: BTreeSet<&str> = effects.iter().map(|effect| effect.0).collect();
    let switches = switches();
    looked_at.extend(switches.iter().map(|switch| switch.0));
    assert_eq!(
        looked_at.into_iter().collect::<Vec<_>>(),
        keys(&leaves(&defaults()))
    );
}

#[test]
fn one_port_is_listened_on_probed_and_served() {
    let rendered = rendered(&json!({"metrics": {"port": 9000, "service": {"create": true}}}));
    assert_eq!(rendered.arguments().listen.port(), 9000);
    let container = rendered.container();
    assert_eq!(container["ports"][0]["name"], "metrics");
    for (probe, path) in [("readinessProbe", "/readyz"), ("livenessProbe", "/livez")] {
        assert_eq!(
            container[probe]["httpGet"],
            json!({"path": path, "port": "metrics"})
        );
    }
    let service = &rendered.only("Service")["spec"];
    assert_eq!(service["ports"][0]["port"], 9000);
    assert_eq!(service["ports"][0]["targetPort"], "metrics");
}

#[test]
fn two_operators_share_one_lease_and_are_taken_away_one_at_a_time() {
    let rendered = rendered(&json!({"replicaCount": 2}));
    assert_eq!(rendered.only("Deployment")["spec"]["replicas"], 2);
    assert_eq!(rendered.arguments().lease_name, OPERATOR);
    // Each is called as its pod is: a name for all would make them one holder.
    assert_eq!(rendered.arguments().identity, None);
    let budget = &rendered.only("PodDisruptionBudget")["spec"];
    assert_eq!(budget["maxUnavailable"], 1);
    assert_eq!(budget["unhealthyPodEvictionPolicy"], "AlwaysAllow");
}

/// *Guarantees*: whatever selects the operator's pods selects them, also with labels of the user.
#[test]
fn what_selects_pods_selects_these() {
    let values = json!({
        "podLabels": {"team": "a"},
        "metrics": {"service": {"create": true}, "serviceMonitor": {"create": true}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    });
    let rendered = rendered(&values);
    let labels = &rendered.only("Deployment")["spec"]["template"]["metadata"]["labels"];
    let spread = &rendered.pod()["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"];
    for selector in [
        &rendered.only("Deployment")["spec"]["selector"]["matchLabels"],
        &rendered.only("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        &rendered.only("Service")["spec"]["selector"],
        spread,
    ] {
        let selector = selector.as_object().unwrap();
        assert_eq!(selector.len(), 3, "{selector:?}");
        for (name, value) in selector {
            assert_eq!(&labels[name], value);
        }
    }
    let monitored = &rendered.only("ServiceMonitor")["spec"]["selector"]["matchLabels"];
    for (name, value) in monitored.as_object().unwrap() {
        assert_eq!(&rendered.only("Service")["metadata"]["labels"][name], value);
    }
}

/// *Guarantees*: no default leads to somebody's registry.
#[test]
fn images_have_no_host_unless_one_is_given() {
    let defaults = defaults();
    for image in ["image", "dataplaneImage"] {
        let repository = defaults[image]["repository"].as_str().unwrap();
        assert!(!repository.contains(['/', '.', ':']), "{repository}");
    }
    assert_eq!(
        rendered(&json!({})).pod()["containers"][0]["image"],
        format!("jevmetrics-operator:{}", env!("CARGO_PKG_VERSION"))
    );
}
