//! What has no identity that can be trusted, by cause. Such an instrument is kept and never asked about.

use jevmetrics_otlp::identity::{IdentityMode, InvalidIdentity, MAX_VALUES, identify};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use prost::Message;

use crate::build::{
    Request, array, attribute, full, in_resource, in_scope, map, metric, request, resource, simple, text,
    value,
};
use crate::read::{context, only, walk};
use crate::wire::{cat, len};

fn in_both_modes(request: &Request) -> InvalidIdentity {
    let complete = only(request, &IdentityMode::Complete).unwrap_err();
    let context = only(request, &IdentityMode::Context(context(&["service.name"]))).unwrap_err();
    assert_eq!(complete, context);
    complete
}

/// Invalid whether the resource says it or the scope.
fn of_attributes(attributes: Vec<KeyValue>) -> InvalidIdentity {
    let mut on_resource = full();
    on_resource.resource_metrics[0].resource = Some(resource(attributes.clone()));
    let mut on_scope = full();
    on_scope.resource_metrics[0].scope_metrics[0]
        .scope
        .as_mut()
        .unwrap()
        .attributes = attributes;
    assert_eq!(in_both_modes(&on_resource), in_both_modes(&on_scope));
    in_both_modes(&on_scope)
}

fn nested(levels: usize) -> AnyValue {
    (0..levels).fold(text("x"), |inner, _| array(vec![inner]))
}

#[test]
fn a_key_given_twice() {
    let twice = vec![
        attribute("a", text("1")),
        attribute("b", None),
        attribute("a", text("1")),
    ];
    assert_eq!(of_attributes(twice.clone()), InvalidIdentity::RepeatedKey);
    assert_eq!(
        of_attributes(vec![attribute("outer", map(twice))]),
        InvalidIdentity::RepeatedKey
    );
    let empty = vec![attribute("", None), attribute("", text("1"))];
    assert_eq!(of_attributes(empty), InvalidIdentity::RepeatedKey);
}

#[test]
fn values_nested_deeper_than_sixteen_levels() {
    assert_eq!(
        of_attributes(vec![attribute("a", nested(17))]),
        InvalidIdentity::NestedTooDeep
    );
    let mut request = full();
    request.resource_metrics[0].resource = Some(resource(vec![attribute("a", nested(16))]));
    assert!(only(&request, &IdentityMode::Complete).is_ok());
    let maps = (0..17).fold(text("x"), |inner, _| map(vec![attribute("k", inner)]));
    assert_eq!(
        of_attributes(vec![attribute("a", maps)]),
        InvalidIdentity::NestedTooDeep
    );
}

#[test]
fn references_into_a_string_table() {
    let mut by_key = attribute("", text("x"));
    by_key.key_strindex = 3;
    assert_eq!(of_attributes(vec![by_key]), InvalidIdentity::Reference);
    let by_value = attribute("a", value(Value::StringValueStrindex(0)));
    assert_eq!(of_attributes(vec![by_value]), InvalidIdentity::Reference);
}

#[test]
fn more_values_than_anybody_means() {
    let many = |count: usize| vec![attribute("a", array(vec![AnyValue { value: None }; count]))];
    assert_eq!(of_attributes(many(MAX_VALUES)), InvalidIdentity::TooManyValues);
    // The attribute, its value and the array count too.
    let mut request = full();
    request.resource_metrics[0].resource = Some(resource(many(MAX_VALUES - 3)));
    assert!(only(&request, &IdentityMode::Complete).is_ok());
}

#[test]
fn no_name_and_no_data() {
    let bare = |metric| request(vec![in_resource(None, vec![in_scope(None, vec![metric])])]);
    assert_eq!(in_both_modes(&bare(simple(""))), InvalidIdentity::NoName);
    assert_eq!(in_both_modes(&bare(metric("m", None))), InvalidIdentity::NoData);
}

#[test]
fn text_that_is_no_text_wherever_it_stands() {
    let gauge = len(5, "");
    let of = |resource: &[u8], resource_url: &[u8], scope: &[u8], scope_url: &[u8], metric: &[u8]| {
        let metric = cat(&[len(1, "m"), gauge.clone(), metric.to_vec()]);
        let scope_metrics = cat(&[len(1, scope), len(2, metric), len(3, scope_url)]);
        let bytes = len(
            1,
            cat(&[len(1, resource), len(2, scope_metrics), len(3, resource_url)]),
        );
        identify(&bytes, &walk(&bytes), 0, &IdentityMode::Complete).unwrap()
    };
    let bad = b"\xff\xfe";
    let key = len(1, len(1, bad));
    let text_value = len(1, cat(&[len(1, "k"), len(2, len(1, bad))]));
    let bytes_value = len(1, cat(&[len(1, "k"), len(2, len(7, bad))]));
    let not_text = Err(InvalidIdentity::NotText);
    assert_eq!(of(&key, b"", b"", b"", b""), not_text);
    assert_eq!(of(&text_value, b"", b"", b"", b""), not_text);
    assert_eq!(of(b"", bad, b"", b"", b""), not_text);
    assert_eq!(of(b"", b"", &len(1, bad), b"", b""), not_text);
    assert_eq!(of(b"", b"", &len(2, bad), b"", b""), not_text);
    assert_eq!(of(b"", b"", b"", bad, b""), not_text);
    for field in 1..=3 {
        assert_eq!(
            of(b"", b"", b"", b"", &len(field, bad)),
            not_text,
            "metric field {field}"
        );
    }
    assert!(of(&bytes_value, b"", b"", b"", b"").is_ok(), "bytes are bytes");
}

#[test]
fn an_invalid_identity_does_not_spoil_its_neighbours() {
    let spoilt = resource(vec![attribute("a", None), attribute("a", None)]);
    let metrics = || vec![in_scope(None, vec![simple("m"), simple("n")])];
    let bytes = request(vec![
        in_resource(spoilt, metrics()),
        in_resource(resource(vec![]), metrics()),
    ]);
    let found: Vec<bool> = crate::read::all(&bytes.encode_to_vec())
        .iter()
        .map(|(found, _)| found.is_ok())
        .collect();
    assert_eq!(found, [false, false, true, true]);
}
