//! What the tests of this room share.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use jevmetrics_otlp::identity::{Identity, IdentityMode, identify};
use jevmetrics_otlp::summary::{DataType, Summary};
use jevmetrics_otlp::{Keys, Walk};

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

/// The identity of a gauge with this name, without resource and scope.
pub(super) fn identity(name: &str) -> Identity {
    let field = |tag: u8, payload: &[u8]| {
        let length = u8::try_from(payload.len()).unwrap_or(u8::MAX);
        [&[tag, length], payload].concat()
    };
    let metric = [field(0x0a, name.as_bytes()), field(0x2a, b"")].concat();
    let request = field(0x0a, &field(0x12, &field(0x12, &metric)));
    let mut walk = Walk::default();
    walk.read(&request, &Keys::new([0; 6])).unwrap();
    identify(&request, &walk, 0, &IdentityMode::Complete)
        .unwrap()
        .unwrap()
}
