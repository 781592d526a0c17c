//! `/metrics`, `/livez`, `/readyz`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::heartbeat::Heartbeat;
use crate::lease::Fence;
use crate::metrics::Metrics;

/// A process that has not tried for its Lease for so long is stuck.
const STUCK_AFTER: Duration = Duration::from_mins(1);

/// What the pages show.
#[derive(Debug, Clone)]
pub struct Pages {
    /// What is counted.
    pub metrics: Metrics,
    /// When the Lease was renewed.
    pub fence: Fence,
    /// When the Lease was last tried for.
    pub tries: Heartbeat,
    /// Whether the API server has answered once, and the process is not about to stop.
    pub is_ready: Arc<AtomicBool>,
}

/// The routes of all pages.
pub fn routes(pages: Pages) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .with_state(pages)
}

async fn metrics(State(pages): State<Pages>) -> impl IntoResponse {
    match pages.metrics.encode(pages.fence.renewed_ago(Instant::now())) {
        Ok(text) => {
            let form = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, form)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// An API server that is away is no reason to restart: only a process that does not even try is stuck.
async fn live(State(pages): State<Pages>) -> (StatusCode, &'static str) {
    if pages.tries.age(Instant::now()) > STUCK_AFTER {
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            "the Lease was not tried for within 60 s\n",
        );
    }
    (StatusCode::OK, "ok\n")
}

async fn ready(State(pages): State<Pages>) -> (StatusCode, &'static str) {
    if pages.is_ready.load(Ordering::Relaxed) {
        return (StatusCode::OK, "ok\n");
    }
    (
        StatusCode::SERVICE_UNAVAILABLE,
        "the API server has not answered yet, or the process stops\n",
    )
}
