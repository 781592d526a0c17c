//! Connections to downstream: the shell around [`super::lanes`] that resolves, connects and waits.
//!
//! Invariants: the lock is held for a decision only, never across an await; connections are opened when a
//! request wants one; they end with the pool.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use bytes::buf::Chain;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::rt::Executor;
use hyper_util::rt::TokioTimer;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::lanes::{Carrier, Lanes, Next};
use super::resolve::Resolve;
use crate::batched_io::{BatchedIo, Turns, batched};
use crate::tls::client::WatchedClient;
use crate::tls::{self, Stream};

/// Prefix and payload of one message leave in one frame and one `writev`, without a copy of the payload.
pub(super) type RequestBody = Full<Chain<Bytes, Bytes>>;

/// Answers are a few bytes; this is room for many at a time.
const WINDOW: u32 = 1 << 20;
/// Pings find a downstream that vanished; only sent while calls are open, as gRPC servers ask.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Names are resolved within this time or not at all.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The sending end of one connection.
#[derive(Clone)]
pub(super) struct Sender {
    requests: SendRequest<RequestBody>,
    served: Arc<AtomicBool>,
}

impl Carrier for Sender {
    fn is_open(&self) -> bool {
        !self.requests.is_closed()
    }

    fn has_served(&self) -> bool {
        self.served.load(Ordering::Relaxed)
    }
}

/// A connection for one request.
pub(super) struct Lease {
    /// Names the connection in [`Pool::ended`].
    pub(super) attempt: u64,
    sender: Sender,
}

impl Lease {
    /// Sends a request and waits for the head of its answer.
    ///
    /// The sender is let go before waiting. A request put into the channel of a connection at the moment of
    /// its end is never taken out; it fails, as one that never left, when the channel's last sender goes. Who
    /// held the sender would wait for himself.
    pub(super) async fn send(self, request: Request<RequestBody>) -> Result<Response<Incoming>, Failure> {
        let Sender { mut requests, served } = self.sender;
        let answered = requests.try_send_request(request);
        drop(requests);
        let response = answered.await;
        if response.is_ok() {
            served.store(true, Ordering::Relaxed);
        }
        response
    }
}

/// Carries the request if it never left.
pub(super) type Failure = TrySendError<Request<RequestBody>>;

/// All connections to one endpoint.
pub(super) struct Pool(Arc<Shared>);

struct Shared {
    lanes: Mutex<Lanes<Sender>>,
    changed: Notify,
    resolver: Arc<dyn Resolve>,
    connect_timeout: Duration,
    tls: Option<DownstreamTls>,
}

/// How TLS is spoken with downstream.
#[derive(Debug, Clone)]
pub struct DownstreamTls {
    /// Roots, and what we show.
    pub client: WatchedClient,
    /// What downstream's certificate must hold.
    pub name: ServerName<'static>,
}

impl Pool {
    pub(super) fn new(
        resolver: Arc<dyn Resolve>,
        connect_timeout: Duration,
        tls: Option<DownstreamTls>,
    ) -> Self {
        let lanes = Mutex::new(Lanes::new());
        Self(Arc::new(Shared {
            lanes,
            changed: Notify::new(),
            resolver,
            connect_timeout,
            tls,
        }))
    }

    /// The next connection in turn; waits while one is being opened.
    ///
    /// # Errors
    /// Why there is none now: it is not waited for a downstream that is down, for the sender can wait better.
    pub(super) async fn lease(&self, avoid: Option<u64>) -> Result<Lease, String> {
        loop {
            let mut changed = pin!(self.0.changed.notified());
            changed.as_mut().enable();
            let plan = self.0.lanes().plan(Instant::now(), avoid);
            if plan.resolve {
                tokio::spawn(resolve(Arc::downgrade(&self.0)));
            }
            for (attempt, address) in plan.connect {
                tokio::spawn(connect(Arc::downgrade(&self.0), attempt, address));
            }
            match plan.next {
                Next::Use {
                    attempt,
                    carrier: sender,
                } => return Ok(Lease { attempt, sender }),
                Next::Wait => changed.await,
                Next::Fail(reason) => return Err(reason),
            }
        }
    }

