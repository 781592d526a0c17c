//! A server with a handler of the test's choice, and clients that control every frame.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

pub mod downstream;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jevmetrics_dataplane::receive::in_flight::BytesInFlight;
use jevmetrics_dataplane::receive::serve::{Server, bind};
use jevmetrics_dataplane::receive::stats::Stats;
use jevmetrics_dataplane::receive::{self, Handler, SizeLimits};
use jevmetrics_dataplane::verdict::Verdict;
use prometheus_client::registry::Registry;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longer than anything takes on a busy machine; reached only by a failing test.
pub const PATIENCE: Duration = Duration::from_secs(20);
pub const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .unwrap_or_else(|_| panic!("not in time: {what}"))
}

/// Polls until it holds.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    soon(what, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

pub type Answering = Pin<Box<dyn Future<Output = Verdict> + Send>>;

/// A handler made of a function.
pub struct Answer(pub Box<dyn Fn(receive::Request) -> Answering + Send + Sync>);

impl Answer {
    pub fn with(verdict: Verdict) -> Self {
        Self::by(move |_| std::future::ready(verdict.clone()))
    }

    pub fn by<F, R>(answer: F) -> Self
    where
        F: Fn(receive::Request) -> R + Send + Sync + 'static,
        R: Future<Output = Verdict> + Send + 'static,
    {
        Self(Box::new(move |request| Box::pin(answer(request))))
    }
}

impl Handler for Answer {
    fn handle(&self, request: receive::Request) -> impl Future<Output = Verdict> + Send {
        (self.0)(request)
    }
}

/// How a test server is set up.
pub struct Setup {
    pub max_request_bytes: usize,
    pub max_unpacked_bytes: usize,
    pub bytes_in_flight: BytesInFlight,
    pub max_connections: usize,
    pub age: Duration,
    pub drain: Duration,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            max_request_bytes: 100_000,
            max_unpacked_bytes: 200_000,
            bytes_in_flight: BytesInFlight::new(1 << 20),
            max_connections: 16,
            age: Duration::from_mins(5),
            drain: PATIENCE,
        }
    }
}

/// A running server.
pub struct Running {
    pub address: SocketAddr,
    pub stats: Stats,
    pub stop: CancellationToken,
    pub task: JoinHandle<()>,
}

impl Setup {
    pub async fn start(self, handler: Answer) -> Running {
        let listener = bind("listen.grpc", SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        let stats = Stats::register(&mut Registry::default());
        let limits = SizeLimits {
            max_request_bytes: self.max_request_bytes,
            max_unpacked_bytes: self.max_unpacked_bytes,
        };
        let server = Server::new(
            Arc::new(handler),
            limits,
            self.bytes_in_flight,
            self.max_connections,
            self.age,
            stats.clone(),
        );
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { server.serve(listener, stopped, self.drain).await });
        Running {
            address,
            stats,
            stop,
            task,
        }
    }
}

/// A body of frames exactly as given; with `held` it never ends.
pub struct Frames {
    pub frames: VecDeque<Frame<Bytes>>,
    pub held: bool,
}

impl Frames {
    pub fn of<T: AsRef<[u8]>>(frames: &[T]) -> Self {
        let data = |frame: &T| Frame::data(Bytes::copy_from_slice(frame.as_ref()));
        Self {
            frames: frames.iter().map(data).collect(),
            held: false,
        }
    }

    pub fn held(mut self) -> Self {
        self.held = true;
        self
    }

    pub fn trailers(mut self, trailers: &[(&'static str, &str)]) -> Self {
        let trailers: HeaderMap = trailers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect();
        self.frames.push_back(Frame::trailers(trailers));
        self
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.frames.pop_front() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None if self.held => Poll::Pending,
            None => Poll::Ready(None),
        }
    }
}

/// A gRPC message with its prefix.
pub fn framed(compressed: bool, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[u8::from(compressed)][..], &length, payload].concat()
}

pub fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// One HTTP/2 connection. `closed` ends when the connection does.
pub struct Http2 {
    pub sender: SendRequest<Frames>,
    pub closed: JoinHandle<()>,
    address: SocketAddr,
}

/// A whole answer.
#[derive(Debug)]
pub struct Whole {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub trailers: HeaderMap,
}

impl Whole {
    /// The gRPC status, wherever it stands.
    pub fn grpc(&self) -> tonic::Status {
        tonic::Status::from_header_map(&self.trailers)
            .or_else(|| tonic::Status::from_header_map(&self.headers))
            .unwrap_or_else(|| panic!("no grpc-status in {self:?}"))
    }
}

impl Http2 {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        let closed = tokio::spawn(async move {
            let _ = connection.await;
        });
        Self {
            sender,
            closed,
            address,
        }
    }

    pub fn post(&self, path: &str) -> http::request::Builder {
        Request::post(format!("http://{}{path}", self.address))
    }

    pub fn export(&self) -> http::request::Builder {
        self.post(EXPORT)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
    }

    pub async fn call(&self, request: Request<Frames>) -> Whole {
        let response = soon("answer", self.sender.clone().send_request(request))
            .await
            .unwrap();
        whole(response).await
    }
}

pub async fn whole<B>(response: Response<B>) -> Whole
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Debug,
{
    let (head, body) = response.into_parts();
    let collected = soon("body", body.collect()).await.unwrap();
    let trailers = collected.trailers().cloned().unwrap_or_default();
    Whole {
        status: head.status.as_u16(),
        headers: head.headers,
        body: collected.to_bytes(),
        trailers,
    }
}
