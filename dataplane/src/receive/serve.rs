//! Listeners and connections.
//!
//! ```text
//! accept -> (maxConnections?) -> first byte -> TLS? -> serve until age ± 10 % or stop -> graceful shutdown
//!        -> grace -> linger -> drop
//! ```
//!
//! Both listeners speak both protocols, HTTP/1.1 and HTTP/2: the protocol is in the request anyway, and a
//! sender pointed at the other port is served in place of failing in a way that is hard to read.
//!
//! Connections above the limit are accepted and closed at once, and counted: a sender sees a failed
//! connection, which it repeats elsewhere or later. Left in the backlog it would wait for an answer that
//! nobody is about to give.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::unconstrained;
use tokio_util::sync::CancellationToken;

use super::in_flight::BytesInFlight;
use super::receiver::Receiver;
use super::stats::{OpenConnection, Stats};
use super::{Handler, SizeLimits};
use crate::accept::{accept, jittered};
use crate::batched_io::{LINGER, batched};
use crate::tls::server::WatchedServer;
use crate::tls::{self, Stream};

/// Per stream: the usual export (200 KiB to 1 MiB) arrives without waiting for a window update. HTTP/2's
/// own default of 64 KiB costs throughput × 1.7.
const STREAM_WINDOW: u32 = 1 << 20;
/// Per connection: four whole streams. With the frames below, the most that a connection can make us hold unread.
const CONNECTION_WINDOW: u32 = 4 << 20;
/// The largest frame. From senders that look at our settings a usual export comes in one, straight into the
/// buffer that is decided on: a third cheaper than HTTP/2's default of 16 KiB, at which Go's senders stay. A
/// frame is buffered whole before windows count, and a list of headers may take six: not larger than needed.
const FRAME: u32 = 256 << 10;
/// Exports at a time on one connection. Agents that fan in use tens; more than this is waiting, not work.
const CONCURRENT_STREAMS: u32 = 256;
/// OTLP requests carry a handful of headers; a bearer token is the largest.
const HEADER_LIST_BYTES: u32 = 16 << 10;
/// The time between a connection's opening and its first byte: senders speak at once.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(10);
/// HTTP/1.1 header time, which is also how long a kept-alive connection may be idle: above the SDKs' usual
/// export interval of 60 s, so that it is not closed under a request.
const HTTP1_HEADER_TIMEOUT: Duration = Duration::from_secs(75);
/// HTTP/2 pings find senders that vanished without a word.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// After its age a connection may finish what it has, for this long: above the longest export.
const AGE_GRACE: Duration = Duration::from_secs(10);

/// A listener could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{setting}: {address}: {}", in_words(source))]
pub struct BindError {
    setting: &'static str,
    address: SocketAddr,
    source: io::Error,
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "address in use".to_owned(),
        io::ErrorKind::AddrNotAvailable => "no such address on this host".to_owned(),
        io::ErrorKind::PermissionDenied => "not allowed to listen here".to_owned(),
        _ => error.to_string(),
    }
}

/// Opens a listener. `setting` names it in errors, for example `listen.grpc`.
pub async fn bind(setting: &'static str, address: SocketAddr) -> Result<TcpListener, BindError> {
    TcpListener::bind(address).await.map_err(|source| BindError {
        setting,
        address,
        source,
    })
}

/// Serves any number of listeners with one handler and one limit of connections.
#[derive(Debug)]
pub struct Server<H> {
    receiver: Arc<Receiver<H>>,
    places: Arc<Semaphore>,
    connection_age: Duration,
    tls: Option<WatchedServer>,
}

impl<H> Clone for Server<H> {
    fn clone(&self) -> Self {
        Self {
            receiver: Arc::clone(&self.receiver),
            places: Arc::clone(&self.places),
            connection_age: self.connection_age,
            tls: self.tls.clone(),
        }
    }
}

