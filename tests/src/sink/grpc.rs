//! The gRPC side: OTLP's Export on raw bytes, so that what was sent is seen as it was sent.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use prost::Message as _;
use tonic::Status;
use tonic::codec::CompressionEncoding;
use tonic::metadata::{KeyAndValueRef, MetadataMap};
use tonic::server::{Grpc, UnaryService};

use super::{Protocol, Refusal, Shared, Verdict};
use crate::listener::Connection;
use crate::raw_codec::{EXPORT_PATH, RawCodec};
use crate::rpc;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route(EXPORT_PATH, post(export))
}

/// A path nobody serves: said in gRPC's words to gRPC clients.
pub(super) async fn unknown_path(request: Request) -> Response {
    let is_grpc = request
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|content_type| content_type.as_bytes().starts_with(b"application/grpc"));
    if is_grpc {
        return Status::unimplemented("no such method").into_http();
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

async fn export(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let limit = shared.options.max_message_bytes;
    Grpc::new(RawCodec)
        .accept_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(limit)
        .unary(
            Export {
                shared,
                called: false,
            },
            request,
        )
        .await
        .map(Body::new)
}

/// One call. If it is dropped without having been called, its message could not be read.
struct Export {
    shared: Arc<Shared>,
    called: bool,
}

impl UnaryService<Bytes> for Export {
    type Response = Bytes;
    type Future = Pin<Box<dyn Future<Output = Result<tonic::Response<Bytes>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        self.called = true;
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let connection = request.extensions().get::<Connection>().cloned();
            let headers = texts(request.metadata());
            match shared.decide(Protocol::Grpc, headers, request.into_inner()).await {
                Verdict::Accepted(response) => Ok(tonic::Response::new(response.encode_to_vec().into())),
                Verdict::Refused(refusal) => Err(status(&refusal)),
                Verdict::Close => {
                    if let Some(connection) = connection {
                        connection.close();
                    }
                    std::future::pending().await
                }
            }
        })
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        if !self.called {
            self.shared.unreadable();
        }
    }
}

fn texts(metadata: &MetadataMap) -> Vec<(String, String)> {
    metadata
        .iter()
        .filter_map(|entry| match entry {
            KeyAndValueRef::Ascii(key, value) => Some((key.to_string(), value.to_str().ok()?.to_owned())),
            KeyAndValueRef::Binary(..) => None,
        })
        .collect()
}

fn status(refusal: &Refusal) -> Status {
    if refusal.retry_after.is_none() {
        return Status::new(refusal.code, &refusal.message);
    }
    let details = rpc::Status::new(refusal.code, &refusal.message, refusal.retry_after);
    Status::with_details(refusal.code, &refusal.message, details.encode_to_vec().into())
}
