//! Every rule of the policy: what it refuses, in its words, and the boundary that it lets pass. The API server and
//! `check` judge the same cases.

use jevmetrics_api::policy::{JevMetricsPolicy, definition};
use jevmetrics_operator::documents;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::stage::{Stage, plane};

/// A policy in which everything is given, all of it right.
pub(crate) fn full() -> Value {
    json!({
        "mode": "Reduce",
        "revision": "r.2_b-C",
        "replicas": 3,
        "ingest": {
            "maxRequestBytes": 1_048_576,
            "maxUnpackedBytes": 2_097_152,
            "maxConnections": 64,
            "connectionAgeSeconds": 60,
            "service": {"type": "NodePort", "annotations": {"example.com/kind": "internal"}},
        },
        "export": {
            "endpoint": "http://backend.example:4318/otlp/v1/metrics",
            "protocol": "HTTP",
            "compression": "Gzip",
            "timeoutMilliseconds": 5000,
            "maxRequestBytes": 2_097_152,
            "headers": [
                {"name": "authorization", "secretKeyRef": {"name": "backend", "key": "token"}},
                {"name": "x-tenant", "secretKeyRef": {"name": "backend", "key": "tenant"}},
            ],
        },
        "inference": {
            "baseURL": "https://jev.example/api",
            "model": "jev-2",
            "apiKeySecretRef": {"name": "jev", "key": "api-key"},
            "identity": "Context",
            "timeoutMilliseconds": 2000,
            "workers": 4,
            "queueSize": 512,
            "cacheSize": 20_000,
            "scoreTTLSeconds": 600,
            "requestsPerSecondPerReplica": 20,
            "burst": 5,
            "contextAttributes": ["service.name"],
        },
        "retention": {
            "keepThresholdPercent": 60,
            "dropThresholdPercent": 40,
            "protectedMetrics": ["up", "requests"],
            "protectedPrefixes": ["slo_"],
        },
        "coordination": {
            "host": "redis.example",
            "port": 6380,
            "database": 1,
            "user": "jevmetrics",
            "passwordSecretRef": {"name": "redis", "key": "password"},
            "tls": {
                "caSecretRef": {"name": "redis", "key": "ca"},
                "clientSecretName": "redis-client",
                "serverName": "redis.internal",
            },
            "timeoutMilliseconds": 500,
            "leaseTTLSeconds": 15,
            "maxInFlight": 8,
            "requestsPerSecond": 20,
        },
        "routing": {"tls": {"secretName": "peers"}},
        "template": {
            "image": "registry.example/dataplane:2",
            "imagePullSecrets": [{"name": "pull"}],
            "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "256Mi"}},
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 1,
                "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
            }]}},
            "topologySpreadConstraints": [{
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
            }],
            "priorityClassName": "system-cluster-critical",
            "labels": {"team": "platform"},
            "annotations": {"example.com/note": "hello"},
        },
    })
}

/// The message that is refused with; none if it passes.
type Case = (&'static str, Value, Option<&'static str>);

const ENDPOINT: &str =
    "spec.export.endpoint: must be a URL of the form http://host:port/path, without user, query and fragment";
const BASE_URL: &str = "spec.inference.baseURL: must be a URL of the form http://host:port/path, without user, query and fragment";
const NAME: &str = "metadata.name: must have at most 36 characters of a-z 0-9 -, begin with a letter and end with a \
                    letter or digit";
const REVISION: &str =
    "spec.revision: must have characters of A-Z a-z 0-9 . _ - only, and begin and end with a letter or digit";
const HEADER: &str = "spec.export.headers.name: must be an HTTP header name in lower case";
const HOST: &str =
    "spec.coordination.host: must be a DNS name of at most 253 bytes or an address, without a port";
const PASSWORD: &str = "spec.coordination.passwordSecretRef: must be given beside user";
const LEASE: &str = "spec.coordination.leaseTTLSeconds: must be more than inference.timeoutMilliseconds and twice \
                     coordination.timeoutMilliseconds together (by default 10 s, 3000 ms and 1000 ms)";
const OWNED_HEADER: &str =
    "spec.export.headers.name: must not be a header that OTLP, gRPC or HTTP sets itself";