impl<H: Handler> Server<H> {
    /// `max_connections` counts over all listeners. `connection_age` is spread by ± 10 %.
    pub fn new(
        handler: Arc<H>,
        limits: SizeLimits,
        in_flight: BytesInFlight,
        max_connections: usize,
        connection_age: Duration,
        stats: Stats,
    ) -> Self {
        Self {
            receiver: Arc::new(Receiver {
                handler,
                limits,
                in_flight,
                stats,
            }),
            places: Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS))),
            connection_age,
            tls: None,
        }
    }

    /// Speaks TLS only, on all listeners.
    #[must_use]
    pub fn with_tls(self, tls: Option<WatchedServer>) -> Self {
        Self { tls, ..self }
    }

    /// Serves until `stop`; then stops accepting, lets running requests finish for at most `drain`, and
    /// returns when the last connection is closed.
    ///
    /// # Guarantees
    /// Connections that are idle at `stop` are closed as soon as their senders close them, within a second; those
    /// that are left after `drain` are dropped.
    /// Errors of single connections and of `accept` never end it.
    pub async fn serve(&self, listener: TcpListener, stop: CancellationToken, drain: Duration) {
        let builder = Arc::new(connection_builder());
        accept(listener, &stop, |stream, connections| {
            let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
                self.receiver.stats.refuse_connection();
                return;
            };
            let connection = Connection {
                builder: Arc::clone(&builder),
                receiver: Arc::clone(&self.receiver),
                tls: self.tls.clone(),
                age: jittered(self.connection_age, getrandom::u32().unwrap_or(u32::MAX / 2)),
                drain,
                _counted: self.receiver.stats.open_connection(),
                _place: place,
            };
            connections.spawn(connection.serve(stream, stop.clone()));
        })
        .await;
    }
}

fn connection_builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HTTP1_HEADER_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(CONCURRENT_STREAMS)
        .max_frame_size(FRAME)
        .max_header_list_size(HEADER_LIST_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// One accepted connection.
struct Connection<H> {
    builder: Arc<auto::Builder<TokioExecutor>>,
    receiver: Arc<Receiver<H>>,
    tls: Option<WatchedServer>,
    age: Duration,
    drain: Duration,
    _counted: OpenConnection,
    _place: OwnedSemaphorePermit,
}

impl<H: Handler> Connection<H> {
    async fn serve(self, stream: TcpStream, stop: CancellationToken) {
        // Without it, half of the answers would wait for the peer's delayed acknowledgement.
        if stream.set_nodelay(true).is_err() {
            return;
        }
        // In this order, here and below: what has arrived is served. A connection that is closed over requests
        // that nobody read leaves its sender not knowing what became of them.
        tokio::select! {
            biased;
            readable = stream.readable() => if readable.is_err() { return },
            () = stop.cancelled() => return,
            () = tokio::time::sleep(FIRST_BYTE_TIMEOUT) => return,
        }
        let stream = match &self.tls {
            None => Stream::Plain(stream),
            Some(tls) => {
                let agreed = tokio::select! {
                    biased;
                    agreed = tls::server::accept(tls, stream) => agreed,
                    () = stop.cancelled() => return,
                };
                let Ok(stream) = agreed else {
                    self.receiver.stats.fail_handshake();
                    return;
                };
                stream
            }
        };
        // A connection that is always ready may use up its task's budget; its timers must not wait for that.
        let old = unconstrained(tokio::time::sleep(self.age));
        let receiver = Arc::clone(&self.receiver);
        let service = service_fn(move |request| {
            let receiver = Arc::clone(&receiver);
            async move { Ok::<_, Infallible>(receiver.answer(request).await) }
        });
        let (io, mut turns) = batched(stream);
        let mut connection = pin!(self.builder.serve_connection(io, service));
        let grace = tokio::select! {
            biased;
            () = turns.drive(connection.as_mut()) => None,
            () = old => Some(AGE_GRACE),
            () = stop.cancelled() => Some(self.drain),
        };
        let end = async {
            if grace.is_some() {
                connection.as_mut().graceful_shutdown();
                turns.drive(connection).await;
            }
            // The sender may be writing a request that arrives too late. A socket closed over it answers with a
            // reset, and he could not read any more that it was not taken.
            turns.farewell().await;
        };
        tokio::select! {
            biased;
            () = end => {}
            () = unconstrained(tokio::time::sleep(grace.unwrap_or(LINGER))) => {}
            () = unconstrained(after(stop.cancelled(), self.drain)) => {}
        }
    }
}

async fn after(event: impl Future<Output = ()>, delay: Duration) {
    event.await;
    tokio::time::sleep(delay).await;
}
