//! Policies that scenarios use.

use serde_json::{Value, json};

/// A policy as it is applied.
pub(crate) fn named(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "jevmetrics.io/v1alpha1",
        "kind": "JevMetricsPolicy",
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// The least that can be written.
pub(crate) fn minimal() -> Value {
    json!({"export": {"endpoint": "http://sink.invalid:4317"}})
}

/// With so many replicas.
pub(crate) fn with_replicas(replicas: i32) -> Value {
    json!({"replicas": replicas, "export": {"endpoint": "http://sink.invalid:4317"}})
}
