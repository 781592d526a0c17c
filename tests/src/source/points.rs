//! Data points with the entropy of real ones: few keys, some values from small sets, some that nearly never
//! repeat.

use fastrand::Rng;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint, NumberDataPoint, SummaryDataPoint, exemplar,
    number_data_point,
};

/// Start and time of a request's points.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) start: u64,
    pub(super) now: u64,
}

pub(super) fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        key_strindex: 0,
    }
}

pub(super) fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

/// One attribute of each kind of value, nested ones included.
pub(super) fn all_kinds() -> Vec<KeyValue> {
    let any = |value| AnyValue { value: Some(value) };
    vec![
        text("kind.string", "text"),
        attribute("kind.bool", Value::BoolValue(true)),
        attribute("kind.int", Value::IntValue(-42)),
        attribute("kind.double", Value::DoubleValue(0.5)),
        attribute("kind.bytes", Value::BytesValue(vec![0, 159, 146, 150])),
        attribute(
            "kind.array",
            Value::ArrayValue(ArrayValue {
                values: vec![
                    any(Value::StringValue("a".to_owned())),
                    any(Value::IntValue(1)),
                    AnyValue { value: None },
                ],
            }),
        ),
        attribute(
            "kind.map",
            Value::KvlistValue(KeyValueList {
                values: vec![
                    text("inner", "x"),
                    attribute(
                        "deeper",
                        Value::KvlistValue(KeyValueList {
                            values: vec![text("leaf", "y")],
                        }),
                    ),
                ],
            }),
        ),
        KeyValue {
            key: "kind.absent".to_owned(),
            value: None,
            key_strindex: 0,
        },
        KeyValue {
            key: "kind.empty".to_owned(),
            value: Some(AnyValue { value: None }),
            key_strindex: 0,
        },
    ]
}

/// Attributes of the point number `number` of a metric. The same number has the same attributes in every
/// request, so that a series goes on.
pub(super) fn attributes(series: &mut Rng, number: usize) -> Vec<KeyValue> {
    const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];
    const ROUTES: [&str; 6] = [
        "/cart",
        "/cart/{id}",
        "/orders",
        "/orders/{id}",
        "/products/{id}",
        "/healthz",
    ];
    const STATUS: [i64; 5] = [200, 201, 404, 429, 500];
    let pick = |series: &mut Rng, from: &[&'static str]| from[series.usize(..from.len())];
    vec![
        text("http.request.method", pick(series, &METHODS)),
        text("http.route", pick(series, &ROUTES)),
        attribute(
            "http.response.status_code",
            Value::IntValue(STATUS[series.usize(..STATUS.len())]),
        ),
        text(
            "server.address",
            &format!("10.{}.{}.{}", series.u8(..4), series.u8(..), number),
        ),
        text("k8s.pod.name", &format!("web-{:08x}", series.u32(..))),
    ]
}

pub(super) fn number(
    random: &mut Rng,
    attributes: Vec<KeyValue>,
    times: Times,
    whole: bool,
) -> NumberDataPoint {
    let value = if whole {
        number_data_point::Value::AsInt(random.i64(0..5_000_000))
    } else {
        number_data_point::Value::AsDouble(measured(random))
    };
    NumberDataPoint {
        attributes,
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        exemplars: Vec::new(),
        flags: 0,
        value: Some(value),
    }
}

pub(super) fn histogram(random: &mut Rng, attributes: Vec<KeyValue>, times: Times) -> HistogramDataPoint {
    const BOUNDS: [f64; 14] = [
        0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    ];
    let bucket_counts: Vec<u64> = (0..=BOUNDS.len()).map(|_| random.u64(0..500)).collect();
    HistogramDataPoint {
        attributes,
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        count: bucket_counts.iter().sum(),
        sum: Some(measured(random) * 100.0),
        bucket_counts,
        explicit_bounds: BOUNDS.to_vec(),
        exemplars: Vec::new(),
        flags: 0,
        min: Some(0.001),
        max: Some(measured(random)),
    }
}

pub(super) fn exponential(
    random: &mut Rng,
    attributes: Vec<KeyValue>,
    times: Times,
) -> ExponentialHistogramDataPoint {
    let bucket_counts: Vec<u64> = (0..20).map(|_| random.u64(0..300)).collect();
    ExponentialHistogramDataPoint {
        attributes,
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        count: bucket_counts.iter().sum::<u64>() + 3,
        sum: Some(measured(random) * 100.0),
        scale: 3,
        zero_count: 3,
        positive: Some(Buckets {
            offset: -12,
            bucket_counts,
        }),
        negative: None,
        flags: 0,
        exemplars: Vec::new(),
        min: Some(0.0),
        max: Some(measured(random)),
        zero_threshold: 1e-9,
    }
}

pub(super) fn summary(random: &mut Rng, attributes: Vec<KeyValue>, times: Times) -> SummaryDataPoint {
    let quantile_values = [0.5, 0.9, 0.99]
        .map(|quantile| ValueAtQuantile {
            quantile,
            value: measured(random),
        })
        .to_vec();
    SummaryDataPoint {
        attributes,
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        count: random.u64(0..10_000),
        sum: measured(random) * 100.0,
        quantile_values,
        flags: 0,
    }
}

pub(super) fn exemplar(random: &mut Rng, times: Times) -> Exemplar {
    Exemplar {
        filtered_attributes: vec![text("user.tier", "gold")],
        time_unix_nano: times.now,
        span_id: random.u64(1..).to_be_bytes().to_vec(),
        trace_id: random.u128(1..).to_be_bytes().to_vec(),
        value: Some(exemplar::Value::AsDouble(measured(random))),
    }
}

/// A measured value: all digits of its mantissa vary.
fn measured(random: &mut Rng) -> f64 {
    random.f64() * 30.0
}
