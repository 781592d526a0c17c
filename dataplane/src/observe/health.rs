//! `/livez`, `/readyz` and `/metrics`.
//!
//! Ready means: listeners up, settings loaded, not draining. Nothing else: neither load nor Jev nor the live
//! object takes a pod out of service, but their state is named in the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::infer::Inference;
use crate::infer::state::Health as InferenceHealth;
use crate::live::LiveState;
use crate::routing::Routing;

/// Content type of the `OpenMetrics` text that Prometheus asks for.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether the process takes traffic.
#[derive(Debug, Default)]
#[allow(
    clippy::struct_field_names,
    reason = "three questions that are answered yes or no"
)]
pub struct Readiness {
    is_serving: AtomicBool,
    is_draining: AtomicBool,
    is_broken: AtomicBool,
}

impl Readiness {
    /// The listeners are up.
    pub fn set_serving(&self) {
        self.is_serving.store(true, Ordering::Release);
    }

    /// The process is about to stop.
    pub fn set_draining(&self) {
        self.is_draining.store(true, Ordering::Release);
    }

    /// Only a restart helps: liveness says so.
    pub fn set_broken(&self) {
        self.is_broken.store(true, Ordering::Release);
    }

    /// Where the process is in its life.
    pub fn life(&self) -> Life {
        match (
            self.is_serving.load(Ordering::Acquire),
            self.is_draining.load(Ordering::Acquire),
        ) {
            (_, true) => Life::Draining,
            (false, _) => Life::Starting,
            (true, false) => Life::Serving,
        }
    }
}

/// Where a process is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Not listening yet.
    Starting,
    /// Takes traffic.
    Serving,
    /// About to stop.
    Draining,
}

impl Life {
    fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Serving => "ready",
            Self::Draining => "draining",
        }
    }
}

/// Tells what is wrong now, if anything is.
pub type ProblemSource = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// What the probes look at.
pub struct Observed {
    /// Whether the process takes traffic.
    pub readiness: Arc<Readiness>,
    /// All metrics.
    pub registry: Registry,
    /// How asking goes.
    pub inference: Arc<Inference>,
    /// The policy of the live object.
    pub live: watch::Receiver<LiveState>,
    /// Its routing table.
    pub routing: Arc<Routing>,
    /// Tell what is wrong with files that are followed, each with its kind: `secret: …`, `tls: …`.
    pub problems: Vec<ProblemSource>,
    /// Brings gauges up to date before they are read.
    pub refresh: Box<dyn Fn() + Send + Sync>,
}

/// The routes.
pub fn routes(observed: Arc<Observed>) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(observed)
}

async fn livez(State(observed): State<Arc<Observed>>) -> impl IntoResponse {
    if observed.readiness.is_broken.load(Ordering::Acquire) {
        return (
            StatusCode::INTERNAL_SERVER_ERROR,
            "a background task has ended early\n",
        );
    }
    (StatusCode::OK, "alive\n")
}

async fn readyz(State(observed): State<Arc<Observed>>) -> impl IntoResponse {
    let life = observed.readiness.life();
    let status = if life == Life::Serving {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let mut lines = vec![
        life.as_str().to_owned(),
        format!("inference: {}", inference_line(&observed.inference)),
    ];
    lines.push(format!("live: {}", live_line(&observed.live.borrow())));
    lines.extend(observed.routing.line().map(|line| format!("routing: {line}")));
    if let Some(sharing) = observed.inference.sharing(Instant::now()) {
        lines.push(format!("coordination: {}", sharing.line));
    }
    lines.extend(observed.problems.iter().filter_map(|problem| problem()));
    (status, lines.join("\n") + "\n")
}

fn inference_line(inference: &Inference) -> String {
    let state = inference.state(Instant::now());
    let mut parts = vec![state.health.as_str().to_owned()];
    if let InferenceHealth::CoolingDown { cause, remaining }
    | InferenceHealth::ConfigurationFault { cause, remaining } = state.health
    {
        let seconds = remaining.as_secs_f32().ceil();
        parts.push(format!("cause {}, next attempt in {seconds} s", cause.as_str()));
    }
    if let Some(age) = state.last_success_age {
        parts.push(format!("last answer {} s ago", age.as_secs()));
    }
    parts.join(", ")
}

fn live_line(live: &LiveState) -> String {
    let policy = match &live.policy {
        Some(_) => "policy in force",
        None => "no policy yet: everything is kept, nothing is added",
    };
    match &live.error {
        Some(error) => format!("{policy}, {error}"),
        None => policy.to_owned(),
    }
}

async fn metrics(State(observed): State<Arc<Observed>>) -> axum::response::Response {
    (observed.refresh)();
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &observed.registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