/// A place in the policy (JSON pointer), what is put there, and what comes of it.
fn cases() -> Vec<Case> {
    let header = |name: &str| json!([{"name": name, "secretKeyRef": {"name": "s", "key": "k"}}]);
    let defaults_and_lease = |seconds: u32| {
        json!({
            "export": {"endpoint": "http://a:4317"},
            "coordination": {"host": "redis", "leaseTTLSeconds": seconds},
        })
    };
    vec![
        ("/metadata/name", json!("a".repeat(36)), None),
        ("/metadata/name", json!("a".repeat(37)), Some(NAME)),
        ("/metadata/name", json!("a.b"), Some(NAME)),
        ("/metadata/name", json!("1a"), Some(NAME)),
        ("/spec/revision", json!("1"), None),
        ("/spec/revision", json!(format!("a{}z", ".".repeat(61))), None),
        ("/spec/revision", json!("-1"), Some(REVISION)),
        ("/spec/revision", json!("1 2"), Some(REVISION)),
        (
            "/spec/retention",
            json!({"dropThresholdPercent": 50, "keepThresholdPercent": 50}),
            None,
        ),
        (
            "/spec/retention",
            json!({"dropThresholdPercent": 51, "keepThresholdPercent": 50}),
            Some(
                "spec.retention.dropThresholdPercent: must be at most keepThresholdPercent (by default 30 and 70)",
            ),
        ),
        ("/spec/retention", json!({"dropThresholdPercent": 70}), None),
        (
            "/spec/retention",
            json!({"dropThresholdPercent": 71}),
            Some(
                "spec.retention.dropThresholdPercent: must be at most keepThresholdPercent (by default 30 and 70)",
            ),
        ),
        (
            "/spec/retention",
            json!({"keepThresholdPercent": 29}),
            Some(
                "spec.retention.dropThresholdPercent: must be at most keepThresholdPercent (by default 30 and 70)",
            ),
        ),
        ("/spec/ingest", json!({"maxRequestBytes": 33_554_432}), None),
        (
            "/spec/ingest",
            json!({"maxRequestBytes": 33_554_433}),
            Some(
                "spec.ingest.maxUnpackedBytes: must be at least maxRequestBytes (by default 33554432 and 16777216)",
            ),
        ),
        (
            "/spec/ingest",
            json!({"maxUnpackedBytes": 16_777_215}),
            Some(
                "spec.ingest.maxUnpackedBytes: must be at least maxRequestBytes (by default 33554432 and 16777216)",
            ),
        ),
        (
            "/spec/ingest/service/annotations",
            json!({"jevmetrics.io/a": "b"}),
            Some("spec.ingest.service.annotations: must have no key of jevmetrics.io/"),
        ),
        ("/spec/export/endpoint", json!("http://a"), None),
        (
            "/spec/export/endpoint",
            json!("http://[::1]:4318/v1/metrics"),
            None,
        ),
        ("/spec/export/endpoint", json!("a:4317"), Some(ENDPOINT)),
        ("/spec/export/endpoint", json!("ftp://a:4317"), Some(ENDPOINT)),
        (
            "/spec/export/endpoint",
            json!("http://user:secret@a:4317"),
            Some(ENDPOINT),
        ),
        (
            "/spec/export/endpoint",
            json!("http://a:4317?token=x"),
            Some(ENDPOINT),
        ),
        ("/spec/export/endpoint", json!("http://:4317"), Some(ENDPOINT)),
        ("/spec/export/endpoint", json!("http://a:65535"), None),
        ("/spec/export/endpoint", json!("http://a:65536"), Some(ENDPOINT)),
        ("/spec/export/endpoint", json!("http://a:0"), Some(ENDPOINT)),
        (
            "/spec/export",
            json!({"endpoint": "http://a:4317/", "protocol": "GRPC"}),
            None,
        ),
        (
            "/spec/export",
            json!({"endpoint": "http://a:4317/v1", "protocol": "GRPC"}),
            Some("spec.export.endpoint: must have no path with protocol GRPC"),
        ),
        (
            "/spec/export",
            json!({"endpoint": "http://a:4317", "tls": {}}),
            Some("spec.export.tls: must not be given with an http:// endpoint: it would not be used"),
        ),
        ("/spec/export/headers", header("x-tenant"), None),
        ("/spec/export/headers", header("X-Tenant"), Some(HEADER)),
        ("/spec/export/headers", header("x tenant"), Some(HEADER)),
        ("/spec/export/headers", header("content-type"), Some(OWNED_HEADER)),
        ("/spec/export/headers", header("grpc-timeout"), Some(OWNED_HEADER)),
        (
            "/spec/export/headers",
            header("x-bin"),
            Some("spec.export.headers.name: must not end in -bin: gRPC takes such headers as binary"),
        ),
        ("/spec/inference/baseURL", json!("http://jev:8080"), None),
        ("/spec/inference/baseURL", json!("jev:8080"), Some(BASE_URL)),
        (
            "/spec/inference/baseURL",
            json!("https://key@jev"),
            Some(BASE_URL),
        ),
        (
            "/spec/inference",
            json!({"baseURL": "http://jev", "tls": {"caSecretRef": {"name": "a", "key": "b"}}}),
            Some("spec.inference.tls: must not be given with an http:// baseURL: it would not be used"),
        ),
        ("/spec/coordination/host", json!("redis"), None),
        (
            "/spec/coordination/host",
            json!("Redis.Shop.svc.cluster.local"),
            None,
        ),
        ("/spec/coordination/host", json!("10.0.0.1"), None),
        ("/spec/coordination/host", json!("fd00::1"), None),
        ("/spec/coordination/host", json!("::1"), None),
        ("/spec/coordination/host", json!("::ffff:10.0.0.1"), None),
        ("/spec/coordination/host", json!("a".repeat(63)), None),
        ("/spec/coordination/host", json!("a".repeat(64)), Some(HOST)),
        ("/spec/coordination/host", json!("redis:6379"), Some(HOST)),
        ("/spec/coordination/host", json!("abc:6379"), Some(HOST)),
        ("/spec/coordination/host", json!("[::1]"), Some(HOST)),
        ("/spec/coordination/host", json!("redis://redis"), Some(HOST)),
        ("/spec/coordination/host", json!("redis."), Some(HOST)),
        ("/spec/coordination/host", json!("-redis"), Some(HOST)),
        ("/spec/coordination/host", json!("user@redis"), Some(HOST)),
        (
            "/spec/coordination",
            json!({"host": "redis", "user": "a", "passwordSecretRef": {"name": "a", "key": "b"}}),
            None,
        ),
        (
            "/spec/coordination",
            json!({"host": "redis", "user": "a"}),
            Some(PASSWORD),
        ),
        (
            "/spec/coordination",
            json!({"host": "redis", "passwordSecretRef": {"name": "a", "key": "b"}}),
            None,
        ),
        // A question may take 2 s here.
        (
            "/spec/coordination",
            json!({"host": "redis", "leaseTTLSeconds": 5}),
            None,
        ),
        (
            "/spec/coordination",
            json!({"host": "redis", "leaseTTLSeconds": 4}),
            Some(LEASE),
        ),
        (
            "/spec/coordination",
            json!({"host": "redis", "timeoutMilliseconds": 3999}),
            None,
        ),
        (
            "/spec/coordination",
            json!({"host": "redis", "timeoutMilliseconds": 4000}),
            Some(LEASE),
        ),
        ("/spec", defaults_and_lease(6), None),
        ("/spec", defaults_and_lease(5), Some(LEASE)),
        ("/spec/inference", json!({"timeoutMilliseconds": 13_999}), None),
        (
            "/spec/inference",
            json!({"timeoutMilliseconds": 14_000}),
            Some(LEASE),
        ),
        ("/spec/template/labels", json!({"a.example/b": "c"}), None),
        (
            "/spec/template/labels",
            json!({"jevmetrics.io/policy": "x"}),
            Some("spec.template.labels: must have no key of jevmetrics.io/ or app.kubernetes.io/"),
        ),
        (
            "/spec/template/labels",
            json!({"app.kubernetes.io/name": "x"}),
            Some("spec.template.labels: must have no key of jevmetrics.io/ or app.kubernetes.io/"),
        ),
        (
            "/spec/template/annotations",
            json!({"jevmetrics.io/a": "x"}),
            Some("spec.template.annotations: must have no key of jevmetrics.io/"),
        ),
    ]
}

