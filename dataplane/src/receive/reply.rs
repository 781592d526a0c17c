//! Verdicts and refusals become answers. Pure.
//!
//! The one place that decides what a sender is told. Invariants: a [`Verdict::Temporary`] leaves with a code
//! or status on which OTLP senders try again, a [`Verdict::Permanent`] with one on which they do not,
//! whatever code it came with.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use prost::Message;
use tonic::Code;

use super::refusal::Refusal;
use super::stats::Transport;
use crate::verdict::Verdict;
use crate::wire_messages::{
    ExportMetricsPartialSuccess, ExportMetricsServiceResponse, PREFIX_LEN, Status, prefix,
};

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");
const SUPPORTED_CODINGS: HeaderValue = HeaderValue::from_static("identity,gzip");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// An empty `ExportMetricsServiceResponse` as a gRPC message.
const EMPTY_MESSAGE: Bytes = Bytes::from_static(&[0; PREFIX_LEN]);

/// At most one data frame, then at most one block of trailers.
#[derive(Debug, Default)]
pub(crate) struct ReplyBody {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match self.data.take() {
            Some(data) => Some(Frame::data(data)),
            None => self.trailers.take().map(Frame::trailers),
        };
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.as_ref().map_or(0, |data| data.len() as u64))
    }
}

/// The answer to a request.
pub(super) fn verdict(transport: Transport, verdict: &Verdict) -> Response<ReplyBody> {
    match transport {
        Transport::Grpc => grpc(verdict),
        Transport::Http => http(verdict),
    }
}

/// The answer to a request that was refused.
pub(super) fn refusal(transport: Transport, refusal: &Refusal) -> Response<ReplyBody> {
    match transport {
        Transport::Grpc => grpc_refusal(refusal),
        Transport::Http => http_refusal(refusal),
    }
}

/// The answer to a gRPC sender.
fn grpc(verdict: &Verdict) -> Response<ReplyBody> {
    match verdict {
        Verdict::Accepted => grpc_success(EMPTY_MESSAGE),
        Verdict::Partial { rejected, message } => grpc_message(&partial_success(*rejected, message)),
        Verdict::Temporary { code, message, wait } => {
            grpc_failure(temporary_code(*code, *wait), message, *wait)
        }
        Verdict::Permanent { code, message } => grpc_failure(permanent_code(*code), message, None),
    }
}

/// The answer to a gRPC sender whose request was refused.
pub(crate) fn grpc_refusal(refusal: &Refusal) -> Response<ReplyBody> {
    match refusal {
        Refusal::WrongMethod | Refusal::NeedsHttp2 | Refusal::UnsupportedGrpcType => {
            plain_refusal(refusal, ReplyBody::default())
        }
        _ => {
            let mut response = grpc_failure(refusal.code(), &refusal.to_string(), refusal.wait());
            if *refusal == Refusal::UnsupportedEncoding {
                response
                    .headers_mut()
                    .insert(GRPC_ACCEPT_ENCODING, SUPPORTED_CODINGS);
            }
            response
        }
    }
}

/// The answer to an HTTP sender.
fn http(verdict: &Verdict) -> Response<ReplyBody> {
    match verdict {
        Verdict::Accepted => http_answer(StatusCode::OK, Bytes::new()),
        Verdict::Partial { rejected, message } => http_answer(
            StatusCode::OK,
            partial_success(*rejected, message).encode_to_vec().into(),
        ),
        Verdict::Temporary { code, message, wait } => {
            let code = temporary_code(*code, *wait);
            let status = match code {
                Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
                Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            };
            let mut response = http_answer(status, status_body(code, message, *wait));
            retry_after(&mut response, *wait);
            response
        }
        Verdict::Permanent { code, message } => {
            let code = permanent_code(*code);
            let status = match code {
                Code::Unauthenticated => StatusCode::UNAUTHORIZED,
                Code::PermissionDenied => StatusCode::FORBIDDEN,
                Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
                _ => StatusCode::BAD_REQUEST,
            };
            http_answer(status, status_body(code, message, None))
        }
    }
}

/// The answer to an HTTP sender whose request was refused.
fn http_refusal(refusal: &Refusal) -> Response<ReplyBody> {
    let body = status_body(refusal.code(), &refusal.to_string(), refusal.wait());
    let mut response = plain_refusal(
        refusal,
        ReplyBody {
            data: Some(body),
            trailers: None,
        },
    );
    response.headers_mut().insert(CONTENT_TYPE, PROTOBUF);
    retry_after(&mut response, refusal.wait());
    if *refusal == Refusal::UnsupportedEncoding {
        response.headers_mut().insert(ACCEPT_ENCODING, SUPPORTED_CODINGS);
    }
    response
}

fn plain_refusal(refusal: &Refusal, body: ReplyBody) -> Response<ReplyBody> {
    let mut response = Response::new(body);
    *response.status_mut() = refusal.http_status();
    if *refusal == Refusal::WrongMethod {
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("POST"));
    }
    response
}

/// A message, and success.
pub(crate) fn grpc_message(message: &impl Message) -> Response<ReplyBody> {
    let length = message.encoded_len();
    let mut framed = Vec::with_capacity(PREFIX_LEN + length);
    framed.extend_from_slice(&prefix(false, length));
    framed.extend_from_slice(&message.encode_to_vec());
    grpc_success(framed.into())
}

