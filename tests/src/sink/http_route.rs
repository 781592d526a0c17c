//! The HTTP side: `POST /v1/metrics` with protobuf.

use std::io::Read as _;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use prost::Message as _;
use tonic::Code;

use super::{Protocol, Refusal, RefusalBody, Shared, Verdict};
use crate::listener::Connection;
use crate::rpc;

const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/v1/metrics", post(export))
}

async fn export(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let raw = match read(&head.headers, body, shared.options.max_message_bytes).await {
        Ok(raw) => raw,
        Err(refusal) => {
            shared.unreadable();
            return refused(&refusal);
        }
    };
    match shared.decide(Protocol::Http, texts(&head.headers), raw).await {
        Verdict::Accepted(response) => protobuf(StatusCode::OK, response.encode_to_vec()),
        Verdict::Refused(refusal) => refused(&refusal),
        Verdict::Close => {
            if let Some(connection) = head.extensions.get::<Connection>() {
                connection.close();
            }
            std::future::pending().await
        }
    }
}

/// The message's bytes: right type, within the limit, decompressed.
async fn read(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let unsupported =
        |message: &str| Refusal::new(Code::InvalidArgument, StatusCode::UNSUPPORTED_MEDIA_TYPE, message);
    let too_large = || {
        Refusal::new(
            Code::InvalidArgument,
            StatusCode::PAYLOAD_TOO_LARGE,
            "message too large",
        )
    };
    if headers.get(CONTENT_TYPE) != Some(&PROTOBUF) {
        return Err(unsupported("content type must be application/x-protobuf"));
    }
    // It fails when the body breaks off, too; then nobody reads the answer.
    let body = Limited::new(body, limit)
        .collect()
        .await
        .map_err(|_| too_large())?
        .to_bytes();
    match headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(body),
        Some(b"gzip") => {
            let mut message = Vec::new();
            let most = limit as u64 + 1;
            GzDecoder::new(&body[..])
                .take(most)
                .read_to_end(&mut message)
                .map_err(|_| Refusal::permanent("body is not gzip"))?;
            if message.len() > limit {
                Err(too_large())
            } else {
                Ok(message.into())
            }
        }
        Some(_) => Err(unsupported("content encoding must be gzip or identity")),
    }
}

fn texts(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
        .collect()
}

fn refused(refusal: &Refusal) -> Response {
    let mut response = match &refusal.body {
        RefusalBody::RpcStatus => {
            let body = rpc::Status::new(refusal.code, &refusal.message, refusal.retry_after);
            protobuf(refusal.status, body.encode_to_vec())
        }
        RefusalBody::Html(page) => {
            let mut response = Response::new(Body::from(page.clone()));
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
            response
        }
        RefusalBody::Empty => Response::new(Body::empty()),
    };
    *response.status_mut() = refusal.status;
    if let Some(wait) = refusal.retry_after {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

fn protobuf(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, PROTOBUF);
    response
}
