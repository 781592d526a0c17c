//! Small questions about OTLP messages that source, sink and tests all ask.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use serde::{Deserialize, Serialize};

/// The gauges that the data plane adds in `Annotate`.
pub const COMPANIONS: [&str; 4] = [
    "jev.metric.relevance",
    "jev.metric.redundancy",
    "jev.metric.keep_probability",
    "jev.metric.recommended_action",
];

/// The type of a metric's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DataType {
    /// No data, or of a type that is not known.
    Missing,
    /// Gauge.
    Gauge,
    /// Sum.
    Sum,
    /// Histogram with explicit bounds.
    Histogram,
    /// Exponential histogram.
    ExponentialHistogram,
    /// Summary.
    Summary,
}

/// The type of `metric`.
pub fn data_type(metric: &Metric) -> DataType {
    match &metric.data {
        None => DataType::Missing,
        Some(Data::Gauge(_)) => DataType::Gauge,
        Some(Data::Sum(_)) => DataType::Sum,
        Some(Data::Histogram(_)) => DataType::Histogram,
        Some(Data::ExponentialHistogram(_)) => DataType::ExponentialHistogram,
        Some(Data::Summary(_)) => DataType::Summary,
    }
}

/// The number of data points of `metric`, of whichever type.
pub fn data_points(metric: &Metric) -> usize {
    match &metric.data {
        None => 0,
        Some(Data::Gauge(data)) => data.data_points.len(),
        Some(Data::Sum(data)) => data.data_points.len(),
        Some(Data::Histogram(data)) => data.data_points.len(),
        Some(Data::ExponentialHistogram(data)) => data.data_points.len(),
        Some(Data::Summary(data)) => data.data_points.len(),
    }
}

/// All metrics of a request, in order.
pub fn metrics(request: &ExportMetricsServiceRequest) -> impl Iterator<Item = &Metric> {
    request
        .resource_metrics
        .iter()
        .flat_map(|resource| &resource.scope_metrics)
        .flat_map(|scope| &scope.metrics)
}

/// The number of data points of a request.
pub fn request_points(request: &ExportMetricsServiceRequest) -> usize {
    metrics(request).map(data_points).sum()
}

/// Is it one of the companion gauges?
pub fn is_companion(name: &str) -> bool {
    COMPANIONS.contains(&name)
}
