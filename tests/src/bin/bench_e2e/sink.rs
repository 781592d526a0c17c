//! The backend: takes requests over a gRPC server of its own and recognises each of them.
//!
//! A body is hashed as its frames come. The first body with a hash is decoded and looked up among the messages
//! that can come; after that its hash is enough. So each request is counted exactly, for the price of a hash.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::WithTrailers;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message as _;
use tokio::net::{TcpListener, TcpStream};
use xxhash_rust::xxh3::Xxh3;

use crate::Failure;

type Answer = WithTrailers<Full<Bytes>, Ready<Option<Result<HeaderMap, Infallible>>>>;

/// Windows of a well set up backend.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// How often each message came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Arrivals {
    /// By the index that [`Sink::expect`] gave.
    pub(crate) counts: Vec<u64>,
    /// Messages that nobody announced.
    pub(crate) foreign: u64,
}

#[derive(Default)]
struct State {
    messages: Vec<ExportMetricsServiceRequest>,
    /// Bodies seen: which message each is.
    known: HashMap<u64, Option<usize>>,
    arrivals: Arrivals,
}

/// A running backend.
#[derive(Clone)]
pub(crate) struct Sink {
    state: Arc<Mutex<State>>,
    address: SocketAddr,
}

impl Sink {
    pub(crate) async fn start() -> Result<Self, Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let sink = Self {
            state: Arc::default(),
            address: listener.local_addr()?,
        };
        let accepting = sink.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(accepting.clone(), stream));
            }
        });
        Ok(sink)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Announces a message; equal ones have the same index.
    pub(crate) fn expect(&self, message: &ExportMetricsServiceRequest) -> usize {
        let message = normal(message.clone());
        let mut state = self.state();
        if let Some(index) = state.messages.iter().position(|known| *known == message) {
            return index;
        }
        // It may have come before it was announced.
        state.known.retain(|_, known| known.is_some());
        state.messages.push(message);
        state.arrivals.counts.push(0);
        state.messages.len() - 1
    }

    /// What came since the last call.
    pub(crate) fn take(&self) -> Arrivals {
        let mut state = self.state();
        let empty = Arrivals {
            counts: vec![0; state.messages.len()],
            foreign: 0,
        };
        std::mem::replace(&mut state.arrivals, empty)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a message: its frames, prefix included.
    fn count(&self, hash: u64, frames: &[Bytes]) {
        let mut state = self.state();
        let index = if let Some(&index) = state.known.get(&hash) {
            index
        } else {
            let body = frames.concat();
            let decoded = body
                .get(5..)
                .and_then(|body| ExportMetricsServiceRequest::decode(body).ok())
                .map(normal);
            let index = decoded.and_then(|decoded| state.messages.iter().position(|known| *known == decoded));
            state.known.insert(hash, index);
            index
        };
        match index {
            Some(index) => state.arrivals.counts[index] += 1,
            None => state.arrivals.foreign += 1,
        }
    }
}

/// The Collector writes absent buckets as empty ones, which means the same.
fn normal(mut message: ExportMetricsServiceRequest) -> ExportMetricsServiceRequest {
    let metrics = message
        .resource_metrics
        .iter_mut()
        .flat_map(|resource| &mut resource.scope_metrics)
        .flat_map(|scope| &mut scope.metrics);
    for metric in metrics {
        if let Some(Data::ExponentialHistogram(data)) = &mut metric.data {
            for point in &mut data.data_points {
                point.positive.get_or_insert_default();
                point.negative.get_or_insert_default();
            }
        }
    }
    message
}

async fn serve(sink: Sink, stream: TcpStream) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let service = service_fn(move |request| answer(sink.clone(), request));
    // How a connection ends is the client's business.
    let _ = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(sink: Sink, request: Request<Incoming>) -> Result<Response<Answer>, hyper::Error> {
    let mut body = request.into_body();
    let mut hash = Xxh3::new();
    let mut frames = Vec::with_capacity(8);
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            hash.update(&data);
            frames.push(data);
        }
    }
    sink.count(hash.digest(), &frames);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    // An empty ExportMetricsServiceResponse.
    let body = Full::new(Bytes::from_static(&[0; 5])).with_trailers(ready(Some(Ok(trailers))));
    let mut response = Response::new(body);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    Ok(response)
}
