//! One gRPC connection over which encoded messages are sent.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderValue, Method, Request, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::Failure;

const EXPORT_PATH: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// Prefix, and a partial success that says nothing, as the Collector answers when it took everything.
const WITHOUT_WORDS: usize = 5 + 2;

/// In how large frames a message is sent, at the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frames {
    /// 16 KiB, as Go's senders do whatever a server would take.
    Default,
    /// As large as the server takes.
    Negotiated,
}

impl Frames {
    fn limit(self) -> usize {
        match self {
            Self::Default => 16 << 10,
            Self::Negotiated => usize::MAX,
        }
    }
}

/// A connection; clones share it.
#[derive(Clone)]
pub(crate) struct Client {
    requests: SendRequest<Pieces>,
    uri: Uri,
    frames: Frames,
}

/// A message in pieces; HTTP/2 makes each a frame of its own, or several.
pub(crate) struct Pieces {
    left: Bytes,
    limit: usize,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.left.len().min(self.limit);
        let piece = self.left.split_to(length);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr, frames: Frames) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (requests, connection) = http2::Builder::new(TokioExecutor::new())
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(connection);
        let uri = format!("http://{address}{EXPORT_PATH}").parse()?;
        Ok(Self {
            requests,
            uri,
            frames,
        })
    }

    /// Sends a message, prefix included; only the answer "all accepted" is a success.
    pub(crate) async fn send(&mut self, message: Bytes) -> Result<(), Failure> {
        self.requests.ready().await?;
        let mut request = Request::new(Pieces {
            left: message,
            limit: self.frames.limit(),
        });
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