fn grpc_success(message: Bytes) -> Response<ReplyBody> {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
    let mut response = Response::new(ReplyBody {
        data: Some(message),
        trailers: Some(trailers),
    });
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    response
}

/// Trailers only: the status stands in the headers.
fn grpc_failure(code: Code, message: &str, wait: Option<Duration>) -> Response<ReplyBody> {
    let details = wait.map(|_| status_body(code, message, wait)).unwrap_or_default();
    let status = tonic::Status::with_details(code, message, details);
    let mut response = Response::new(ReplyBody::default());
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    if status.add_header(response.headers_mut()).is_err() {
        // Not reachable: message and details are encoded for headers. A status must leave in any case.
        response
            .headers_mut()
            .insert(GRPC_STATUS, HeaderValue::from(code as i32));
    }
    response
}

fn http_answer(status: StatusCode, body: Bytes) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody {
        data: Some(body),
        trailers: None,
    });
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, PROTOBUF);
    response
}

fn status_body(code: Code, message: &str, wait: Option<Duration>) -> Bytes {
    Status::new(code as i32, message, wait).encode_to_vec().into()
}

fn partial_success(rejected: u64, message: &str) -> ExportMetricsServiceResponse {
    ExportMetricsServiceResponse {
        partial_success: Some(ExportMetricsPartialSuccess {
            rejected_data_points: i64::try_from(rejected).unwrap_or(i64::MAX),
            error_message: message.to_owned(),
        }),
    }
}

fn retry_after(response: &mut Response<ReplyBody>, wait: Option<Duration>) {
    if let Some(wait) = wait {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
    }
}

/// `Retry-After` has no fractions: the sender must not come too early.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0))
}

/// OTLP lets senders try again on these; on `RESOURCE_EXHAUSTED` only together with a wait.
fn is_retryable(code: Code, wait: Option<Duration>) -> bool {
    match code {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => true,
        Code::ResourceExhausted => wait.is_some(),
        _ => false,
    }
}

fn temporary_code(code: Code, wait: Option<Duration>) -> Code {
    if is_retryable(code, wait) {
        code
    } else {
        Code::Unavailable
    }
}

fn permanent_code(code: Code) -> Code {
    if code == Code::Ok || is_retryable(code, None) {
        Code::InvalidArgument
    } else {
        code
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn codes() -> impl Iterator<Item = Code> {
        (0..=16).map(Code::from_i32)
    }

    fn grpc_status(response: &Response<ReplyBody>) -> (Code, Option<Duration>) {
        let status = tonic::Status::from_header_map(response.headers()).unwrap();
        (status.code(), Status::decode(status.details()).unwrap().wait())
    }

    #[test]
    fn permanent_is_never_answered_as_retryable() {
        for code in codes() {
            let verdict = Verdict::Permanent {
                code,
                message: "no".into(),
            };
            let (sent, wait) = grpc_status(&grpc(&verdict));
            assert!(
                sent != Code::Ok && !is_retryable(sent, wait),
                "{code:?} became {sent:?}"
            );
            let status = http(&verdict).status().as_u16();
            assert!(
                status >= 400 && ![429, 502, 503, 504].contains(&status),
                "{code:?} became {status}"
            );
        }
    }

    #[test]
    fn temporary_is_always_answered_as_retryable_and_keeps_its_wait() {
        for code in codes() {
            for wait in [None, Some(Duration::from_millis(1_500))] {
                let verdict = Verdict::Temporary {
                    code,
                    message: "later".into(),
                    wait,
                };
                let (sent, sent_wait) = grpc_status(&grpc(&verdict));
                assert!(is_retryable(sent, sent_wait), "{code:?} became {sent:?}");
                assert_eq!(sent_wait, wait);
                let response = http(&verdict);
                assert!([429, 503, 504].contains(&response.status().as_u16()));
                let seconds = response
                    .headers()
                    .get(RETRY_AFTER)
                    .map(|value| value.to_str().unwrap());
                assert_eq!(seconds, wait.map(|_| "2"));
            }
        }
    }

    #[test]
    fn refusals_of_what_will_never_fit_are_not_retryable() {
        for refusal in [
            Refusal::TooLarge { limit: 1 },
            Refusal::UnpackedTooLarge { limit: 1 },
            Refusal::BrokenGzip,
            Refusal::UnsupportedEncoding,
            Refusal::NotFound { path: "/v1/metrics" },
        ] {
            let (code, _) = grpc_status(&grpc_refusal(&refusal));
            assert!(
                !is_retryable(code, None) && code != Code::ResourceExhausted,
                "{refusal:?}"
            );
            assert!(http_refusal(&refusal).status().is_client_error(), "{refusal:?}");
        }
    }

    #[test]
    fn messages_that_are_not_ascii_survive() {
        let message = "grün, 100 %\n";
        let response = grpc(&Verdict::Permanent {
            code: Code::InvalidArgument,
            message: message.into(),
        });
        assert_eq!(
            tonic::Status::from_header_map(response.headers())
                .unwrap()
                .message(),
            message
        );
    }
}
