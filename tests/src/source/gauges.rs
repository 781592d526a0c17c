//! Requests of gauges by name: for tests that say what each instrument is called.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// One gauge of one point for each name, all with this value and description.
pub fn gauges(names: &[impl AsRef<str>], value: i64, description: &str) -> ExportMetricsServiceRequest {
    let metrics = names.iter().map(|name| Metric {
        name: name.as_ref().to_owned(),
        description: description.to_owned(),
        unit: "1".to_owned(),
        metadata: Vec::new(),
        data: Some(Data::Gauge(Gauge {
            data_points: vec![NumberDataPoint {
                time_unix_nano: 1_790_000_000_000_000_000,
                value: Some(number_data_point::Value::AsInt(value)),
                ..NumberDataPoint::default()
            }],
        })),
    });
    let scope = InstrumentationScope {
        name: "scenario".to_owned(),
        ..InstrumentationScope::default()
    };
    let service = KeyValue {
        key: "service.name".to_owned(),
        value: Some(AnyValue {
            value: Some(Value::StringValue("shop".to_owned())),
        }),
        ..KeyValue::default()
    };
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource {
                attributes: vec![service],
                ..Resource::default()
            }),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(scope),
                metrics: metrics.collect(),
                schema_url: String::new(),
            }],
            schema_url: String::new(),
        }],
    }
}
