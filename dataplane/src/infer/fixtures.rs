//! What the tests of this room share.
#![allow(clippy::unwrap_used)]

use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use jevmetrics_otlp::summary::{DataType, Summary};

/// A counter with everything that a summary can hold.
pub(super) fn summary() -> Summary {
    Summary {
        name: "http.server.errors".into(),
        description: "Requests that ended in an \"internal\" error".into(),
        unit: "{request}".into(),
        data_type: DataType::Sum,
        temporality: Some(2),
        monotonic: Some(true),
        data_points: 12,
        attribute_sets: 6,
        attribute_keys: vec!["http.route".into(), "server.address".into()],
        resource: vec![
            ("k8s.namespace.name".into(), "shop".into()),
            ("service.name".into(), "checkout".into()),
        ],
        scope_name: "io.opentelemetry.http".into(),
        scope_version: "2.1".into(),
    }
}

/// A good reply, as the API sends it.
pub(super) fn reply() -> Value {
    json!({
        "model": "jev-1.13.0",
        "answers": {
            "relevance": {"type": "noul", "noul": 0.91},
            "redundancy": {"type": "noul", "noul": 0.07},
            "keep": {"type": "noul", "noul": 0.81},
            "action": {
                "type": "choice",
                "choice": "keep",
                "confidence": 0.76,
                "probabilities": {"drop": 0.06, "keep": 0.84, "reduce": 0.1}
            }
        },
        "usage": {"input_tokens": 402, "output_tokens": 74}
    })
}

/// The value of the line of the scrape that begins with `series`.
pub(super) fn metric(registry: &Registry, series: &str) -> Option<f64> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}
