//! The requests that are measured, and which of their metrics go.

use std::collections::HashSet;

use bytes::Bytes;
use jevmetrics_testkit::source::{Generator, Shape};

/// Several requests of one shape, of different service instances: one request, over and over, would be
/// learned by heart by the branch predictor.
pub(crate) const REQUESTS: u32 = 8;

/// Requests of one shape.
pub(crate) struct Workload {
    pub(crate) requests: Vec<Bytes>,
    /// Names of the metrics to drop: half of all.
    pub(crate) droppable: HashSet<String>,
    /// Data points in all requests together.
    pub(crate) points: usize,
    /// Bytes of all requests together.
    pub(crate) bytes: usize,
}

impl Workload {
    pub(crate) fn new(shape: Shape) -> Self {
        let mut generators: Vec<Generator> = (0..REQUESTS)
            .map(|seed| Generator::new(shape, seed.into()))
            .collect();
        let requests: Vec<Bytes> = generators.iter_mut().map(Generator::next_bytes).collect();
        Self {
            droppable: generators[0].droppable_names().into_iter().collect(),
            points: shape.metrics * shape.points * requests.len(),
            bytes: requests.iter().map(Bytes::len).sum(),
            requests,
        }
    }
}
