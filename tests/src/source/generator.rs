//! Generated requests: the same seed gives the same requests; within one generator identities and series stay
//! the same while times and values move on.

use bytes::Bytes;
use fastrand::Rng;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, Gauge, Histogram, Metric, ResourceMetrics, ScopeMetrics,
    Sum, Summary,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

use super::instruments::{INSTRUMENTS, Instrument, Kind, MODULES};
use super::points::{self, Times, attribute, text};
use super::shape::Shape;

/// Put into the name of a droppable metric; one of [`crate::mock_jev::DROP_MARKERS`].
const DROP_MARKER: &str = "debug";
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.37.0";
/// Where time begins, and how far it moves on with each request.
const START: u64 = 1_790_000_000_000_000_000;
const STEP: u64 = 10_000_000_000;

/// A source of requests of one shape.
#[derive(Debug, Clone)]
pub struct Generator {
    shape: Shape,
    /// Decides resources and series.
    seed: u64,
    values: Rng,
    now: u64,
}

impl Generator {
    /// Other seeds are other service instances: other resources, so other identities, under the same names.
    pub fn new(shape: Shape, seed: u64) -> Self {
        Self {
            shape,
            seed,
            values: Rng::with_seed(seed ^ 0x5eed),
            now: START,
        }
    }

    /// The next request.
    pub fn next_request(&mut self) -> ExportMetricsServiceRequest {
        self.now += STEP;
        let (resources, scopes) = (self.shape.resources.max(1), self.shape.scopes.max(1));
        let groups = resources * scopes;
        let mut resource_metrics = Vec::with_capacity(resources);
        for resource in 0..resources {
            let scope_metrics = (0..scopes)
                .map(|scope| {
                    let group = resource * scopes + scope;
                    let first = group * self.shape.metrics / groups;
                    let end = (group + 1) * self.shape.metrics / groups;
                    ScopeMetrics {
                        scope: Some(scope_of(scope)),
                        metrics: (first..end).map(|index| self.metric(index)).collect(),
                        schema_url: SCHEMA_URL.to_owned(),
                    }
                })
                .collect();
            resource_metrics.push(ResourceMetrics {
                resource: Some(self.resource(resource)),
                scope_metrics,
                schema_url: SCHEMA_URL.to_owned(),
            });
        }
        ExportMetricsServiceRequest { resource_metrics }
    }

    /// The next request, encoded.
    pub fn next_bytes(&mut self) -> Bytes {
        self.next_request().encode_to_vec().into()
    }

    /// The names of its metrics, each once, in order.
    pub fn names(&self) -> Vec<String> {
        (0..self.shape.metrics).map(|index| self.name(index)).collect()
    }

    /// The names that the mock's default opinion drops.
    pub fn droppable_names(&self) -> Vec<String> {
        (0..self.shape.metrics)
            .filter(|index| self.shape.is_droppable(*index))
            .map(|index| self.name(index))
            .collect()
    }

    fn name(&self, index: usize) -> String {
        let mut parts = vec![instrument(index).name.to_owned()];
        if self.shape.is_droppable(index) {
            parts.push(DROP_MARKER.to_owned());
        }
        if let Some(round) = (index / INSTRUMENTS.len()).checked_sub(1) {
            parts.push(MODULES[round % MODULES.len()].to_owned());
            if round >= MODULES.len() {
                parts.push(format!("shard_{}", round / MODULES.len()));
            }
        }
        parts.join(".")
    }

    fn metric(&mut self, index: usize) -> Metric {
        let instrument = instrument(index);
        Metric {
            name: self.name(index),
            description: instrument.description.to_owned(),
            unit: instrument.unit.to_owned(),
            metadata: Vec::new(),
            data: Some(self.data(index, instrument.kind)),
        }
    }

