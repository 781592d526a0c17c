//! Serves the pages: few connections, none for long, so that a stranger on these ports cannot take the
//! descriptors that metrics need.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Connections at a time on one port; a prober and a scraper need two.
const CONNECTIONS: usize = 64;
/// For the head of a request, and between two of them: longer than the usual scrape interval is not needed,
/// a scraper connects anew.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The whole life of a connection.
const AGE: Duration = Duration::from_mins(5);
/// Out of file descriptors: no use in asking the kernel at once again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `routes` until the task is dropped. Above the limit, connections are accepted and closed at once.
pub async fn serve(listener: TcpListener, routes: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let service = TowerToHyperService::new(routes.clone());
        tokio::spawn(async move {
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            // How it ends concerns only the one who looked.
            let _ = tokio::time::timeout(AGE, connection).await;
            drop(place);
        });
    }
}
