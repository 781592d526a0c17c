//! One request, whatever connection it came through: which protocol, then read, judge, answer.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http_body::Body;
use tokio::time::Instant;
use tonic::Code;

use super::in_flight::BytesInFlight;
use super::refusal::Refusal;
use super::reply::{self, ReplyBody};
use super::stats::{Cause, Stats, Transport};
use super::{Handler, Request, SizeLimits, grpc, http as otlp_http, media_type, rest};
use crate::verdict::Verdict;
use crate::wire_messages::EXPORT_PATH;

/// How long a body may take to arrive if the sender names no shorter time: ten times the usual export
/// timeout of a slow link, and short enough that stalled bodies do not pile up over a connection's age.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// What all requests share.
#[derive(Debug)]
pub(super) struct Receiver<H> {
    pub(super) handler: Arc<H>,
    pub(super) limits: SizeLimits,
    pub(super) in_flight: BytesInFlight,
    pub(super) stats: Stats,
}

impl<H: Handler> Receiver<H> {
    /// Never fails: whatever happens, the sender gets an answer.
    pub(super) async fn answer<B>(&self, request: http::Request<B>) -> http::Response<ReplyBody>
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
    {
        let is_grpc = request.uri().path() == EXPORT_PATH
            || media_type::is_grpc_family(request.headers().get(CONTENT_TYPE));
        let transport = if is_grpc { Transport::Grpc } else { Transport::Http };
        let (head, mut body) = request.into_parts();
        self.stats.transport(transport).requests.inc();
        let held = self.in_flight.begin();
        let read = match transport {
            Transport::Grpc => grpc::read(self.limits, held, &head, &mut body).await,
            Transport::Http => otlp_http::read(self.limits, held, &head, &mut body).await,
        };
        match read {
            Ok(request) => reply::verdict(transport, &self.handle(transport, request).await),
            Err(refusal) => {
                self.stats.transport(transport).refused(refusal.cause());
                let mut answer = reply::refusal(transport, &refusal);
                rest::see_to(&refusal, &head, body, &mut answer);
                answer
            }
        }
    }

    /// Hands a request over. A panic ends this request only.
    async fn handle(&self, transport: Transport, request: Request) -> Verdict {
        let stats = self.stats.transport(transport);
        stats.bytes.inc_by(request.wire_bytes);
        stats.unpacked_bytes.inc_by(request.body.len() as u64);
        let Some(verdict) = recover(self.handler.handle(request)).await else {
            stats.refused(Cause::Panic);
            tracing::error!("a request ended in a panic; its sender was told INTERNAL");
            return Verdict::Permanent {
                code: Code::Internal,
                message: "internal fault".to_owned(),
            };
        };
        if verdict.is_malformed() {
            stats.refused(Cause::MalformedProtobuf);
        }
        verdict
    }
}

/// Bounds the reading of a body by the sender's deadline and our own patience.
pub(super) async fn in_time<T>(
    arrived: Instant,
    deadline: Option<Instant>,
    reading: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    let patience = arrived + BODY_TIMEOUT;
    let until = deadline.map_or(patience, |deadline| deadline.min(patience));
    tokio::time::timeout_at(until, reading)
        .await
        .unwrap_or(Err(Refusal::TooSlow))
}

/// `None` if the future panicked. What it had borrowed mutably is dropped with it, hence unwind safe.
async fn recover<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(
        |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll.map(Some),
            Err(_) => Poll::Ready(None),
        },
    )
    .await
}
