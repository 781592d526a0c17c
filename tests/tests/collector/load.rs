//! Requests of many resources, each with a number that its points carry, and what of them has arrived where.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use jevmetrics_testkit::otlp::is_companion;
use jevmetrics_testkit::sink::Sink;
use jevmetrics_testkit::source::{GrpcOptions, GrpcSender, gauges};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use prost::Message as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Code;

const SERVICES: usize = 20;
const INSTANCES: usize = 2;
pub(crate) const METRICS: [&str; 2] = ["requests.active", "memory.used"];
/// Between two requests.
const PAUSE: Duration = Duration::from_millis(50);
/// The attribute by which a test knows a resource again.
const LABEL: &str = "test.resource";

/// Instances of services, and one resource that says of no service.
pub(crate) fn labels() -> Vec<String> {
    let all = (0..SERVICES).flat_map(|service| (0..INSTANCES).map(move |instance| (service, instance)));
    let named = all.map(|(service, instance)| format!("service-{service}/{instance}"));
    named.chain(["nameless".to_owned()]).collect()
}

/// The service of a resource.
pub(crate) fn service(label: &str) -> &str {
    label.split_once('/').map_or(label, |(service, _)| service)
}

fn attribute(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(Value::StringValue(value.to_owned())),
        }),
        ..KeyValue::default()
    }
}

/// Every resource once, every point with this number.
fn request(number: i64) -> Bytes {
    let one = gauges(&METRICS, number, "A gauge").resource_metrics.remove(0);
    let resource_metrics = labels().into_iter().map(|label| {
        let mut resource = one.clone();
        let attributes = &mut resource.resource.get_or_insert_default().attributes;
        *attributes = vec![attribute(LABEL, &label)];
        if let Some((service, instance)) = label.split_once('/') {
            attributes.push(attribute("service.name", service));
            attributes.push(attribute("service.instance.id", instance));
        }
        resource
    });
    let request = ExportMetricsServiceRequest {
        resource_metrics: resource_metrics.collect(),
    };
    request.encode_to_vec().into()
}

/// Sends until it is stopped; a request that was not taken is sent again.
pub(crate) struct Load {
    sent: Arc<AtomicI64>,
    stop: CancellationToken,
    sending: JoinHandle<()>,
}

impl Load {
    pub(crate) fn start(endpoint: &str) -> Self {
        let sender = GrpcSender::lazy(endpoint).unwrap();
        let (sent, stop) = (Arc::new(AtomicI64::new(0)), CancellationToken::new());
        let (counted, stopped) = (Arc::clone(&sent), stop.clone());
        let sending = tokio::spawn(async move {
            while !stopped.is_cancelled() {
                let number = counted.load(Ordering::Relaxed) + 1;
                let outcome = sender.send(request(number), &GrpcOptions::default()).await;
                if outcome.code == Code::Ok {
                    counted.store(number, Ordering::Relaxed);
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self { sent, stop, sending }
    }

    /// How many requests were taken.
    pub(crate) fn sent(&self) -> i64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Ends it and says how many requests were taken.
    pub(crate) async fn stop(self) -> i64 {
        self.stop.cancel();
        self.sending.await.unwrap();
        self.sent.load(Ordering::Relaxed)
    }
}

/// One point: of which resource and metric, with which number.
type Point = (String, String, i64);

/// Which sinks have what; one that has a point twice is there twice.
#[derive(Debug, Default)]
pub(crate) struct Arrived(BTreeMap<Point, Vec<usize>>);

impl Arrived {
    pub(crate) fn at(sinks: &[Sink]) -> Self {
        let mut points: BTreeMap<Point, Vec<usize>> = BTreeMap::new();
        for (index, sink) in sinks.iter().enumerate() {
            for received in sink.received() {
                for resource in &received.message.resource_metrics {
                    let attributes = resource.resource.iter().flat_map(|resource| &resource.attributes);
                    let label = text(attributes.clone().find(|attribute| attribute.key == LABEL));
                    let metrics = resource.scope_metrics.iter().flat_map(|scope| &scope.metrics);
                    for metric in metrics.filter(|metric| !is_companion(&metric.name)) {
                        let Some(Data::Gauge(gauge)) = &metric.data else {
                            panic!("{metric:?}");
                        };
                        for point in &gauge.data_points {
                            let Some(number_data_point::Value::AsInt(number)) = point.value else {
                                panic!("{point:?}");
                            };
                            let key = (label.clone(), metric.name.clone(), number);
                            points.entry(key).or_default().push(index);
                        }
                    }
                }
            }
        }
        Self(points)
    }

    /// Different points of the first so many requests.
    pub(crate) fn points(&self, requests: i64) -> usize {
        self.0.keys().filter(|(_, _, number)| *number <= requests).count()
    }

    /// Points that came again.
    pub(crate) fn duplicates(&self) -> usize {
        self.0.values().map(|sinks| sinks.len() - 1).sum()
    }

    /// Which sinks have points of a resource with a number that `counts`.
    pub(crate) fn places(&self, counts: impl Fn(i64) -> bool) -> BTreeMap<&str, Vec<usize>> {
        let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for ((label, _, _), sinks) in self.0.iter().filter(|((_, _, number), _)| counts(*number)) {
            let place = places.entry(label).or_default();
            place.extend(sinks);
            place.sort_unstable();
            place.dedup();
        }
        places
    }
}

fn text(attribute: Option<&KeyValue>) -> String {
    match attribute.and_then(|attribute| attribute.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        other => panic!("a resource is called {other:?}"),
    }
}
