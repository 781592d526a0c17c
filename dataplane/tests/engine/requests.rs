//! OTLP requests in few words.

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;

pub(crate) fn attributes(pairs: &[(&str, &str)]) -> Vec<KeyValue> {
    let attribute = |&(key, value): &(&str, &str)| KeyValue {
        key: key.into(),
        value: Some(AnyValue {
            value: Some(Value::StringValue(value.into())),
        }),
        key_strindex: 0,
    };
    pairs.iter().map(attribute).collect()
}

/// A gauge with this many points.
pub(crate) fn gauge(name: &str, points: usize) -> Metric {
    Metric {
        name: name.into(),
        data: Some(Data::Gauge(Gauge {
            data_points: vec![NumberDataPoint::default(); points],
        })),
        ..Metric::default()
    }
}

/// Metrics in one scope of a resource.
pub(crate) fn of_resource(resource: &[(&str, &str)], metrics: Vec<Metric>) -> ResourceMetrics {
    ResourceMetrics {
        resource: Some(Resource {
            attributes: attributes(resource),
            ..Resource::default()
        }),
        scope_metrics: vec![ScopeMetrics {
            scope: Some(InstrumentationScope {
                name: "scope".into(),
                ..InstrumentationScope::default()
            }),
            metrics,
            schema_url: String::new(),
        }],
        schema_url: String::new(),
    }
}

pub(crate) fn encode(resource_metrics: Vec<ResourceMetrics>) -> Bytes {
    ExportMetricsServiceRequest { resource_metrics }
        .encode_to_vec()
        .into()
}

/// Gauges of one resource, by name and number of points.
pub(crate) fn gauges(metrics: &[(&str, usize)]) -> Bytes {
    let metrics = metrics
        .iter()
        .map(|&(name, points)| gauge(name, points))
        .collect();
    encode(vec![of_resource(&[("service.name", "shop")], metrics)])
}

/// All metrics of a request.
pub(crate) fn decode(bytes: &Bytes) -> Vec<Metric> {
    let request = ExportMetricsServiceRequest::decode(bytes.clone()).unwrap();
    let scopes = request
        .resource_metrics
        .into_iter()
        .flat_map(|resource| resource.scope_metrics);
    scopes.flat_map(|scope| scope.metrics).collect()
}

/// Names of all metrics of a request, in order.
pub(crate) fn names(output: Option<&Bytes>) -> Vec<String> {
    let metrics = output.map(decode).unwrap_or_default();
    metrics.into_iter().map(|metric| metric.name).collect()
}

/// The text of an attribute of a gauge's first point.
pub(crate) fn text_of<'a>(metric: &'a Metric, key: &str) -> Option<&'a str> {
    let Some(Data::Gauge(gauge)) = &metric.data else {
        return None;
    };
    let attribute = gauge.data_points[0]
        .attributes
        .iter()
        .find(|attribute| attribute.key == key)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}
