//! Where metrics come from: generated requests ([`Generator`]), senders of arbitrary bytes ([`GrpcSender`],
//! [`HttpSender`]), and the OpenTelemetry SDK's own exporters ([`sdk`]).

mod gauges;
mod generator;
mod grpc;
mod http;
mod instruments;
mod points;
pub mod sdk;
mod shape;
#[cfg(test)]
mod tests;

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

pub use gauges::gauges;
pub use generator::{Generator, everything};
pub use grpc::{GrpcOptions, GrpcOutcome, GrpcSender};
pub use http::{HttpError, HttpOptions, HttpOutcome, HttpSender};
pub use shape::{Shape, shape_a, shape_b, shape_d};

/// What a backend said it did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartialSuccess {
    /// Points rejected.
    pub rejected: i64,
    /// Why.
    pub message: String,
}

/// `bytes` as gzip, at the level that exporters use.
///
/// # Errors
/// Never in practice: it writes to memory.
pub fn gzip(bytes: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.into())
}

/// The partial success within the bytes of an OTLP answer, if there is one that says anything.
fn partial_success(answer: &[u8]) -> Option<PartialSuccess> {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
    use prost::Message as _;

    let partial = ExportMetricsServiceResponse::decode(answer)
        .ok()?
        .partial_success?;
    Some(PartialSuccess {
        rejected: partial.rejected_data_points,
        message: partial.error_message,
    })
}
