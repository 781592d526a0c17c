//! OTLP messages in few words.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

pub(crate) use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest as Request;

pub(crate) fn value(value: Value) -> AnyValue {
    AnyValue { value: Some(value) }
}

pub(crate) fn text(text: &str) -> AnyValue {
    value(Value::StringValue(text.into()))
}

pub(crate) fn int(int: i64) -> AnyValue {
    value(Value::IntValue(int))
}

pub(crate) fn array(values: Vec<AnyValue>) -> AnyValue {
    value(Value::ArrayValue(ArrayValue { values }))
}

pub(crate) fn map(values: Vec<KeyValue>) -> AnyValue {
    value(Value::KvlistValue(KeyValueList { values }))
}

pub(crate) fn attribute(key: &str, value: impl Into<Option<AnyValue>>) -> KeyValue {
    KeyValue {
        key: key.into(),
        value: value.into(),
        key_strindex: 0,
    }
}

pub(crate) fn attributes(pairs: &[(&str, &str)]) -> Vec<KeyValue> {
    pairs
        .iter()
        .map(|(key, value)| attribute(key, text(value)))
        .collect()
}

pub(crate) fn resource(attributes: Vec<KeyValue>) -> Resource {
    Resource {
        attributes,
        ..Resource::default()
    }
}

pub(crate) fn scope(name: &str) -> InstrumentationScope {
    InstrumentationScope {
        name: name.into(),
        ..InstrumentationScope::default()
    }
}

pub(crate) fn number(value: f64, pairs: &[(&str, &str)]) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(pairs),
        time_unix_nano: 1,
        value: Some(number_data_point::Value::AsDouble(value)),
        ..NumberDataPoint::default()
    }
}

pub(crate) fn metric(name: &str, data: impl Into<Option<Data>>) -> Metric {
    Metric {
        name: name.into(),
        data: data.into(),
        ..Metric::default()
    }
}

pub(crate) fn gauge(data_points: Vec<NumberDataPoint>) -> Data {
    Data::Gauge(Gauge { data_points })
}

pub(crate) fn sum(aggregation_temporality: i32, is_monotonic: bool) -> Data {
    Data::Sum(Sum {
        data_points: vec![number(1.0, &[])],
        aggregation_temporality,
        is_monotonic,
    })
}

pub(crate) fn histogram(aggregation_temporality: i32) -> Data {
    Data::Histogram(Histogram {
        data_points: vec![HistogramDataPoint::default()],
        aggregation_temporality,
    })
}

pub(crate) fn exponential_histogram(aggregation_temporality: i32) -> Data {
    Data::ExponentialHistogram(ExponentialHistogram {
        data_points: vec![ExponentialHistogramDataPoint::default()],
        aggregation_temporality,
    })
}

pub(crate) fn summary() -> Data {
    Data::Summary(Summary {
        data_points: vec![SummaryDataPoint::default()],
    })
}

/// A gauge with one point.
pub(crate) fn simple(name: &str) -> Metric {
    metric(name, gauge(vec![number(1.0, &[])]))
}

pub(crate) fn in_scope(scope: impl Into<Option<InstrumentationScope>>, metrics: Vec<Metric>) -> ScopeMetrics {
    ScopeMetrics {
        scope: scope.into(),
        metrics,
        schema_url: String::new(),
    }
}

pub(crate) fn in_resource(
    resource: impl Into<Option<Resource>>,
    scopes: Vec<ScopeMetrics>,
) -> ResourceMetrics {
    ResourceMetrics {
        resource: resource.into(),
        scope_metrics: scopes,
        schema_url: String::new(),
    }
}

pub(crate) fn request(resource_metrics: Vec<ResourceMetrics>) -> Request {
    Request { resource_metrics }
}

/// One metric in one scope of one resource, with every part of an identity set.
pub(crate) fn full() -> Request {
    let mut metric = metric("http.server.duration", histogram(2));
    metric.description = "how long requests take".into();
    metric.unit = "ms".into();
    let scope = InstrumentationScope {
        name: "library".into(),
        version: "1.2.3".into(),
        attributes: attributes(&[("short", "yes"), ("mode", "fast")]),
        dropped_attributes_count: 0,
    };
    let mut scope_metrics = in_scope(scope, vec![metric]);
    scope_metrics.schema_url = "https://opentelemetry.io/schemas/1.21.0".into();
    let attributes = attributes(&[("service.name", "shop"), ("host.name", "a1"), ("region", "eu")]);
    let mut resource_metrics = in_resource(resource(attributes), vec![scope_metrics]);
    resource_metrics.schema_url = "https://opentelemetry.io/schemas/1.20.0".into();
    request(vec![resource_metrics])
}
