//! Counting what arrives: metrics and data points by name and type, companions apart.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use serde::{Deserialize, Serialize};

use crate::otlp::{DataType, data_points, data_type, is_companion, metrics};

/// Metrics (entries in a request, however often a name comes) and their data points.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Metrics.
    pub metrics: u64,
    /// Data points.
    pub points: u64,
}

/// What a number of requests contained.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Requests.
    pub requests: u64,
    /// Bytes of their bodies after decompression.
    pub bytes: u64,
    /// All but companions.
    pub others: Count,
    /// The companion gauges.
    pub companions: Count,
    /// By name, companions too.
    pub by_name: BTreeMap<String, Count>,
    /// By type, companions not.
    pub by_type: BTreeMap<DataType, Count>,
}

impl Count {
    fn add(&mut self, points: u64) {
        self.metrics += 1;
        self.points += points;
    }
}

impl Tally {
    /// Data points under `name`.
    pub fn points_of(&self, name: &str) -> u64 {
        self.by_name.get(name).map_or(0, |count| count.points)
    }

    pub(super) fn add_bytes(&mut self, bytes: usize) {
        self.requests += 1;
        self.bytes += bytes as u64;
    }

    pub(super) fn add(&mut self, request: &ExportMetricsServiceRequest) {
        for metric in metrics(request) {
            let points = data_points(metric) as u64;
            if is_companion(&metric.name) {
                self.companions.add(points);
            } else {
                self.others.add(points);
                self.by_type.entry(data_type(metric)).or_default().add(points);
            }
            if let Some(count) = self.by_name.get_mut(&metric.name) {
                count.add(points);
            } else {
                self.by_name
                    .insert(metric.name.clone(), Count { metrics: 1, points });
            }
        }
    }
}
