//! One listening socket that serves an axum router over HTTP/1.1 and HTTP/2.
//!
//! Invariants: after [`Listener::stop`] the port refuses and no connection is left; [`Listener::restart`]
//! takes the same port again; dropping it stops it. A handler can end its own connection without an answer
//! through [`Connection`].

use std::io;
use std::net::SocketAddr;

use axum::Router;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The connection that a request came in on; found among the request's extensions.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    close: CancellationToken,
}

impl Connection {
    /// Ends the connection; answers not yet written are lost.
    pub(crate) fn close(&self) {
        self.close.cancel();
    }
}

/// A socket and what it serves.
#[derive(Debug)]
pub(crate) struct Listener {
    address: SocketAddr,
    router: Router,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    stop: DropGuard,
    accepting: JoinHandle<()>,
}

impl Listener {
    /// Serves `router` at `listen`, at a free port if its port is 0.
    pub(crate) async fn start(router: Router, listen: SocketAddr) -> io::Result<Self> {
        let socket = TcpListener::bind(listen).await?;
        let address = socket.local_addr()?;
        let running = Mutex::new(Some(Running::new(socket, router.clone())));
        Ok(Self {
            address,
            router,
            running,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the port and cuts all connections. Does nothing if stopped.
    pub(crate) async fn stop(&self) {
        let running = self.running.lock().await.take();
        if let Some(Running { stop, accepting }) = running {
            drop(stop);
            // It can only fail by a panic, which the test runner has printed.
            let _ = accepting.await;
        }
    }

    /// Serves again on the same port. Does nothing if running.
    ///
    /// # Errors
    /// The port was taken meanwhile.
    #[allow(clippy::significant_drop_tightening, reason = "one restart at a time")]
    pub(crate) async fn restart(&self) -> io::Result<()> {
        let mut running = self.running.lock().await;
        if running.is_none() {
            let socket = TcpListener::bind(self.address).await?;
            *running = Some(Running::new(socket, self.router.clone()));
        }
        Ok(())
    }
}

impl Running {
    fn new(socket: TcpListener, router: Router) -> Self {
        let stop = CancellationToken::new();
        let accepting = tokio::spawn(accept(socket, router, stop.clone()));
        Self {
            stop: stop.drop_guard(),
            accepting,
        }
    }
}

async fn accept(socket: TcpListener, router: Router, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            // A failed accept concerns that client only.
            accepted = socket.accept() => if let Ok((stream, _peer)) = accepted {
                connections.spawn(serve(stream, router.clone()));
            }
        }
    }
    drop(socket);
    connections.shutdown().await;
}

async fn serve(stream: TcpStream, router: Router) {
    let close = CancellationToken::new();
    let connection = Connection { close: close.clone() };
    // Without it answers wait for the client's delayed acknowledgement; failing is harmless.
    let _ = stream.set_nodelay(true);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        request.extensions_mut().insert(connection.clone());
        router.call(request)
    });
    let server = auto::Builder::new(TokioExecutor::new());
    tokio::select! {
        // Errors here are the client's going away.
        _ = server.serve_connection(TokioIo::new(stream), service) => {}
        () = close.cancelled() => {}
    }
}
