//! `sink`: the counting backend on an address.
//!
//! | Control | |
//! |---|---|
//! | `GET /counts` | what was accepted and refused |
//! | `GET /ledger` | which numbered points arrived, which of them twice |
//! | `POST /answers` | what it answers next, see [`Script`] |
//! | `POST /reset` | forgets what it has counted; what it is to answer stays |

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use jevmetrics_testkit::sink::{Counts, Depth, Ledger, Options, Sink};
use serde_json::{Value, json};

use crate::answers::Script;
use crate::{Failure, control};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where it takes OTLP, over gRPC and over HTTP.
    #[arg(long, default_value = "0.0.0.0:4317")]
    listen: SocketAddr,
    /// Where it is controlled.
    #[arg(long, default_value = "0.0.0.0:8081")]
    control: SocketAddr,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let options = Options {
        // It runs for long: requests are not kept.
        depth: Depth::Count,
        listen: arguments.listen,
        ..Options::default()
    };
    let sink = Sink::start_with(options)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", arguments.listen))?;
    println!("sink: {}", sink.endpoint());
    let router = Router::new()
        .route("/counts", get(counts))
        .route("/ledger", get(ledger))
        .route("/answers", post(answers))
        .route("/reset", post(reset))
        .with_state(Arc::new(sink));
    control::serve(arguments.control, router).await?;
    Ok(ExitCode::SUCCESS)
}

type Shared = State<Arc<Sink>>;

async fn counts(State(sink): Shared) -> Json<Counts> {
    Json(sink.counts())
}

async fn ledger(State(sink): Shared) -> Json<Ledger> {
    Json(sink.ledger())
}

async fn answers(
    State(sink): Shared,
    Json(script): Json<Script>,
) -> Result<Json<Value>, (StatusCode, String)> {
    script
        .play(sink.script())
        .map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    println!("sink: other answers: {script:?}");
    Ok(Json(json!({"queued": sink.script().queued()})))
}

async fn reset(State(sink): Shared) -> Json<Counts> {
    sink.reset();
    println!("sink: counts from nothing");
    Json(sink.counts())
}
