//! The four gauges of an assessed instrument, as prost reads them.

use jevmetrics_otlp::companion::{Companion, SET_SIZE, Stamp, is_companion_name};
use jevmetrics_otlp::{Plan, Spliced, splice};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{Gauge, Metric, NumberDataPoint};
use prost::Message;

use crate::build::{Request, attributes, in_resource, in_scope, request, resource, scope, simple};
use crate::read::{all, walk};

const STAMP: Stamp<'_> = Stamp {
    collector_id: "0123456789abcdef",
    time_unix_nano: 1_700_000_000_123_456_789,
};

fn companion(scope: u32, metric_name: &str) -> Companion<'_> {
    Companion {
        scope,
        metric_name,
        model: "jev-1",
        relevance: 0.25,
        redundancy: 0.5,
        keep_probability: 1.0,
        action: "reduce",
    }
}

/// The gauges that `companion` must become.
fn gauges(companion: &Companion<'_>) -> Vec<Metric> {
    let gauge = |name: &str, value: f64, action: Option<&str>| {
        let mut pairs = vec![
            ("metric.name", companion.metric_name),
            ("jev.model", companion.model),
            ("jev.collector.id", STAMP.collector_id),
        ];
        pairs.extend(action.map(|action| ("action", action)));
        let point = NumberDataPoint {
            attributes: attributes(&pairs),
            time_unix_nano: STAMP.time_unix_nano,
            value: Some(Value::AsDouble(value)),
            ..NumberDataPoint::default()
        };
        Metric {
            name: name.into(),
            unit: "1".into(),
            data: Some(Data::Gauge(Gauge {
                data_points: vec![point],
            })),
            ..Metric::default()
        }
    };
    vec![
        gauge("jev.metric.relevance", companion.relevance, None),
        gauge("jev.metric.redundancy", companion.redundancy, None),
        gauge("jev.metric.keep_probability", companion.keep_probability, None),
        gauge("jev.metric.recommended_action", 1.0, Some(companion.action)),
    ]
}

fn three_scopes() -> Request {
    let first = vec![
        in_scope(scope("a"), vec![simple("m0"), simple("m1")]),
        in_scope(None, vec![]),
        in_scope(scope("b"), vec![simple("m2")]),
    ];
    let second = vec![in_scope(scope("c"), vec![simple("m3")])];
    let other = resource(attributes(&[("service.name", "other")]));
    request(vec![in_resource(None, first), in_resource(other, second)])
}

fn spliced(request: &Request, dropped: &[usize], companions: &[Companion<'_>]) -> Request {
    let bytes = request.encode_to_vec();
    let walk = walk(&bytes);
    let mut plan = Plan::default();
    plan.reset(walk.metrics().len());
    for metric in dropped {
        plan.drop_metric(*metric);
    }
    match splice(&bytes, &walk, &mut plan, companions, STAMP) {
        Spliced::Rewritten(bytes) => Request::decode(&bytes[..]).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn companions_stand_behind_the_metrics_of_their_own_scope() {
    let companions = [companion(0, "m1"), companion(2, "m2"), companion(3, "m3")];
    let mut expected = three_scopes();
    expected.resource_metrics[0].scope_metrics[0]
        .metrics
        .extend(gauges(&companions[0]));
    expected.resource_metrics[0].scope_metrics[2]
        .metrics
        .extend(gauges(&companions[1]));
    expected.resource_metrics[1].scope_metrics[0]
        .metrics
        .extend(gauges(&companions[2]));
    assert_eq!(spliced(&three_scopes(), &[], &companions), expected);
}

#[test]
fn several_sets_in_one_scope_follow_each_other() {
    let companions = [companion(0, "m0"), companion(0, "m1")];
    let mut expected = three_scopes();
    let metrics = &mut expected.resource_metrics[0].scope_metrics[0].metrics;
    metrics.extend(companions.iter().flat_map(gauges));
    assert_eq!(spliced(&three_scopes(), &[], &companions), expected);
}

#[test]
fn companions_and_drops_go_together() {
    let companions = [companion(0, "m1"), companion(2, "m2")];
    let mut expected = three_scopes();
    let scopes = &mut expected.resource_metrics[0].scope_metrics;
    scopes[0].metrics.remove(0);
    scopes[0].metrics.extend(gauges(&companions[0]));
    scopes[2].metrics = gauges(&companions[1]);
    expected.resource_metrics.remove(1);
    assert_eq!(spliced(&three_scopes(), &[0, 2, 3], &companions), expected);
}

#[test]
fn texts_of_any_length_and_script_survive() {
    for length in [0, 1, 100, 126, 127, 128, 200, 16_384, 100_000] {
        let name = "ü".repeat(length);
        let mut companion = companion(3, &name);
        companion.model = &name;
        let mut expected = three_scopes();
        expected.resource_metrics[1].scope_metrics[0]
            .metrics
            .extend(gauges(&companion));
        assert_eq!(spliced(&three_scopes(), &[], &[companion]), expected);
    }
}

#[test]
fn a_set_is_four_points_and_known_again_by_its_names() {
    let companions = gauges(&companion(0, "m"));
    assert_eq!(companions.len() as u64, SET_SIZE);
    assert!(
        companions
            .iter()
            .all(|metric| is_companion_name(metric.name.as_bytes()))
    );
    for name in [
        "",
        "jev.metric",
        "jev.metric.relevance ",
        "jev.metric.RELEVANCE",
        "m",
    ] {
        assert!(!is_companion_name(name.as_bytes()), "{name}");
    }
}

#[test]
fn kept_metrics_keep_their_identity_beside_companions() {
    let before = all(&three_scopes().encode_to_vec());
    let after = spliced(&three_scopes(), &[], &[companion(0, "m0"), companion(3, "m3")]);
    let after = all(&after.encode_to_vec());
    assert_eq!(after.len(), before.len() + 8);
    assert!(before.iter().all(|metric| after.contains(metric)));
}
