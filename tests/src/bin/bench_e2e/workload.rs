//! What is sent, and what must come out: the oracle.
//!
//! Invariants: requests are encoded before anything is measured; the oracle works on decoded messages and
//! shares no code with the data plane.

use bytes::{BufMut as _, Bytes, BytesMut};
use jevmetrics_testkit::mock_jev::DROP_MARKERS;
use jevmetrics_testkit::otlp::request_points;
use jevmetrics_testkit::source::{Generator, Shape, gzip, shape_a, shape_b, shape_d};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;

use crate::Failure;

/// Realistic metrics compress like this; others would flatter copies or hashes.
const GZIP_RATIO: std::ops::RangeInclusive<f64> = 4.0..=8.0;
/// Service instances in a workload: each has identities of its own.
const INSTANCES: u64 = 2;
/// Distinct requests of an instance.
const REQUESTS: usize = 4;
/// Metrics that shape D is cut from.
const METRICS_OF_D: usize = 40;

/// One request with what is expected of it.
#[derive(Debug)]
pub(crate) struct Input {
    /// The gRPC message: prefix and body.
    pub(crate) message: Bytes,
    pub(crate) points: u64,
    pub(crate) whole: ExportMetricsServiceRequest,
    /// Without the droppable metrics; `None` if nothing is left.
    pub(crate) kept: Option<ExportMetricsServiceRequest>,
}

/// Requests that are sent in turn.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) inputs: Vec<Input>,
    pub(crate) droppable: Vec<String>,
    /// Encoded bytes of a point, prefix left out.
    pub(crate) bytes_per_point: f64,
    pub(crate) gzip_ratio: f64,
}

impl Workload {
    /// 100 metrics × 10 points.
    pub(crate) fn a() -> Result<Self, Failure> {
        Self::of_shape(shape_a())
    }

    /// 1,000 metrics × 1 point.
    pub(crate) fn b() -> Result<Self, Failure> {
        Self::of_shape(shape_b())
    }

    /// 1 metric × 10 points: many instruments, each in a request of its own; half of the requests are dropped
    /// as a whole.
    pub(crate) fn d() -> Result<Self, Failure> {
        let shape = Shape {
            metrics: METRICS_OF_D,
            droppable_percent: 50,
            ..shape_d()
        };
        let (requests, droppable) = generate(shape);
        Self::new(requests.iter().flat_map(one_by_one).collect(), droppable)
    }

    fn of_shape(shape: Shape) -> Result<Self, Failure> {
        let (requests, droppable) = generate(shape);
        Self::new(requests, droppable)
    }

    #[allow(clippy::cast_precision_loss, reason = "a few megabytes")]
    fn new(requests: Vec<ExportMetricsServiceRequest>, droppable: Vec<String>) -> Result<Self, Failure> {
        let inputs: Vec<Input> = requests.into_iter().map(Input::new).collect();
        let (mut bytes, mut packed, mut points) = (0, 0, 0);
        for input in &inputs {
            let body = &input.message[5..];
            bytes += body.len();
            packed += gzip(body)?.len();
            points += input.points;
        }
        let gzip_ratio = bytes as f64 / packed as f64;
        // A request of ten points is too short to compress as well.
        if inputs.iter().all(|input| input.points >= 1_000) && !GZIP_RATIO.contains(&gzip_ratio) {
            return Err(format!("the workload's gzip ratio is {gzip_ratio:.1}: not realistic").into());
        }
        Ok(Self {
            inputs,
            droppable,
            bytes_per_point: bytes as f64 / points as f64,
            gzip_ratio,
        })
    }
}

impl Input {
    fn new(whole: ExportMetricsServiceRequest) -> Self {
        let kept = without_droppable(&whole);
        let body = whole.encode_to_vec();
        let mut message = BytesMut::with_capacity(5 + body.len());
        message.put_u8(0);
        message.put_u32(u32::try_from(body.len()).unwrap_or(u32::MAX));
        message.put_slice(&body);
        Self {
            message: message.freeze(),
            points: request_points(&whole) as u64,
            kept: (request_points(&kept) > 0).then_some(kept),
            whole,
        }
    }
}

fn generate(shape: Shape) -> (Vec<ExportMetricsServiceRequest>, Vec<String>) {
    let mut requests = Vec::new();
    let mut droppable = Vec::new();
    for instance in 0..INSTANCES {
        let mut generator = Generator::new(shape, 1_000 + instance);
        requests.extend((0..REQUESTS).map(|_| generator.next_request()));
        droppable = generator.droppable_names();
    }
    (requests, droppable)
}

fn one_by_one(request: &ExportMetricsServiceRequest) -> Vec<ExportMetricsServiceRequest> {
    let mut all = Vec::new();
    for resource in &request.resource_metrics {
        for scope in &resource.scope_metrics {
            for metric in &scope.metrics {
                let mut scope = scope.clone();
                scope.metrics = vec![metric.clone()];
                let mut resource = resource.clone();
                resource.scope_metrics = vec![scope];
                all.push(ExportMetricsServiceRequest {
                    resource_metrics: vec![resource],
                });
            }
        }
    }
    all
}

fn without_droppable(request: &ExportMetricsServiceRequest) -> ExportMetricsServiceRequest {
    let is_droppable = |name: &str| DROP_MARKERS.iter().any(|marker| name.contains(marker));
    let mut kept = request.clone();
    for resource in &mut kept.resource_metrics {
        for scope in &mut resource.scope_metrics {
            scope.metrics.retain(|metric| !is_droppable(&metric.name));
        }
        resource.scope_metrics.retain(|scope| !scope.metrics.is_empty());
    }
    kept.resource_metrics
        .retain(|resource| !resource.scope_metrics.is_empty());
    kept
}
