//! What an identity depends on, and what not.

use std::collections::{HashMap, HashSet};

use jevmetrics_otlp::identity::IdentityMode;
use jevmetrics_otlp::{Checks, Walk};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, EntityRef, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{HistogramDataPoint, Metric};
use prost::Message;

use crate::build::{
    Request, array, attribute, attributes, full, histogram, in_resource, in_scope, int, map, request,
    resource, scope, simple, sum, summary, text, value,
};
use crate::read::{complete, context, keys, only};

type Change = (&'static str, fn(&mut Request));

fn the_metric(request: &mut Request) -> &mut Metric {
    &mut request.resource_metrics[0].scope_metrics[0].metrics[0]
}

fn of_resource(request: &mut Request) -> &mut Vec<KeyValue> {
    &mut request.resource_metrics[0].resource.as_mut().unwrap().attributes
}

fn of_scope(request: &mut Request) -> &mut Vec<KeyValue> {
    let scope = request.resource_metrics[0].scope_metrics[0].scope.as_mut();
    &mut scope.unwrap().attributes
}

#[test]
fn every_part_of_an_instrument_counts() {
    let changes: [Change; 22] = [
        ("resource value", |request| {
            of_resource(request)[0].value = Some(text("other"));
        }),
        ("resource key", |request| {
            of_resource(request)[0].key = "service.names".into();
        }),
        ("one attribute less", |request| drop(of_resource(request).pop())),
        ("one attribute more", |request| {
            of_resource(request).push(attribute("x", None));
        }),
        ("resource without attributes", |request| {
            of_resource(request).clear();
        }),
        ("no resource", |request| {
            request.resource_metrics[0].resource = None;
        }),
        ("resource schema", |request| {
            request.resource_metrics[0].schema_url.clear();
        }),
        ("scope name", |request| {
            request.resource_metrics[0].scope_metrics[0]
                .scope
                .as_mut()
                .unwrap()
                .name
                .push('x');
        }),
        ("scope version", |request| {
            request.resource_metrics[0].scope_metrics[0]
                .scope
                .as_mut()
                .unwrap()
                .version
                .clear();
        }),
        ("scope attribute", |request| {
            of_scope(request)[0].value = Some(int(1));
        }),
        ("no scope attributes", |request| of_scope(request).clear()),
        ("no scope", |request| {
            request.resource_metrics[0].scope_metrics[0].scope = None;
        }),
        ("scope schema", |request| {
            request.resource_metrics[0].scope_metrics[0].schema_url.push('0');
        }),
        ("schemas exchanged", |request| {
            let resource_metrics = &mut request.resource_metrics[0];
            std::mem::swap(
                &mut resource_metrics.schema_url,
                &mut resource_metrics.scope_metrics[0].schema_url,
            );
        }),
        ("name", |request| the_metric(request).name.push('s')),
        ("name in capitals", |request| {
            the_metric(request).name.make_ascii_uppercase();
        }),
        ("description", |request| the_metric(request).description.clear()),
        ("unit", |request| the_metric(request).unit = "s".into()),
        ("description and unit exchanged", |request| {
            let metric = the_metric(request);
            std::mem::swap(&mut metric.description, &mut metric.unit);
        }),
        ("type", |request| the_metric(request).data = Some(summary())),
        ("temporality", |request| {
            the_metric(request).data = Some(histogram(1));
        }),
        ("attribute moved to the scope", |request| {
            let moved = of_resource(request).pop().unwrap();
            of_scope(request).push(moved);
        }),
    ];
    let of_sums = [sum(2, true), sum(2, false), sum(1, true), sum(0, false)].map(|data| {
        let mut request = full();
        the_metric(&mut request).data = Some(data);
        ("sums", request)
    });
    let changed = changes.into_iter().map(|(name, change)| {
        let mut request = full();
        change(&mut request);
        (name, request)
    });
    let keys = keys();
    let (mut identities, mut aliases, mut checks) = (HashMap::new(), HashMap::new(), HashMap::new());
    for (name, request) in changed.chain(of_sums).chain([("unchanged", full())]) {
        let bytes = request.encode_to_vec();
        let mut walk = Walk::default();
        walk.read(&bytes, &keys).unwrap();
        let alias = walk.metrics()[0].alias();
        let check = Checks::new(&bytes, &walk, &keys).of(0);
        assert_eq!(
            identities.insert(complete(&request), name),
            None,
            "identity: {name}"
        );
        assert_eq!(aliases.insert(alias, name), None, "alias: {name}");
        assert_eq!(checks.insert(check, name), None, "check: {name}");
    }
}

#[test]
fn what_is_not_part_of_an_instrument_does_not_count() {
    let changes: [Change; 7] = [
        ("points", |request| {
            if let Some(Data::Histogram(histogram)) = &mut the_metric(request).data {
                histogram.data_points = vec![HistogramDataPoint::default(); 5];
                histogram.data_points[0].attributes = attributes(&[("path", "/")]);
                histogram.data_points[0].time_unix_nano = 77;
                histogram.data_points[0].explicit_bounds = vec![1.0, 2.0];
            }
        }),
        ("no points", |request| {
            if let Some(Data::Histogram(histogram)) = &mut the_metric(request).data {
                histogram.data_points.clear();
            }
        }),
        ("metadata", |request| {
            the_metric(request).metadata = attributes(&[("a", "b")]);
        }),
        ("dropped resource attributes", |request| {
            request.resource_metrics[0]
                .resource
                .as_mut()
                .unwrap()
                .dropped_attributes_count = 4;
        }),
        ("dropped scope attributes", |request| {
            request.resource_metrics[0].scope_metrics[0]
                .scope
                .as_mut()
                .unwrap()
                .dropped_attributes_count = 4;
        }),
        ("entities", |request| {
            let entity = EntityRef {
                r#type: "host".into(),
                ..EntityRef::default()
            };
            request.resource_metrics[0]
                .resource
                .as_mut()
                .unwrap()
                .entity_refs
                .push(entity);
        }),
        ("a neighbour", |request| {
            request
                .resource_metrics
                .push(in_resource(None, vec![in_scope(None, vec![])]));
        }),
    ];
    for (name, change) in changes {
        let mut request = full();
        change(&mut request);
        assert_eq!(complete(&request), complete(&full()), "{name}");
    }
}

pub(crate) fn with_value(value: Option<AnyValue>) -> Request {
    let resource = resource(vec![attribute("k", value)]);
    request(vec![in_resource(
        resource,
        vec![in_scope(scope("s"), vec![simple("m")])],
    )])
}

#[test]
fn equal_looking_values_of_different_kinds_are_different() {
    let values = [
        None,
        Some(AnyValue { value: None }),
        Some(text("")),
        Some(text("1")),
        Some(text("true")),
        Some(int(0)),
        Some(int(1)),
        Some(value(Value::DoubleValue(1.0))),
        Some(value(Value::DoubleValue(0.0))),
        Some(value(Value::DoubleValue(-0.0))),
        Some(value(Value::BoolValue(true))),
        Some(value(Value::BoolValue(false))),
        Some(value(Value::BytesValue(b"1".to_vec()))),
        Some(value(Value::BytesValue(Vec::new()))),
        Some(array(vec![])),
        Some(array(vec![text("1")])),
        Some(array(vec![text("1"), text("1")])),
        Some(array(vec![array(vec![text("1")])])),
        Some(array(vec![AnyValue { value: None }])),
        Some(map(vec![])),
        Some(map(vec![attribute("1", None)])),
        Some(map(vec![attribute("1", text("1"))])),
        Some(map(vec![attribute("", text("1"))])),
    ];
    let count = values.len();
    let identities: HashSet<_> = values
        .into_iter()
        .map(|value| complete(&with_value(value)))
        .collect();
    assert_eq!(identities.len(), count);
}

#[test]
fn texts_do_not_run_into_each_other() {
    let named = |name: &str, description: &str, unit: &str| {
        let mut metric = simple(name);
        (metric.description, metric.unit) = (description.into(), unit.into());
        complete(&request(vec![in_resource(
            None,
            vec![in_scope(None, vec![metric])],
        )]))
    };
    let pair = |key: &str, value: &str| {
        let resource = resource(attributes(&[(key, value)]));
        complete(&request(vec![in_resource(
            resource,
            vec![in_scope(None, vec![simple("m")])],
        )]))
    };
    let identities = [
        named("ab", "c", ""),
        named("a", "bc", ""),
        named("a", "b", "c"),
        named("abc", "", ""),
    ];
    assert_eq!(HashSet::from(identities).len(), 4);
    assert_eq!(
        HashSet::from([pair("ab", "c"), pair("a", "bc"), pair("abc", "")]).len(),
        3
    );
}

#[test]
fn in_context_mode_of_the_resource_only_what_is_listed_counts() {
    let mode = IdentityMode::Context(context(&["service.name", "cloud.region"]));
    let of = |resource: Option<opentelemetry_proto::tonic::resource::v1::Resource>| {
        let mut request = full();
        request.resource_metrics[0].resource = resource;
        only(&request, &mode).unwrap()
    };
    let with = |pairs: &[(&str, &str)]| of(Some(resource(attributes(pairs))));
    let shop = with(&[("service.name", "shop")]);
    assert_eq!(
        with(&[("host.name", "a"), ("service.name", "shop"), ("pod", "1")]),
        shop
    );
    assert_ne!(with(&[("service.name", "shop2")]), shop);
    assert_ne!(with(&[("service.name", "shop"), ("cloud.region", "eu")]), shop);
    let none = of(None);
    assert_eq!(with(&[]), none, "nothing listed, nothing there: all alike");
    assert_eq!(with(&[("host.name", "a")]), none);
    assert_ne!(none, shop);
    let mut other_schema = full();
    other_schema.resource_metrics[0].schema_url.clear();
    assert_ne!(
        only(&other_schema, &mode),
        only(&full(), &mode),
        "all else counts as before"
    );
    assert_ne!(
        only(&full(), &mode),
        only(&full(), &IdentityMode::Complete),
        "modes never meet"
    );
}