fn policy(case: &Case) -> Value {
    let mut policy = json!({
        "apiVersion": "jevmetrics.io/v1alpha1",
        "kind": "JevMetricsPolicy",
        "metadata": {"name": "jm", "namespace": "default"},
        "spec": full(),
    });
    *policy.pointer_mut(case.0).unwrap() = case.1.clone();
    policy
}

#[tokio::test]
async fn the_api_server_refuses_what_breaks_a_rule_in_its_words_and_takes_the_boundary() {
    let stage = Stage::new("rules").await;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    for case in cases() {
        let mut policy: JevMetricsPolicy = serde_json::from_value(policy(&case)).unwrap();
        policy.metadata.namespace = None;
        let answer = stage.policies.create(&dry, &policy).await;
        match (case.2, answer) {
            (None, Ok(_)) => {}
            (Some(message), Err(kube::Error::Api(status))) => {
                assert_eq!(status.code, 422, "{case:?}");
                assert!(status.message.contains(message), "{case:?}: {}", status.message);
            }
            (_, answer) => panic!("{case:?}: {answer:?}"),
        }
    }
}

#[test]
fn check_refuses_what_breaks_a_rule_at_the_same_field_and_takes_the_boundary() {
    for case in cases() {
        let text = serde_yaml::to_string(&policy(&case)).unwrap();
        let document = documents::parse(&text, "policy.yaml").remove(0);
        let Some(message) = case.2 else {
            assert!(document.policy.is_ok(), "{case:?}: {document:?}");
            continue;
        };
        let error = document.policy.expect_err(message).join("\n");
        // Lists are named with the place in them.
        let field = message.split_once(": ").unwrap().0;
        let field = field.replace("headers.name", "headers[0].name");
        assert!(error.contains(&format!("{field}: must")), "{case:?}: {error}");
        assert!(
            !error.contains("secret@"),
            "what may be a secret is not shown: {error}"
        );
    }
}

