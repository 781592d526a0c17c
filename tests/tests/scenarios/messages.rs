//! Messages that scenarios send, and what must be left of them.

use bytes::Bytes;
use jevmetrics_testkit::otlp::{data_points, is_companion};
pub(crate) use jevmetrics_testkit::source::gauges;
use jevmetrics_testkit::source::{Generator, Shape};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use prost::Message as _;

/// Instruments and points of [`small`].
pub(crate) const SMALL_METRICS: u64 = 10;
pub(crate) const SMALL_POINTS: u64 = 20;

/// 10 instruments of 2 points; `droppable` percent of them are dropped under the mock's default opinion.
pub(crate) fn small(droppable: usize) -> Generator {
    let shape = Shape {
        metrics: 10,
        points: 2,
        resources: 1,
        scopes: 2,
        droppable_percent: droppable,
    };
    Generator::new(shape, 1)
}

/// As bytes.
pub(crate) fn bytes(request: &ExportMetricsServiceRequest) -> Bytes {
    request.encode_to_vec().into()
}

/// What is left of `request` when metrics go: a parent left empty goes with them, one that came empty stays.
pub(crate) fn without(
    request: &ExportMetricsServiceRequest,
    goes: impl Fn(&Metric) -> bool,
) -> ExportMetricsServiceRequest {
    let mut left = request.clone();
    left.resource_metrics.retain_mut(|resource| {
        let scopes = resource.scope_metrics.len();
        resource.scope_metrics.retain_mut(|scope| {
            let metrics = scope.metrics.len();
            scope.metrics.retain(|metric| !goes(metric));
            metrics == scope.metrics.len() || !scope.metrics.is_empty()
        });
        scopes == resource.scope_metrics.len() || !resource.scope_metrics.is_empty()
    });
    left
}

/// Without companion gauges.
pub(crate) fn without_companions(request: &ExportMetricsServiceRequest) -> ExportMetricsServiceRequest {
    without(request, |metric| is_companion(&metric.name))
}

/// Data points of the metrics that `counts`.
pub(crate) fn points_of(request: &ExportMetricsServiceRequest, counts: impl Fn(&Metric) -> bool) -> u64 {
    let metrics = jevmetrics_testkit::otlp::metrics(request).filter(|metric| counts(metric));
    metrics.map(|metric| data_points(metric) as u64).sum()
}

/// The text of an attribute.
pub(crate) fn attribute<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

/// A length-delimited field of a message, for messages that no encoder writes. Numbers up to 15.
pub(crate) fn field(number: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    prost::encoding::encode_varint(payload.len() as u64, &mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

/// A request with one gauge whose one data point has these bytes.
pub(crate) fn gauge_with_point(name: &str, point: &[u8]) -> Bytes {
    let gauge = field(1, point);
    let metric = [field(1, name.as_bytes()), field(5, &gauge)].concat();
    field(1, &field(2, &field(2, &metric))).into()
}
