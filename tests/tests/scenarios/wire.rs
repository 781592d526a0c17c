//! One connection that the test holds: shows what a single connection bears, and sends what no client would.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jevmetrics_testkit::process::DataPlane;
use jevmetrics_testkit::rpc;
use prost::Message as _;
use tokio::net::TcpStream;
use tonic::Code;

use crate::support::{Told, Via};

const GRPC_PATH: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
const HTTP_PATH: &str = "/v1/metrics";

/// A message as it goes over the wire, with what is said of it.
#[derive(Debug, Clone)]
pub(crate) struct Posted {
    /// Overrides the right content type.
    pub(crate) content_type: Option<&'static str>,
    /// `grpc-encoding` or `content-encoding`.
    pub(crate) encoding: Option<&'static str>,
    /// The message, packed as `encoding` says.
    pub(crate) body: Bytes,
}

impl Posted {
    pub(crate) fn plain(body: impl Into<Bytes>) -> Self {
        Self {
            content_type: None,
            encoding: None,
            body: body.into(),
        }
    }

    pub(crate) fn packed(encoding: &'static str, body: impl Into<Bytes>) -> Self {
        Self {
            encoding: Some(encoding),
            ..Self::plain(body)
        }
    }
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// One connection: HTTP/2 for gRPC, HTTP/1.1 for HTTP.
pub(crate) struct Connection {
    via: Via,
    address: SocketAddr,
    sender: Sender,
}

impl Connection {
    pub(crate) async fn open(plane: &DataPlane, via: Via) -> Self {
        let address = match via {
            Via::Grpc => plane.listen().grpc,
            Via::Http => plane.listen().http,
        };
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        // How a connection ends is seen by its sender.
        let sender = match via {
            Via::Grpc => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
                tokio::spawn(async move { drop(connection.await) });
                Sender::Http2(sender)
            }
            Via::Http => {
                let (sender, connection) = http1::handshake(stream).await.unwrap();
                tokio::spawn(async move { drop(connection.await) });
                Sender::Http1(sender)
            }
        };
        Self { via, address, sender }
    }

    /// Whether it can take another request.
    pub(crate) async fn is_open(&mut self) -> bool {
        match &mut self.sender {
            Sender::Http1(sender) => sender.ready().await.is_ok(),
            Sender::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    pub(crate) async fn post(&mut self, posted: &Posted) -> Told {
        let (path, content_type, encoding) = match self.via {
            Via::Grpc => (GRPC_PATH, "application/grpc", "grpc-encoding"),
            Via::Http => (HTTP_PATH, "application/x-protobuf", "content-encoding"),
        };
        let mut request = Request::post(match self.via {
            Via::Grpc => format!("http://{}{path}", self.address),
            Via::Http => path.to_owned(),
        })
        .header("host", self.address.to_string())
        .header("content-type", posted.content_type.unwrap_or(content_type));
        if let Some(name) = posted.encoding {
            request = request.header(encoding, name);
        }
        let body = match self.via {
            Via::Grpc => framed(posted.encoding.is_some(), &posted.body),
            Via::Http => posted.body.clone(),
        };
        let request = request.body(Full::new(body)).unwrap();
        let response = match &mut self.sender {
            Sender::Http1(sender) => sender.send_request(request).await,
            Sender::Http2(sender) => sender.send_request(request).await,
        };
        told(self.via, response.unwrap()).await
    }
}

fn framed(is_compressed: bool, payload: &[u8]) -> Bytes {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[u8::from(is_compressed)][..], &length, payload].concat().into()
}

async fn told(via: Via, response: Response<Incoming>) -> Told {
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    let grpc = |headers: &HeaderMap| tonic::Status::from_header_map(headers);
    let status = match via {
        Via::Grpc => grpc(&trailers)
            .or_else(|| grpc(&head.headers))
            .map(|status| rpc::Status {
                code: status.code().into(),
                message: status.message().to_owned(),
                details: Vec::new(),
            }),
        Via::Http if head.status.is_success() => None,
        Via::Http => Some(rpc::Status::decode(body.to_bytes()).unwrap()),
    };
    Told {
        code: status.as_ref().map(|status| Code::from(status.code)),
        // gRPC says it in the status alone, unless the request was none of gRPC's.
        status: (via == Via::Http || !head.status.is_success()).then(|| head.status.as_u16()),
        message: status.map(|status| status.message).unwrap_or_default(),
        wait: None,
        partial: None,
    }
}