#[test]
fn every_rule_of_the_definition_has_a_case_that_breaks_it() {
    fn messages(schema: &Value, found: &mut Vec<String>) {
        match schema {
            Value::Object(fields) => {
                let rules = fields.get("x-kubernetes-validations").and_then(Value::as_array);
                found.extend(
                    rules
                        .into_iter()
                        .flatten()
                        .map(|rule| rule["message"].as_str().unwrap().to_owned()),
                );
                fields.values().for_each(|field| messages(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| messages(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    messages(&serde_json::to_value(definition().unwrap()).unwrap(), &mut found);
    let cases = cases();
    for message in found {
        assert!(
            cases.iter().any(|case| case.2 == Some(message.as_str())),
            "{message}"
        );
    }
}

/// *Guarantees*: bounds, choices and unknown fields are refused by the server with the field's path.
#[tokio::test]
async fn bounds_choices_and_unknown_fields_are_named_by_their_path() {
    let stage = Stage::new("bounds").await;
    for (patch, path) in [
        (json!({"replicas": 501}), "spec.replicas"),
        (json!({"replicas": -1}), "spec.replicas"),
        (json!({"mode": "reduce"}), "spec.mode"),
        (
            json!({"retention": {"keepThresholdPercent": 101}}),
            "spec.retention.keepThresholdPercent",
        ),
        (json!({"inference": {"burst": 0}}), "spec.inference.burst"),
        (json!({"export": {"endpoint": ""}}), "spec.export.endpoint"),
        (
            json!({"retention": {"protectedMetrics": [""]}}),
            "spec.retention.protectedMetrics[0]",
        ),
        (
            json!({"retention": {"protectedMetrics": ["a", "a"]}}),
            "spec.retention.protectedMetrics",
        ),
        (
            json!({"inference": {"apiKeySecretRef": {"name": "a"}}}),
            "spec.inference.apiKeySecretRef.key",
        ),
        (
            json!({"retention": {"keepTreshold": 1}}),
            "spec.retention.keepTreshold",
        ),
        (json!({"coordination": {}}), "spec.coordination.host"),
        (
            json!({"coordination": {"host": "a", "namespace": "a b"}}),
            "spec.coordination.namespace",
        ),
        (
            json!({"coordination": {"host": "a", "maxInFlight": 1001}}),
            "spec.coordination.maxInFlight",
        ),
        (
            json!({"coordination": {"host": "a", "leaseTTLSeconds": 3601}}),
            "spec.coordination.leaseTTLSeconds",
        ),
        (
            json!({"coordination": {"host": "a", "requestsPerSecond": 0}}),
            "spec.coordination.requestsPerSecond",
        ),
        (
            json!({"coordination": {"host": "a", "password": "b"}}),
            "spec.coordination.password",
        ),
        (json!({"replica": 1}), "spec.replica"),
    ] {
        let mut spec = json!({"export": {"endpoint": "http://a:4317"}});
        for (field, value) in patch.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let error = stage.try_apply("jm", &spec).await.expect_err(path).to_string();
        let last = path.rsplit('.').next().unwrap();
        assert!(
            error.contains(path) || error.contains(&format!(".{last}")),
            "{path}: {error}"
        );
    }
}

/// *Scenario*: the definition of an older release lets something in that breaks a rule.
/// *Guarantees*: the API server takes our definition anew as it is (server-side apply, nothing changes).
#[tokio::test]
async fn the_definition_can_be_applied_again_without_a_change() {
    let (plane, _) = plane().await;
    let definitions: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(plane.admin().await.unwrap());
    let definition = definition().unwrap();
    let name = definition.metadata.name.clone().unwrap();
    let params = PatchParams::apply("again").force();
    let once = definitions
        .patch(&name, &params, &Patch::Apply(&definition))
        .await
        .unwrap();
    let twice = definitions
        .patch(&name, &params, &Patch::Apply(&definition))
        .await
        .unwrap();
    assert_eq!(once.metadata.resource_version, twice.metadata.resource_version);
}
