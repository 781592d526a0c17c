//! Servers that play downstream, and exporters to them.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use jevmetrics_dataplane::export::grpc::GrpcExporter;
use jevmetrics_dataplane::export::http::HttpExporter;
use jevmetrics_dataplane::export::pack::Compression;
use jevmetrics_dataplane::export::resolve::GrpcEndpoint;
use jevmetrics_dataplane::export::stats::Stats;
use jevmetrics_dataplane::export::{Exporter, HeaderSource, Protocol, fixed_headers};
use jevmetrics_dataplane::verdict::Verdict;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::{Frames, PATIENCE, framed, soon};

pub const LOCAL: [u8; 4] = [127, 0, 0, 1];

pub async fn listen(address: SocketAddr) -> TcpListener {
    TcpListener::bind(address).await.unwrap()
}

/// A request as downstream saw it.
pub struct Seen {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A server whose answers a test chooses; stopping it says goodbye, aborting it cuts.
pub struct Downstream {
    pub address: SocketAddr,
    pub stop: CancellationToken,
    pub task: tokio::task::JoinHandle<()>,
}

impl Downstream {
    pub async fn start<F>(answer: F) -> Self
    where
        F: Fn(Seen) -> Response<Frames> + Send + Sync + 'static,
    {
        Self::on(listen(SocketAddr::from((LOCAL, 0))).await, answer)
    }

    pub fn on<F>(listener: TcpListener, answer: F) -> Self
    where
        F: Fn(Seen) -> Response<Frames> + Send + Sync + 'static,
    {
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let answer = Arc::new(answer);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = tokio::select! {
                    accepted = listener.accept() => accepted.unwrap(),
                    () = stopped.cancelled() => break,
                };
                connections.spawn(serve(stream, Arc::clone(&answer), stopped.clone()));
            }
            drop(listener);
            while connections.join_next().await.is_some() {}
        });
        Self { address, stop, task }
    }
}

pub async fn serve<F>(stream: TcpStream, answer: Arc<F>, stop: CancellationToken)
where
    F: Fn(Seen) -> Response<Frames> + Send + Sync + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = Arc::clone(&answer);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok::<_, hyper::Error>(answer(Seen {
                path: head.uri.path().to_owned(),
                headers: head.headers,
                body,
            }))
        }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

pub fn ok() -> Response<Frames> {
    success(&[])
}

pub fn success(message: &[u8]) -> Response<Frames> {
    Response::new(Frames::of(&[framed(false, message)]).trailers(&[("grpc-status", "0")]))
}

/// Trailers only.
pub fn failure(headers: &[(&str, &str)]) -> Response<Frames> {
    let mut response = Response::builder();
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Frames::of::<&[u8]>(&[])).unwrap()
}

pub fn no_headers() -> HeaderSource {
    fixed_headers(HeaderMap::new())
}

pub fn exporter(protocol: Protocol) -> (Exporter, Stats) {
    let stats = Stats::register(&mut Registry::default());
    (Exporter::new(protocol, stats.clone()), stats)
}

pub fn grpc(address: SocketAddr) -> Exporter {
    grpc_with(address, Compression::None, no_headers())
}

pub fn grpc_with(address: SocketAddr, compression: Compression, headers: HeaderSource) -> Exporter {
    let endpoint = GrpcEndpoint::parse(&address.to_string()).unwrap();
    exporter(Protocol::Grpc(
        GrpcExporter::new(&endpoint, compression, headers, PATIENCE).unwrap(),
    ))
    .0
}

pub fn http(address: SocketAddr, compression: Compression, headers: HeaderSource) -> Exporter {
    let url = format!("http://{address}");
    exporter(Protocol::Http(
        HttpExporter::new(&url, compression, headers, PATIENCE).unwrap(),
    ))
    .0
}

pub async fn send(exporter: &Exporter) -> Verdict {
    let deadline = Instant::now() + PATIENCE;
    soon(
        "verdict",
        exporter.export(Bytes::from_static(b"metrics"), deadline),
    )
    .await
}

pub fn unavailable(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Temporary { code: Code::Unavailable, message, .. } if message.starts_with("downstream: "))
}
