//! Rows `identities_1m_vs_1k` and `bytes_per_identity`: what a request costs when a million identities are
//! live, against a thousand.
//!
//! Both engines have a table for a million and get the same buffers: 100 metrics of 10 points, half of them
//! dropped. Before each request the instance ids in it are overwritten in place with those of a random
//! instance, one of 10,000 or one of 10. That costs well below one percent of a request, on both sides.

use std::hint::black_box;

use bytes::Bytes;
use fastrand::Rng;
use jevmetrics_testkit::source::{Generator, shape_a};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message as _;

use crate::agreement;
use crate::error::BenchError;
use crate::memory::resident_bytes;
use crate::report::{Bound, Report};
use crate::rounds::{Effort, compare};
use crate::warm::Warm;
use crate::workload::REQUESTS;

const TABLE: usize = 1_000_000;
const FEW_INSTANCES: u64 = 10;
const MANY_INSTANCES: u64 = 10_000;
const MOST_RATIO: f64 = 1.5;
/// Resident cost of an identity that the design allows.
const MOST_BYTES: f64 = 160.0;
const INSTANCE_ID: &str = "service.instance.id";
/// Requests in one pass: long enough to hide the clock.
const PASS: usize = 32;

/// Both rows.
pub(crate) fn run(effort: Effort, report: &mut Report) -> Result<(), BenchError> {
    let mut generator = Generator::new(shape_a(), 0);
    let droppable = generator.droppable_names().into_iter().collect();
    let mut templates: Vec<Template> = (0..REQUESTS)
        .map(|_| Template::new(&generator.next_request()))
        .collect::<Result<_, _>>()?;
    let mut learn = |engine: &Warm, instances: u64| -> Result<(), BenchError> {
        (0..instances).try_for_each(|instance| {
            templates[0].set_instance(instance);
            engine.learn(&templates[0].request, &droppable)
        })
    };

    let few = Warm::new(TABLE, &[], &[])?;
    learn(&few, FEW_INSTANCES)?;
    let before = resident_bytes()?;
    let many = Warm::new(TABLE, &[], &[])?;
    learn(&many, MANY_INSTANCES)?;
    let after = resident_bytes()?;

    let mut few_requests = Requests::new(templates.clone(), FEW_INSTANCES);
    let mut many_requests = Requests::new(templates, MANY_INSTANCES);
    for (engine, requests) in [(&few, &mut few_requests), (&many, &mut many_requests)] {
        check(engine, requests)?;
    }
    let mut pass_few = || pass(&few, &mut few_requests);
    let mut pass_many = || pass(&many, &mut many_requests);
    let paired = compare(effort, &mut pass_few, &mut pass_many)?;
    report.ratio("identities_1m_vs_1k", Bound::AtMost(MOST_RATIO), paired);
    if let Some(paired) = paired {
        report.info(
            "ns_per_request_1k",
            paired.first.median / as_float(PASS as u64),
            "ns",
        );
        report.info(
            "ns_per_request_1m",
            paired.second.median / as_float(PASS as u64),
            "ns",
        );
    }
    let bytes = as_float(after.saturating_sub(before)) / as_float(TABLE as u64);
    report.value(
        "bytes_per_identity",
        bytes,
        Bound::AtMost(MOST_BYTES),
        "B, table, slack and texts included",
    );
    Ok(())
}

/// The claim of the row: all is known, half goes.
fn check(engine: &Warm, requests: &mut Requests) -> Result<(), BenchError> {
    for _ in 0..requests.instances * 2 {
        agreement::check_half(&engine.process(requests.next())?)?;
    }
    Ok(())
}

fn pass(engine: &Warm, requests: &mut Requests) -> Result<(), BenchError> {
    for _ in 0..PASS {
        black_box(engine.process(requests.next())?);
    }
    Ok(())
}

/// An endless sequence of requests of random instances.
struct Requests {
    templates: Vec<Template>,
    instances: u64,
    random: Rng,
    turn: usize,
}

impl Requests {
    fn new(templates: Vec<Template>, instances: u64) -> Self {
        Self {
            templates,
            instances,
            random: Rng::with_seed(7),
            turn: 0,
        }
    }

    fn next(&mut self) -> &Bytes {
        self.turn = (self.turn + 1) % self.templates.len();
        let template = &mut self.templates[self.turn];
        template.set_instance(self.random.u64(..self.instances));
        &template.request
    }
}

/// A request in which the instance ids can be overwritten.
struct Template {
    request: Bytes,
    /// Where the 32 digits of each resource's instance id begin.
    places: Vec<usize>,
}

impl Clone for Template {
    /// Has bytes of its own.
    fn clone(&self) -> Self {
        Self {
            request: self.request.to_vec().into(),
            places: self.places.clone(),
        }
    }
}

impl Template {
    fn new(message: &ExportMetricsServiceRequest) -> Result<Self, BenchError> {
        let request = message.encode_to_vec();
        let places = message
            .resource_metrics
            .iter()
            .flat_map(|entry| &entry.resource)
            .flat_map(|resource| &resource.attributes)
            .filter(|attribute| attribute.key == INSTANCE_ID)
            .filter_map(|attribute| match attribute.value.as_ref()?.value.as_ref()? {
                Value::StringValue(id) if id.len() == 32 => place_of(&request, id.as_bytes()),
                _ => None,
            })
            .collect::<Vec<_>>();
        if places.len() != message.resource_metrics.len() {
            return Err(BenchError::Claim(format!(
                "every resource has a {INSTANCE_ID} of 32 digits"
            )));
        }
        Ok(Self {
            request: request.into(),
            places,
        })
    }

    fn set_instance(&mut self, instance: u64) {
        // Nobody else holds the bytes: this copies nothing.
        let mut bytes = bytes::BytesMut::from(std::mem::take(&mut self.request));
        for (resource, place) in (0_u64..).zip(&self.places) {
            let mut digits = (instance << 8 | resource).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            for byte in &mut bytes[*place..*place + 16] {
                *byte = b"0123456789abcdef"[(digits & 15) as usize];
                digits >>= 4;
            }
        }
        self.request = bytes.freeze();
    }
}

fn place_of(request: &[u8], id: &[u8]) -> Option<usize> {
    request.windows(id.len()).position(|window| window == id)
}

#[allow(clippy::cast_precision_loss, reason = "counts and bytes of one process")]
fn as_float(count: u64) -> f64 {
    count as f64
}
