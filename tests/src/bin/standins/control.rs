//! The control port: small JSON over HTTP, for tests and for people with curl.

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::Failure;

/// Serves `router`, and `/livez` beside it, until it is dropped.
pub(crate) async fn serve(address: SocketAddr, router: Router) -> Result<(), Failure> {
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| format!("cannot listen for control on {address}: {error}"))?;
    println!("control: http://{}", listener.local_addr()?);
    axum::serve(listener, router.route("/livez", get(async || "alive\n"))).await?;
    Ok(())
}
