//! Connections of the peer port.
//!
//! ```text
//! accept -> (a place?) -> first byte -> TLS? -> HTTP/2, first call within 10 s -> until age ± 10 % or stop -> drop
//! ```

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::answer::answer;
use super::heartbeat::Heartbeat;
use crate::accept::{accept, jittered};
use crate::tls::server::WatchedServer;
use crate::tls::{self, Stream};

/// Every pod of the largest group (500) may hold a connection, and the operator several.
const CONNECTIONS: usize = 1024;
/// Between opening and the first byte, and again until the first call: those who belong here speak at once.
const FIRST_WORD_TIMEOUT: Duration = Duration::from_secs(10);
/// The life of a connection, spread by ± 10 %.
const AGE: Duration = Duration::from_mins(5);
/// After its age or a stop, calls may take this long to end: they are answered from memory.
const GRACE: Duration = Duration::from_secs(1);
/// Calls at a time on one connection.
const STREAMS: u32 = 16;
/// A call has no more to say than a handful of headers.
const HEADER_LIST_BYTES: u32 = 8 << 10;
/// Requests are empty; HTTP/2's own smallest windows are enough.
const WINDOW: u32 = 64 << 10;
const FRAME: u32 = 16 << 10;
/// Pings find callers that vanished without a word.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves until `stop`; running calls may end within a second.
///
/// # Guarantees
/// Errors of single connections and of `accept` never end it. Above the limit, connections are accepted and closed
/// at once.
pub async fn serve(
    listener: TcpListener,
    heartbeat: Arc<Heartbeat>,
    tls: Option<WatchedServer>,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    accept(listener, &stop, |stream, connections| {
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            return;
        };
        let connection = Connection {
            heartbeat: Arc::clone(&heartbeat),
            tls: tls.clone(),
            age: jittered(AGE, getrandom::u32().unwrap_or(u32::MAX / 2)),
            _place: place,
        };
        connections.spawn(connection.serve(stream, stop.clone()));
    })
    .await;
}

/// One accepted connection.
struct Connection {
    heartbeat: Arc<Heartbeat>,
    tls: Option<WatchedServer>,
    age: Duration,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    async fn serve(self, stream: TcpStream, stop: CancellationToken) {
        let opened = stop.run_until_cancelled(self.open(stream)).await;
        // Who spoke no TLS, or none that we accept, is told so by TLS.
        let Some(Some(stream)) = opened else { return };
        let called = Arc::new(Notify::new());
        let service = service_fn(|request| {
            called.notify_one();
            let heartbeat = Arc::clone(&self.heartbeat);
            async move { Ok::<_, Infallible>(answer(&heartbeat, request).await) }
        });
        let mut connection = pin!(connection_builder().serve_connection(TokioIo::new(stream), service));
        let silent = async {
            if timeout(FIRST_WORD_TIMEOUT, called.notified()).await.is_ok() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            _ = connection.as_mut() => return,
            () = silent => return,
            () = tokio::time::sleep(self.age) => {}
            () = stop.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        // How it ends concerns only its caller, who knows.
        let _ = timeout(GRACE, connection).await;
    }

    /// Waits for the first byte and agrees on TLS.
    async fn open(&self, stream: TcpStream) -> Option<Stream> {
        stream.set_nodelay(true).ok()?;
        timeout(FIRST_WORD_TIMEOUT, stream.readable()).await.ok()?.ok()?;
        match &self.tls {
            None => Some(Stream::Plain(stream)),
            Some(tls) => tls::server::accept(tls, stream).await.ok(),
        }
    }
}

fn connection_builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_concurrent_streams(STREAMS)
        .max_frame_size(FRAME)
        .max_header_list_size(HEADER_LIST_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}