    fn data(&mut self, index: usize, kind: Kind) -> Data {
        let times = Times {
            start: START,
            now: self.now,
        };
        let mut series = Rng::with_seed(self.seed ^ (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let attributes = (0..self.shape.points).map(|number| points::attributes(&mut series, number));
        let attributes: Vec<_> = attributes.collect();
        let values = &mut self.values;
        let temporality = AggregationTemporality::Cumulative.into();
        match kind {
            Kind::Gauge => Data::Gauge(Gauge {
                data_points: attributes
                    .into_iter()
                    .map(|a| points::number(values, a, times, false))
                    .collect(),
            }),
            Kind::Counter | Kind::UpDown => Data::Sum(Sum {
                data_points: attributes
                    .into_iter()
                    .map(|a| points::number(values, a, times, !index.is_multiple_of(3)))
                    .collect(),
                aggregation_temporality: temporality,
                is_monotonic: kind == Kind::Counter,
            }),
            Kind::Histogram => Data::Histogram(Histogram {
                data_points: attributes
                    .into_iter()
                    .map(|a| points::histogram(values, a, times))
                    .collect(),
                aggregation_temporality: temporality,
            }),
            Kind::Exponential => Data::ExponentialHistogram(ExponentialHistogram {
                data_points: attributes
                    .into_iter()
                    .map(|a| points::exponential(values, a, times))
                    .collect(),
                aggregation_temporality: AggregationTemporality::Delta.into(),
            }),
            Kind::Summary => Data::Summary(Summary {
                data_points: attributes
                    .into_iter()
                    .map(|a| points::summary(values, a, times))
                    .collect(),
            }),
        }
    }

    fn resource(&self, number: usize) -> Resource {
        let mut random = Rng::with_seed(self.seed.wrapping_add(number as u64));
        let arguments = ["java", "-Xmx512m", "-jar", "/app.jar"];
        let arguments = arguments.map(|a| AnyValue {
            value: Some(Value::StringValue(a.to_owned())),
        });
        Resource {
            attributes: vec![
                text("service.name", MODULES[number % MODULES.len()]),
                text("service.namespace", "shop"),
                text("service.version", "2.14.1"),
                text("service.instance.id", &format!("{:032x}", random.u128(..))),
                text("deployment.environment.name", "production"),
                text("cloud.region", "eu-central-1"),
                text("k8s.namespace.name", "shop"),
                attribute("process.pid", Value::IntValue(random.i64(2..30_000))),
                attribute(
                    "process.command_args",
                    Value::ArrayValue(ArrayValue {
                        values: arguments.to_vec(),
                    }),
                ),
            ],
            dropped_attributes_count: 0,
            entity_refs: Vec::new(),
        }
    }
}

fn instrument(index: usize) -> &'static Instrument {
    &INSTRUMENTS[index % INSTRUMENTS.len()]
}

fn scope_of(number: usize) -> InstrumentationScope {
    InstrumentationScope {
        name: format!(
            "io.opentelemetry.instrumentation.{}",
            ["runtime", "netty", "jdbc", "kafka"][number % 4]
        ),
        version: "2.9.0".to_owned(),
        attributes: Vec::new(),
        dropped_attributes_count: 0,
    }
}

/// One small request that has everything: all types, attributes of all kinds on all levels, exemplars,
/// metadata, a resource without scopes, a scope without metrics, a metric without data, and absent parents.
pub fn everything(seed: u64) -> ExportMetricsServiceRequest {
    let mut random = Rng::with_seed(seed);
    let times = Times {
        start: START,
        now: START + STEP,
    };
    let mut counter = points::number(&mut random, points::all_kinds(), times, true);
    counter.exemplars.push(points::exemplar(&mut random, times));
    counter.flags = 1;
    let mut histogram = points::histogram(&mut random, points::all_kinds(), times);
    histogram.exemplars.push(points::exemplar(&mut random, times));
    let mut exponential = points::exponential(&mut random, Vec::new(), times);
    exponential.negative.clone_from(&exponential.positive);
    exponential.exemplars.push(points::exemplar(&mut random, times));
    let summary = points::summary(&mut random, points::all_kinds(), times);
    let gauge = points::number(&mut random, Vec::new(), times, false);
    let delta = AggregationTemporality::Delta.into();
    let data = [
        (
            "all.sum",
            Some(Data::Sum(Sum {
                data_points: vec![counter],
                aggregation_temporality: delta,
                is_monotonic: true,
            })),
        ),
        (
            "all.gauge",
            Some(Data::Gauge(Gauge {
                data_points: vec![gauge],
            })),
        ),
        (
            "all.histogram",
            Some(Data::Histogram(Histogram {
                data_points: vec![histogram],
                aggregation_temporality: delta,
            })),
        ),
        (
            "all.exponential",
            Some(Data::ExponentialHistogram(ExponentialHistogram {
                data_points: vec![exponential],
                aggregation_temporality: delta,
            })),
        ),
        (
            "all.summary",
            Some(Data::Summary(Summary {
                data_points: vec![summary],
            })),
        ),
        ("all.gauge.empty", Some(Data::Gauge(Gauge::default()))),
        ("all.missing", None),
    ];
    let metrics = data.map(|(name, data)| Metric {
        name: name.to_owned(),
        description: "One of each".to_owned(),
        unit: "1".to_owned(),
        metadata: vec![text("prometheus.type", "unknown")],
        data,
    });
    let scope = InstrumentationScope {
        attributes: points::all_kinds(),
        dropped_attributes_count: 2,
        ..scope_of(0)
    };
    let schema_url = SCHEMA_URL.to_owned();
    ExportMetricsServiceRequest {
        resource_metrics: vec![
            ResourceMetrics {
                resource: Some(Resource {
                    attributes: points::all_kinds(),
                    dropped_attributes_count: 1,
                    entity_refs: Vec::new(),
                }),
                scope_metrics: vec![
                    ScopeMetrics {
                        scope: Some(scope),
                        metrics: metrics.to_vec(),
                        schema_url: schema_url.clone(),
                    },
                    ScopeMetrics {
                        scope: Some(scope_of(1)),
                        metrics: Vec::new(),
                        schema_url: String::new(),
                    },
                    ScopeMetrics {
                        scope: None,
                        metrics: metrics[..1].to_vec(),
                        schema_url: String::new(),
                    },
                ],
                schema_url,
            },
            ResourceMetrics {
                resource: None,
                scope_metrics: Vec::new(),
                schema_url: String::new(),
            },
        ],
    }
}