    /// The connection takes no more requests.
    pub(super) fn ended(&self, attempt: u64) {
        self.0.lanes().ended(attempt, Instant::now(), random());
        self.0.changed.notify_waiters();
    }
}

impl Shared {
    fn lanes(&self) -> MutexGuard<'_, Lanes<Sender>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A seed that cannot be had makes the jitter constant, nothing worse.
fn random() -> u32 {
    getrandom::u32().unwrap_or(u32::MAX)
}

async fn resolve(pool: Weak<Shared>) {
    let Some(shared) = pool.upgrade() else { return };
    let found = match timeout(RESOLVE_TIMEOUT, shared.resolver.resolve()).await {
        Ok(Ok(addresses)) if addresses.is_empty() => Err("name has no address".to_owned()),
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => Err(format!("name cannot be resolved: {error}")),
        Err(_) => Err("name cannot be resolved in time".to_owned()),
    };
    match found {
        Ok(mut addresses) => {
            addresses.sort_by_cached_key(|_| random());
            shared.lanes().resolved(addresses, Instant::now());
        }
        Err(reason) => shared.lanes().not_resolved(reason, Instant::now()),
    }
    shared.changed.notify_waiters();
}

/// Opens a connection and serves it to its end.
async fn connect(pool: Weak<Shared>, attempt: u64, address: SocketAddr) {
    let settings = pool
        .upgrade()
        .map(|shared| (shared.connect_timeout, shared.tls.clone()));
    let Some((connect_timeout, tls)) = settings else {
        return;
    };
    let opened = timeout(connect_timeout, open(address, tls)).await;
    let Some(shared) = pool.upgrade() else { return };
    let error = match opened {
        Ok(Ok((requests, connection))) => {
            let sender = Sender {
                requests,
                served: Arc::default(),
            };
            let wanted = shared.lanes().connected(attempt, sender, Instant::now());
            shared.changed.notify_waiters();
            drop(shared);
            if wanted {
                // How it ends does not matter: each request on it learns its own fate.
                let _ = connection.await;
                if let Some(shared) = pool.upgrade() {
                    Pool(shared).ended(attempt);
                }
            }
            return;
        }
        Ok(Err(error)) => format!("connect to {address}: {error}"),
        Err(_) => format!("connect to {address}: no answer in time"),
    };
    let news = shared
        .lanes()
        .not_connected(attempt, error.clone(), Instant::now(), random());
    if news {
        tracing::warn!(%error, "downstream cannot be reached");
    }
    shared.changed.notify_waiters();
}

type Connection = http2::Connection<BatchedIo<Stream>, RequestBody, InTurns>;

async fn open(
    address: SocketAddr,
    tls: Option<DownstreamTls>,
) -> io::Result<(SendRequest<RequestBody>, Connection)> {
    let stream = TcpStream::connect(address).await?;
    // Without it, throughput falls to a tenth and less: small frames would wait for acknowledgements.
    stream.set_nodelay(true)?;
    let stream = match tls {
        None => Stream::Plain(stream),
        Some(tls) => tls::client::connect(&tls.client, tls.name, stream).await?,
    };
    let (io, turns) = batched(stream);
    http2::Builder::new(InTurns(Arc::new(Mutex::new(Some(turns)))))
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .handshake(io)
        .await
        .map_err(io::Error::other)
}

/// Spawns what a connection consists of. hyper hands over the part that reads and writes first, before there
/// can be any request: that one is driven in turns.
#[derive(Clone)]
struct InTurns(Arc<Mutex<Option<Turns<Stream>>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for InTurns {
    fn execute(&self, part: F) {
        let turns = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        tokio::spawn(async move {
            let Some(mut turns) = turns else {
                return part.await;
            };
            // Gone before the farewell: requests and senders learn of the end when it is dropped.
            turns.drive(Box::pin(part).as_mut()).await;
            turns.farewell().await;
        });
    }
}
