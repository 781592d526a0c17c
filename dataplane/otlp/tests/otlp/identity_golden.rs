//! Identities are the key of shared state: these digests are frozen. If one changes, all assessments of a
//! running group are lost; that needs a new `identity::VERSION` and new vectors, on purpose.

use jevmetrics_otlp::identity::{IdentityMode, VERSION};
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use crate::build::{
    Request, array, attribute, attributes, exponential_histogram, full, gauge, histogram, in_resource,
    in_scope, int, map, metric, request, resource, scope, simple, sum, summary, text, value,
};
use crate::read::{complete, context, only};

fn bare(metric: opentelemetry_proto::tonic::metrics::v1::Metric) -> Request {
    request(vec![in_resource(None, vec![in_scope(None, vec![metric])])])
}

fn with_attribute(attribute: opentelemetry_proto::tonic::common::v1::KeyValue) -> Request {
    let resource = resource(vec![attribute]);
    request(vec![in_resource(
        resource,
        vec![in_scope(None, vec![simple("m")])],
    )])
}

fn complete_vectors() -> Vec<(&'static str, Request, &'static str)> {
    let nested = map(vec![
        attribute("list", array(vec![text("a"), int(1), map(vec![]), array(vec![])])),
        attribute("empty", value(Value::StringValue(String::new()))),
    ]);
    let empty_resource = in_resource(resource(vec![]), vec![in_scope(None, vec![simple("m")])]);
    let empty_scope = in_resource(None, vec![in_scope(scope(""), vec![simple("m")])]);
    vec![
        (
            "gauge",
            bare(simple("m")),
            "79ec2f75e2f1a0eca5648c14c0c8d3f4eaca51ab",
        ),
        (
            "sum, cumulative, monotonic",
            bare(metric("m", sum(2, true))),
            "6a395c63934e9721b840db8093c745ea10cf3464",
        ),
        (
            "sum, delta",
            bare(metric("m", sum(1, false))),
            "55672eae3a4363c50c77f40df5c0030befe65e14",
        ),
        (
            "sum, temporality of the future",
            bare(metric("m", sum(-3, false))),
            "a360e1db94627844a3a3575a4487617862b5df7b",
        ),
        (
            "histogram",
            bare(metric("m", histogram(1))),
            "3f7804ff5b8816dfba5e87d48e5964679a3417bb",
        ),
        (
            "exponential histogram",
            bare(metric("m", exponential_histogram(2))),
            "7132708f46296066ff819f2e3dac9c681a1051a9",
        ),
        (
            "summary",
            bare(metric("m", summary())),
            "574b65138fa67ec4e8d8f57945c0119f78c8df98",
        ),
        (
            "no points",
            bare(metric("m", gauge(vec![]))),
            "79ec2f75e2f1a0eca5648c14c0c8d3f4eaca51ab",
        ),
        (
            "a name beyond ASCII",
            bare(simple("größe.単位")),
            "a5a4caf1d5518af96ceb5cf7b9ae54110b3ee86e",
        ),
        (
            "empty resource",
            request(vec![empty_resource]),
            "3f47a4ad3701e211260c7a12e0b6cd406eed0d68",
        ),
        (
            "empty scope",
            request(vec![empty_scope]),
            "c3a62d457e5e873f7b188f3e41c1e0c46c3bce1a",
        ),
        (
            "text",
            with_attribute(attribute("k", text("1"))),
            "5fe84c57da628022c61165304009f9c1fc58ec8d",
        ),
        (
            "bool",
            with_attribute(attribute("k", value(Value::BoolValue(true)))),
            "06e6f398fbcc8f1782c98277b2adb8ee819de876",
        ),
        (
            "int",
            with_attribute(attribute("k", int(1))),
            "2c8f0cb1eb3e28e84a9659fb2fe818829d44731d",
        ),
        (
            "double",
            with_attribute(attribute("k", value(Value::DoubleValue(1.0)))),
            "2592bb286d2c1bcc6abb9352e1c33e0e9b4fa63a",
        ),
        (
            "bytes",
            with_attribute(attribute("k", value(Value::BytesValue(b"1".to_vec())))),
            "f1f4d60a5a3ad57f94c95f0f9fee2d01abb09069",
        ),
        (
            "array and map",
            with_attribute(attribute("k", nested)),
            "90e4bb164bdb0e95196c1204464313cf84e05d84",
        ),
        (
            "absent value",
            with_attribute(attribute("k", None)),
            "5a8f01161cfe98de04672cc4c7910f64bc7b5c0a",
        ),
        (
            "empty value",
            with_attribute(attribute(
                "k",
                Some(opentelemetry_proto::tonic::common::v1::AnyValue { value: None }),
            )),
            "68d79ef31cdcf8a84741f69edc9f4c58def1d1da",
        ),
        ("everything", full(), "1bacb336c3a7730204aba2917c6a0a77591a7a75"),
    ]
}

