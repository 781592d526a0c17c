//! One gRPC connection over which encoded messages are sent.

use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::Failure;

const EXPORT_PATH: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// Prefix, and a partial success that says nothing, as the Collector answers when it took everything.
const WITHOUT_WORDS: usize = 5 + 2;

/// A connection; clones share it.
#[derive(Clone)]
pub(crate) struct Client {
    requests: SendRequest<Full<Bytes>>,
    uri: Uri,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (requests, connection) = http2::Builder::new(TokioExecutor::new())
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(connection);
        let uri = format!("http://{address}{EXPORT_PATH}").parse()?;
        Ok(Self { requests, uri })
    }

    /// Sends a message, prefix included; only the answer "all accepted" is a success.
    pub(crate) async fn send(&mut self, message: Bytes) -> Result<(), Failure> {
        self.requests.ready().await?;
        let mut request = Request::new(Full::new(message));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(TE, HeaderValue::from_static("trailers"));
        let response = self.requests.send_request(request).await?;
        let (head, mut body) = response.into_parts();
        let mut status = head.headers.get("grpc-status").cloned();
        while let Some(frame) = body.frame().await {
            let frame = frame?;
            if let Some(trailers) = frame.trailers_ref() {
                status = trailers.get("grpc-status").cloned();
            } else if frame.data_ref().is_some_and(|data| data.len() > WITHOUT_WORDS) {
                return Err("a request was answered with a partial success".into());
            }
        }
        match status {
            Some(status) if status == "0" => Ok(()),
            status => Err(format!("a request was answered with grpc-status {status:?}").into()),
        }
    }
}
