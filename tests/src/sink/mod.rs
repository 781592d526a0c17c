//! An OTLP backend that takes, counts and, if told, refuses: gRPC and HTTP/protobuf on one port.
//!
//! ```text
//! gRPC ─┐
//!       ├─▶ decompress ─▶ decode ─▶ script ─▶ tally (accepted | refused) ─▶ answer in its protocol
//! HTTP ─┘
//! ```
//!
//! Invariants: a request is in exactly one tally, unless its client left before the decision or it could not
//! be decoded; it is tallied before its answer leaves; the bytes kept are those that came.

mod answer;
mod grpc;
mod http_route;
mod ledger;
mod tally;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::Router;
use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use prost::Message as _;
use serde::{Deserialize, Serialize};

use crate::listener::Listener;
use crate::ports::LOOPBACK;
use crate::script::Script;

pub use answer::{Answer, Refusal, RefusalBody};
pub use ledger::{InstrumentLedger, Ledger, SourceLedger};
pub use tally::{Count, Tally};

/// How a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// gRPC.
    Grpc,
    /// HTTP with protobuf.
    Http,
}

/// How much the sink looks at. Benchmarks want little.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Requests and bytes; nothing is decoded.
    Bytes,
    /// Decodes and counts, numbered points one by one.
    Count,
    /// Decodes, counts and keeps every accepted request.
    Keep,
}

/// How to set up a sink.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How much it looks at.
    pub depth: Depth,
    /// A larger message (after decompression) is refused.
    pub max_message_bytes: usize,
    /// Where it listens; port 0 for a free one.
    pub listen: SocketAddr,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            depth: Depth::Keep,
            max_message_bytes: 64 << 20,
            listen: LOOPBACK,
        }
    }
}

/// An accepted request.
#[derive(Debug, Clone)]
pub struct Received {
    /// When it had arrived completely.
    pub at: Instant,
    /// How it came.
    pub protocol: Protocol,
    /// Its headers or metadata, names in lower case; binary metadata is left out.
    pub headers: Vec<(String, String)>,
    /// The message's bytes after decompression.
    pub raw: Bytes,
    /// The message.
    pub message: ExportMetricsServiceRequest,
}

/// What the sink has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that arrived completely, whatever became of them.
    pub arrived: u64,
    /// What was taken.
    pub accepted: Tally,
    /// What was not taken, by script.
    pub refused: Tally,
    /// Points that partial successes said were rejected; they are among the accepted.
    pub said_rejected: i64,
    /// Requests that were no OTLP.
    pub undecodable: u64,
    /// Requests that could not be read: too large, wrong encoding.
    pub unreadable: u64,
}

/// A running sink. Dropping it stops it.
#[derive(Debug)]
pub struct Sink {
    shared: Arc<Shared>,
    listener: Listener,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    script: Script<Answer>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    ledger: Ledger,
    received: Vec<Received>,
}

/// What becomes of a request, to be said in its protocol.
enum Verdict {
    Accepted(ExportMetricsServiceResponse),
    Refused(Refusal),
    Close,
}

impl Sink {
    /// With default options.
    ///
    /// # Errors
    /// No port could be bound.
    pub async fn start() -> io::Result<Self> {
        Self::start_with(Options::default()).await
    }

    /// With these options.
    ///
    /// # Errors
    /// The port could not be bound.
    pub async fn start_with(options: Options) -> io::Result<Self> {
        let state = Mutex::default();
        let shared = Arc::new(Shared {
            options,
            script: Script::new(Answer::Accept),
            state,
        });
        let router = Router::new()
            .merge(grpc::routes())
            .merge(http_route::routes())
            .fallback(grpc::unknown_path)
            .with_state(Arc::clone(&shared));
        let listener = Listener::start(router, options.listen).await?;
        Ok(Self { shared, listener })
    }

    /// Where it listens, also while stopped.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The endpoint for both protocols: HTTP clients add `/v1/metrics`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// What it answers next.
    pub fn script(&self) -> &Script<Answer> {
        &self.shared.script
    }

    /// What it has seen so far.
    pub fn counts(&self) -> Counts {
        self.shared.with(|state| state.counts.clone())
    }

    /// Which numbered points were accepted so far.
    pub fn ledger(&self) -> Ledger {
        self.shared.with(|state| state.ledger.clone())
    }

    /// The accepted requests so far, in order; empty unless [`Depth::Keep`].
    pub fn received(&self) -> Vec<Received> {
        self.shared.with(|state| state.received.clone())
    }

    /// Forgets what was kept and counted.
    pub fn reset(&self) {
        self.shared.with(|state| *state = State::default());
    }

    /// Closes the port and cuts all connections.
    pub async fn stop(&self) {
        self.listener.stop().await;
    }

    /// Listens again on the same port.
    ///
    /// # Errors
    /// The port was taken meanwhile.
    pub async fn restart(&self) -> io::Result<()> {
        self.listener.restart().await
    }
}

impl Shared {
    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn unreadable(&self) {
        self.with(|state| {
            state.counts.arrived += 1;
            state.counts.unreadable += 1;
        });
    }

    /// Decides about one message, and tallies it.
    async fn decide(&self, protocol: Protocol, headers: Vec<(String, String)>, raw: Bytes) -> Verdict {
        let at = Instant::now();
        self.with(|state| state.counts.arrived += 1);
        let message = match self.options.depth {
            Depth::Bytes => None,
            Depth::Count | Depth::Keep => match ExportMetricsServiceRequest::decode(raw.clone()) {
                Ok(message) => Some(message),
                Err(error) => {
                    self.with(|state| state.counts.undecodable += 1);
                    return Verdict::Refused(Refusal::permanent(&error.to_string()));
                }
            },
        };
        let mut request = Some(Received {
            at,
            protocol,
            headers,
            raw,
            message: message.unwrap_or_default(),
        });
        let mut answer = self.script.next();
        loop {
            answer = match answer {
                Answer::Delay(delay, then) => {
                    tokio::time::sleep(delay).await;
                    *then
                }
                Answer::AcceptThen(then) => {
                    self.settle(&mut request, true);
                    *then
                }
                Answer::Accept => {
                    self.settle(&mut request, true);
                    return Verdict::Accepted(ExportMetricsServiceResponse::default());
                }
                Answer::Partial { rejected, message } => {
                    self.settle(&mut request, true);
                    self.with(|state| state.counts.said_rejected += rejected);
                    let partial = ExportMetricsPartialSuccess {
                        rejected_data_points: rejected,
                        error_message: message,
                    };
                    return Verdict::Accepted(ExportMetricsServiceResponse {
                        partial_success: Some(partial),
                    });
                }
                Answer::Refuse(refusal) => {
                    self.settle(&mut request, false);
                    return Verdict::Refused(refusal);
                }
                Answer::Hang => {
                    self.settle(&mut request, false);
                    std::future::pending().await
                }
                Answer::Close => {
                    self.settle(&mut request, false);
                    return Verdict::Close;
                }
            };
        }
    }

    /// Tallies the request, once.
    fn settle(&self, request: &mut Option<Received>, accepted: bool) {
        let Some(request) = request.take() else { return };
        self.with(|state| {
            let tally = if accepted {
                &mut state.counts.accepted
            } else {
                &mut state.counts.refused
            };
            tally.add_bytes(request.raw.len());
            tally.add(&request.message);
            if accepted {
                state.ledger.add(&request.message);
                if self.options.depth == Depth::Keep {
                    state.received.push(request);
                }
            }
        });
    }
}