#[test]
fn complete_identities_are_frozen() {
    let vectors = complete_vectors();
    let actual: Vec<String> = vectors
        .iter()
        .map(|(name, request, _)| format!("{} {name}", complete(request)))
        .collect();
    let expected: Vec<String> = vectors
        .iter()
        .map(|(name, _, digest)| format!("{digest} {name}"))
        .collect();
    assert_eq!(actual.join("\n"), expected.join("\n"));
}

#[test]
fn context_identities_are_frozen() {
    let allowed = IdentityMode::Context(context(&["service.name", "region"]));
    let other = IdentityMode::Context(context(&["cloud.region"]));
    let nothing = bare(simple("m"));
    let actual = [
        only(&full(), &allowed),
        only(&full(), &other),
        only(&nothing, &allowed),
    ];
    let actual: Vec<String> = actual
        .into_iter()
        .map(|identity| identity.unwrap().to_string())
        .collect();
    assert_eq!(
        actual.join("\n"),
        [
            "5ec6dfcccc44e44baadf59a08175812d686ca9e9",
            "721fef891fd763614dce888f8b03cb4c93e73cf2",
            "4e83fb1ae8d3ae686c26494b8246609135e6c2ef",
        ]
        .join("\n")
    );
}

/// The encoding by hand, so that the vectors are not the only witness.
#[test]
fn the_canonical_encoding_is_what_is_hashed() {
    fn number(out: &mut Vec<u8>, number: usize) {
        out.extend_from_slice(&(number as u64).to_le_bytes());
    }
    fn blob(out: &mut Vec<u8>, text: &str) {
        number(out, text.len());
        out.extend_from_slice(text.as_bytes());
    }
    let mut out = vec![1, 1]; // all of the resource; it is there
    number(&mut out, 3);
    for (key, value) in [("host.name", "a1"), ("region", "eu"), ("service.name", "shop")] {
        blob(&mut out, key);
        out.push(2); // text
        blob(&mut out, value);
    }
    blob(&mut out, "https://opentelemetry.io/schemas/1.20.0");
    out.push(1); // the scope is there
    blob(&mut out, "library");
    blob(&mut out, "1.2.3");
    number(&mut out, 2);
    for (key, value) in [("mode", "fast"), ("short", "yes")] {
        blob(&mut out, key);
        out.push(2);
        blob(&mut out, value);
    }
    blob(&mut out, "https://opentelemetry.io/schemas/1.21.0");
    blob(&mut out, "http.server.duration");
    blob(&mut out, "how long requests take");
    blob(&mut out, "ms");
    out.push(9); // histogram
    out.push(1);
    out.extend_from_slice(&2_i32.to_le_bytes());
    out.push(0); // no monotonicity

    let mut digest = [0; 20];
    let mut hasher = blake3::Hasher::new_derive_key(VERSION);
    hasher.update(&out).finalize_xof().fill(&mut digest);
    assert_eq!(complete(&full()).as_bytes(), &digest);
}

#[test]
fn an_identity_is_shown_as_forty_hex_digits() {
    let mut request = full();
    request.resource_metrics[0].resource = Some(resource(attributes(&[])));
    let shown = complete(&request).to_string();
    assert_eq!(shown.len(), 40);
    assert!(shown.bytes().all(|byte| byte.is_ascii_hexdigit()), "{shown}");
}
