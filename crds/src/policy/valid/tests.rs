#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};

use super::*;

fn policy(spec: &Value) -> JevMetricsPolicy {
    serde_json::from_value(json!({
        "apiVersion": "jevmetrics.io/v1alpha1",
        "kind": "JevMetricsPolicy",
        "metadata": {"name": "jm", "namespace": "metrics", "uid": "u-1"},
        "spec": spec,
    }))
    .unwrap()
}

fn valid(spec: &Value) -> ValidPolicy {
    ValidPolicy::try_from(&policy(spec)).unwrap()
}

fn refused(spec: &Value) -> String {
    ValidPolicy::try_from(&policy(spec))
        .expect_err("it must be refused")
        .to_string()
}

const ENDPOINT: &str = "http://backend:4317";

#[test]
fn what_is_left_out_stays_out_of_the_settings() {
    let valid = valid(&json!({"export": {"endpoint": ENDPOINT}}));
    let settings = "export:\n  endpoint: http://backend:4317\n\
                    live:\n  object:\n    name: jm-live\n    namespace: metrics\nrevision: '1'\nschema: 1\n";
    assert_eq!(valid.settings(), settings);
    assert_eq!(valid.live(), "mode: Annotate\nschema: 1\n");
    assert_eq!((valid.replicas(), valid.secrets().len()), (None, 0));
    assert_eq!(valid.inference_endpoint(), "https://api.typesafe.ai");
}

#[test]
fn what_acts_at_once_is_not_in_the_settings_and_rolls_nothing() {
    let before = valid(&json!({"export": {"endpoint": ENDPOINT}}));
    let after = valid(&json!({
        "mode": "Reduce",
        "retention": {"keepThresholdPercent": 60, "protectedMetrics": ["a"]},
        "replicas": 5,
        "export": {"endpoint": ENDPOINT},
    }));
    assert_eq!(after.settings_digest(), before.settings_digest());
    assert_ne!(after.live(), before.live());
}

#[test]
fn a_new_revision_is_a_new_digest() {
    let digest = |revision: &str| {
        let spec = json!({"revision": revision, "export": {"endpoint": ENDPOINT}});
        valid(&spec).settings_digest().to_owned()
    };
    assert_ne!(digest("1"), digest("2"));
    assert_eq!(digest("2"), digest("2"));
}

#[test]
fn secrets_become_files_and_only_the_api_key_may_be_missing() {
    let valid = valid(&json!({
        "export": {
            "endpoint": ENDPOINT,
            "headers": [{"name": "x-tenant", "secretKeyRef": {"name": "backend", "key": "tenant"}}],
        },
        "inference": {"apiKeySecretRef": {"name": "jev", "key": "key"}},
        "routing": {"tls": {"secretName": "peers"}},
    }));
    let used: Vec<_> = valid
        .secrets()
        .iter()
        .map(|used| {
            let items: Vec<_> = used.items().map(|(key, file)| format!("{key}:{file}")).collect();
            format!(
                "{} {} {} {} {}",
                used.field(),
                used.directory(),
                used.name(),
                items.join(","),
                used.is_required()
            )
        })
        .collect();
    assert_eq!(
        used,
        [
            "spec.export.headers[0].secretKeyRef /etc/jevmetrics/header-0 backend tenant:value true",
            "spec.inference.apiKeySecretRef /etc/jevmetrics/api-key jev key:value false",
            "spec.routing.tls.secretName /etc/jevmetrics/peer-tls peers tls.crt:tls.crt,tls.key:tls.key,ca.crt:ca.crt true",
        ]
    );
    for line in [
        "file: /etc/jevmetrics/header-0/value",
        "file: /etc/jevmetrics/api-key/value",
        "caFile: /etc/jevmetrics/peer-tls/ca.crt",
    ] {
        assert!(valid.settings().contains(line), "{line} in {}", valid.settings());
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once_at_its_place_in_the_spec() {
    let message = refused(&json!({
        "replicas": 501,
        "revision": "-",
        "retention": {"keepThresholdPercent": 10, "protectedPrefixes": [""]},
        "export": {"endpoint": "backend:4317", "headers": [
            {"name": "host", "secretKeyRef": {"name": "a", "key": "b"}},
        ]},
        "inference": {"workers": 0},
        "template": {"image": "a b", "labels": {"jevmetrics.io/policy": "x"}},
    }));
    for place in [
        "spec.replicas: must",
        "spec.revision: must",
        "spec.retention.protectedPrefixes[0]: must",
        "spec.export.endpoint: must",
        "spec.export.headers[0].name: must",
        "spec.inference.workers: must",
        "spec.template.image: must",
        "spec.template.labels: must",
    ] {
        assert!(message.contains(place), "{place} in {message}");
    }
}

#[test]
fn quantities_may_be_written_as_numbers() {
    let spec = json!({"export": {"endpoint": ENDPOINT}, "template": {"resources": {"limits": {"cpu": 2, "memory": "1Gi"}}}});
    let limits = valid(&spec).template().resources.clone().unwrap().limits.unwrap();
    assert_eq!(limits["cpu"].0, "2");
}

#[test]
fn lists_that_are_too_long_for_an_object_are_refused() {
    let names: Vec<_> = (0..5_000).map(|number| format!("{number:0>250}")).collect();
    let spec = json!({"export": {"endpoint": ENDPOINT}, "retention": {"protectedMetrics": names}});
    assert!(refused(&spec).contains("must have at most 1048576"));
}
