//! OTLP requests out: one request in, one verdict back, over gRPC or HTTP.
//!
//! ```text
//! Bytes -> pack (gzip?) -> grpc -> pool -> lanes (which connection?) | http -> downstream
//! Verdict <- translate <- status, RetryInfo, partial_success <----------------------'
//! ```
//!
//! Invariants:
//! - No queue: a verdict says what downstream said of this request, or why it could not say anything.
//! - A request is sent again only if downstream surely did not process it.
//! - Every wait ends at the deadline.
//! - What cannot be known (connection lost, no answer) is temporary: repeated rather than lost.

use std::sync::Arc;

use ::http::HeaderMap;
use bytes::Bytes;
use tokio::time::Instant;

use crate::verdict::Verdict;

mod answer;
pub mod grpc;
pub mod http;
mod lanes;
pub mod pack;
mod pool;
pub mod resolve;
pub mod stats;
mod translate;

/// Gives the configured headers for each request, so that a rotated secret acts at once. Called once a
/// request: implementations keep the map and replace it when something changes.
pub type HeaderSource = Arc<dyn Fn() -> Arc<HeaderMap> + Send + Sync>;

/// Headers that never change.
pub fn fixed_headers(headers: HeaderMap) -> HeaderSource {
    let headers = Arc::new(headers);
    Arc::new(move || Arc::clone(&headers))
}

/// Who we are, for downstream's logs.
pub(crate) const USER_AGENT: &str = concat!("jevmetrics/", env!("CARGO_PKG_VERSION"));

/// The way to downstream.
pub struct Exporter {
    protocol: Protocol,
    stats: stats::Stats,
}

/// The two rooms.
pub enum Protocol {
    /// OTLP/gRPC.
    Grpc(grpc::GrpcExporter),
    /// OTLP/HTTP with protobuf bodies.
    Http(http::HttpExporter),
}

impl Exporter {
    /// Counts what `protocol` does in `stats`.
    pub fn new(protocol: Protocol, stats: stats::Stats) -> Self {
        Self { protocol, stats }
    }

    /// Sends one `ExportMetricsServiceRequest` and says what became of it.
    ///
    /// # Guarantees
    /// Ends at `deadline` at the latest. [`Verdict::Accepted`] and [`Verdict::Partial`] are downstream's own
    /// words, never an assumption.
    ///
    /// # Caveats
    /// After a [`Verdict::Temporary`] downstream may have accepted the request all the same.
    pub async fn export(&self, body: Bytes, deadline: Instant) -> Verdict {
        let started = Instant::now();
        let sent = match &self.protocol {
            Protocol::Grpc(exporter) => exporter.export(body, deadline).await,
            Protocol::Http(exporter) => exporter.export(body, deadline).await,
        };
        self.stats.record(&sent.verdict, sent.bytes, started.elapsed());
        sent.verdict
    }
}

/// What became of a request.
struct Sent {
    verdict: Verdict,
    /// Size of the message as it went, or would have gone, over the wire.
    bytes: u64,
}
