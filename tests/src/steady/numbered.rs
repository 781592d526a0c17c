//! How a point carries its number: the id of its source is the resource's `service.instance.id`, and its time is that
//! of its start and as many milliseconds as its number. A scope's name marks what is numbered so.
//!
//! Nothing of it is odd to a backend, and a data plane passes it on untouched.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Gauge, ResourceMetrics, Sum};

use crate::otlp::is_companion;

const SCOPE: &str = "jevmetrics.testkit.steady";
const SOURCE: &str = "service.instance.id";
/// Nanoseconds between one number and the next.
const STEP: u64 = 1_000_000;

/// Makes all points of `request` those of `source` with `number`, which begins at 1.
pub(crate) fn write(request: &mut ExportMetricsServiceRequest, source: &str, start: u64, number: u64) {
    let now = start + number * STEP;
    for resource in &mut request.resource_metrics {
        let attributes = &mut resource.resource.get_or_insert_default().attributes;
        attributes.retain(|attribute| attribute.key != SOURCE);
        attributes.push(KeyValue {
            key: SOURCE.to_owned(),
            value: Some(AnyValue {
                value: Some(Value::StringValue(source.to_owned())),
            }),
            key_strindex: 0,
        });
        for scope in &mut resource.scope_metrics {
            SCOPE.clone_into(&mut scope.scope.get_or_insert_default().name);
            for data in scope.metrics.iter_mut().filter_map(|metric| metric.data.as_mut()) {
                set_times(data, start, now);
            }
        }
    }
}

/// Tells `each` of every point but those of companions: its source, its instrument and its number, if it has one.
pub(crate) fn read<'a>(
    request: &'a ExportMetricsServiceRequest,
    mut each: impl FnMut(Option<(&'a str, &'a str, u64)>),
) {
    for resource in &request.resource_metrics {
        let source = source_of(resource);
        for scope in &resource.scope_metrics {
            let is_numbered = scope.scope.as_ref().is_some_and(|scope| scope.name == SCOPE);
            let source = source.filter(|_| is_numbered);
            for metric in scope.metrics.iter().filter(|metric| !is_companion(&metric.name)) {
                for (start, now) in metric.data.iter().flat_map(times) {
                    let number = now.checked_sub(start).map(|since| since / STEP);
                    each(
                        source
                            .zip(number)
                            .map(|(source, number)| (source, metric.name.as_str(), number)),
                    );
                }
            }
        }
    }
}

fn source_of(resource: &ResourceMetrics) -> Option<&str> {
    let attributes = &resource.resource.as_ref()?.attributes;
    let source = attributes.iter().find(|attribute| attribute.key == SOURCE)?;
    match source.value.as_ref()?.value.as_ref()? {
        Value::StringValue(source) => Some(source),
        _ => None,
    }
}

fn set_times(data: &mut Data, start: u64, now: u64) {
    match data {
        Data::Gauge(Gauge { data_points }) | Data::Sum(Sum { data_points, .. }) => {
            for point in data_points {
                (point.start_time_unix_nano, point.time_unix_nano) = (start, now);
            }
        }
        Data::Histogram(data) => {
            for point in &mut data.data_points {
                (point.start_time_unix_nano, point.time_unix_nano) = (start, now);
            }
        }
        Data::ExponentialHistogram(data) => {
            for point in &mut data.data_points {
                (point.start_time_unix_nano, point.time_unix_nano) = (start, now);
            }
        }
        Data::Summary(data) => {
            for point in &mut data.data_points {
                (point.start_time_unix_nano, point.time_unix_nano) = (start, now);
            }
        }
    }
}

/// Start and time of each point.
fn times(data: &Data) -> Vec<(u64, u64)> {
    match data {
        Data::Gauge(Gauge { data_points }) | Data::Sum(Sum { data_points, .. }) => data_points
            .iter()
            .map(|point| (point.start_time_unix_nano, point.time_unix_nano))
            .collect(),
        Data::Histogram(data) => {
            let points = data.data_points.iter();
            points
                .map(|point| (point.start_time_unix_nano, point.time_unix_nano))
                .collect()
        }
        Data::ExponentialHistogram(data) => {
            let points = data.data_points.iter();
            points
                .map(|point| (point.start_time_unix_nano, point.time_unix_nano))
                .collect()
        }
        Data::Summary(data) => {
            let points = data.data_points.iter();
            points
                .map(|point| (point.start_time_unix_nano, point.time_unix_nano))
                .collect()
        }
    }
}
