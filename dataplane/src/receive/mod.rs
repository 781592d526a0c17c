//! OTLP requests in: gRPC and HTTP, limits, unpacking, and the verdict back to the sender.
//!
//! ```text
//! socket -> serve (connections) -> receiver (which protocol?) -> grpc | http -> body, unpack -> Handler
//!                                                    |       answer <- reply <- Verdict <----------'
//!                                                    '-> refused: reply, and the rest of the body is seen to
//! ```
//!
//! Invariants:
//! - Both listeners speak both protocols; the request itself says which one it is (see [`serve`]).
//! - A sender gets success only for a [`Verdict`] that says so.
//! - What will never be accepted is never answered with a code or status that OTLP lists as retryable,
//!   and what may be accepted later never with one that it does not list.
//! - Limits hold before memory is taken: nothing larger than a limit is ever buffered, and of all requests together no more
//!   than [`in_flight`] has room for.
//! - No answer quotes what the sender sent.

use std::future::Future;

use bytes::Bytes;
use tokio::time::Instant;

use crate::verdict::Verdict;
use in_flight::Held;

mod body;
pub(crate) mod framing;
pub(crate) mod grpc;
mod http;
pub mod in_flight;
mod media_type;
mod receiver;
pub(crate) mod refusal;
pub(crate) mod reply;
mod rest;
pub mod serve;
pub mod stats;
mod unpack;

/// Takes one unpacked OTLP request and answers with a verdict.
pub trait Handler: Send + Sync + 'static {
    /// Called once for each request that was read completely. A panic in it is answered `INTERNAL`.
    fn handle(&self, request: Request) -> impl Future<Output = Verdict> + Send;
}

/// One request, read and unpacked.
#[derive(Debug)]
pub struct Request {
    /// An `ExportMetricsServiceRequest`, not looked into so far.
    pub body: Bytes,
    /// From the sender's `grpc-timeout`, counted from the arrival of the headers. The handler enforces it.
    pub deadline: Option<Instant>,
    /// Bytes of the message as it came over the wire.
    pub wire_bytes: u64,
    /// The room that `body` takes. It is given back with the request.
    pub held: Held,
}

/// How large a request may be.
#[derive(Debug, Clone, Copy)]
pub struct SizeLimits {
    /// `ingest.maxRequestBytes`: on the wire.
    pub max_request_bytes: usize,
    /// `ingest.maxUnpackedBytes`: after decompression.
    pub max_unpacked_bytes: usize,
}
