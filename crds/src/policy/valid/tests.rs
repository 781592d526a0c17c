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
    assert_eq!(valid.live(0), "mode: Annotate\nschema: 1\n");
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
    assert_ne!(after.live(0), before.live(0));
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

fn shares(coordination: &Value) -> ValidPolicy {
    valid(&json!({"export": {"endpoint": ENDPOINT}, "coordination": coordination}))
}

#[test]
fn where_redis_is_stands_in_the_settings_and_the_budget_in_the_live_object() {
    let least = shares(&json!({"host": "redis"}));
    let settings = "coordination:\n  host: redis\n  namespace: metrics/jm/";
    assert!(least.settings().contains(settings), "{}", least.settings());
    let live = "coordination:\n  generation: 3\n  leaseTTLSeconds: 10\n  maxInFlight: 4\n  requestsPerSecond: 10\n\
                mode: Annotate\nschema: 1\n";
    assert_eq!(least.live(3), live, "defaults are written: pods may know others");

    let full = shares(&json!({
        "namespace": "team/a", "host": "fd00::1", "port": 6380, "database": 2, "user": "jm",
        "passwordSecretRef": {"name": "redis", "key": "password"},
        "tls": {"caSecretRef": {"name": "redis", "key": "ca"}, "clientSecretName": "shown", "serverName": "redis.a"},
        "timeoutMilliseconds": 500, "leaseTTLSeconds": 20, "maxInFlight": 8, "requestsPerSecond": 30,
    }));
    let settings = "coordination:\n  database: 2\n  host: fd00::1\n  namespace: team/a\n  password:\n    \
                    file: /etc/jevmetrics/coordination-password/value\n  port: 6380\n  timeoutMilliseconds: 500\n  \
                    tls:\n    caFile: /etc/jevmetrics/coordination-ca/value\n    \
                    certificateFile: /etc/jevmetrics/coordination-tls/tls.crt\n    \
                    keyFile: /etc/jevmetrics/coordination-tls/tls.key\n    serverName: redis.a\n  user: jm\nexport:";
    assert!(full.settings().contains(settings), "{}", full.settings());
    let live = "coordination:\n  leaseTTLSeconds: 20\n  maxInFlight: 8\n  requestsPerSecond: 30\n";
    assert!(full.live(0).starts_with(live), "{}", full.live(0));
    let secrets: Vec<_> = full
        .secrets()
        .iter()
        .map(|used| (used.field(), used.is_required()))
        .collect();
    let wanted = [
        ("spec.coordination.passwordSecretRef", false),
        ("spec.coordination.tls.caSecretRef", true),
        ("spec.coordination.tls.clientSecretName", true),
    ];
    assert_eq!(secrets, wanted);
}

#[test]
fn a_namespace_that_is_not_named_is_one_of_this_policy_alone() {
    let spec = json!({"export": {"endpoint": ENDPOINT}, "coordination": {"host": "redis"}});
    let of = |name: &str, uid: Option<&str>| {
        let mut policy = policy(&spec);
        policy.metadata.name = Some(name.to_owned());
        policy.metadata.uid = uid.map(str::to_owned);
        let valid = ValidPolicy::try_from(&policy).unwrap();
        let sharing = valid.sharing().unwrap();
        assert!(sharing.counts());
        sharing.namespace().to_owned()
    };
    let one = of("jm", Some("u-1"));
    let digest = one.strip_prefix("metrics/jm/").unwrap();
    assert!(
        digest.len() == 8 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{one}"
    );
    assert_eq!(of("jm", Some("u-1")), one);
    assert_ne!(
        of("jm", Some("u-2")),
        one,
        "a policy of the same name that was made anew"
    );
    assert_ne!(of("other", Some("u-1")), one);
    assert_eq!(of("jm", None), "metrics/jm", "in no cluster");

    let named = shares(&json!({"host": "redis", "namespace": "team"}));
    let sharing = named.sharing().unwrap();
    assert_eq!((sharing.namespace(), sharing.counts()), ("team", false));
}

#[test]
fn what_is_wrong_with_coordination_is_said_at_its_place() {
    for (coordination, place) in [
        (json!({"host": "redis:6379"}), "host"),
        (json!({"host": "redis", "namespace": "a}"}), "namespace"),
        (json!({"host": "redis", "port": 0}), "port"),
        (json!({"host": "redis", "database": -1}), "database"),
        (json!({"host": "redis", "user": "jm"}), "passwordSecretRef"),
        (
            json!({"host": "redis", "timeoutMilliseconds": 9}),
            "timeoutMilliseconds",
        ),
        (json!({"host": "redis", "leaseTTLSeconds": 0}), "leaseTTLSeconds"),
        (json!({"host": "redis", "leaseTTLSeconds": 5}), "leaseTTLSeconds"),
        (json!({"host": "redis", "maxInFlight": 1001}), "maxInFlight"),
        (
            json!({"host": "redis", "requestsPerSecond": 0}),
            "requestsPerSecond",
        ),
        (
            json!({"host": "redis", "tls": {"serverName": "10.0.0.1"}}),
            "tls.serverName",
        ),
    ] {
        let spec = json!({"export": {"endpoint": ENDPOINT}, "coordination": coordination});
        let message = refused(&spec);
        let wanted = format!("spec.coordination.{place}: must ");
        assert!(message.starts_with(&wanted), "{coordination}: {message}");
    }
}

#[test]
fn the_budget_of_questions_is_the_shared_one_if_there_is_one() {
    let inference = json!({"requestsPerSecondPerReplica": 3, "scoreTTLSeconds": 100});
    let alone = valid(&json!({"export": {"endpoint": ENDPOINT}, "inference": inference}));
    let budget = alone.question_budget();
    assert_eq!((budget.instruments(), budget.is_shared), (300, false));
    let spec = json!({
        "export": {"endpoint": ENDPOINT},
        "inference": inference,
        "coordination": {"host": "redis", "requestsPerSecond": 7},
    });
    let budget = *valid(&spec).question_budget();
    assert_eq!((budget.instruments(), budget.is_shared), (700, true));
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
