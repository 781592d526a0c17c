//! `source`: a steady load whose points are numbered.
//!
//! | Control | |
//! |---|---|
//! | `GET /counts` | what was sent, what was answered, what became of every number |
//! | `POST /pause`, `POST /resume` | begins no more exports; goes on |
//! | `POST /rate?requests_per_second=N` | from now on as many |
//! | `POST /stop` | ends what is in flight; the counts are final |
//!
//! All of them answer with the counts.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use jevmetrics_testkit::steady::{Counts, Options, Protocol, Steady};
use serde::Deserialize;

use crate::{Failure, control};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where to send: `http://HOST:PORT`.
    #[arg(long)]
    endpoint: String,
    /// How to speak.
    #[arg(long, value_enum, default_value = "grpc")]
    protocol: Spoken,
    /// Exports a second, of all sources together.
    #[arg(long, default_value = "10", value_parser = rate)]
    requests_per_second: f64,
    /// Instruments in an export, one point each; Jev's mock tells to drop every second one.
    #[arg(long, default_value = "20")]
    metrics: usize,
    /// Service instances that take turns, each with instruments and numbers of its own.
    #[arg(long, default_value = "4")]
    sources: usize,
    /// Connections that exports take turns on.
    #[arg(long, default_value = "1")]
    connections: usize,
    /// Ends after so many exports: with status 1 if one has failed.
    #[arg(long)]
    requests: Option<u64>,
    /// Where it is controlled.
    #[arg(long, default_value = "0.0.0.0:8081")]
    control: SocketAddr,
    /// What the ids of the sources begin with. By default the host's name, and digits that are new at each start.
    #[arg(long)]
    name: Option<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Spoken {
    Grpc,
    Http,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|error| format!("{error}"))?;
    bounded(rate)
}

fn bounded(rate: f64) -> Result<f64, String> {
    let is_good = (0.0..=10_000.0).contains(&rate);
    is_good
        .then_some(rate)
        .ok_or_else(|| "requests a second must be from 0 to 10000".to_owned())
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let options = Options {
        endpoint: arguments.endpoint.clone(),
        protocol: match arguments.protocol {
            Spoken::Grpc => Protocol::Grpc,
            Spoken::Http => Protocol::Http,
        },
        requests_per_second: arguments.requests_per_second,
        metrics: arguments.metrics,
        sources: arguments.sources,
        connections: arguments.connections,
        requests: arguments.requests,
        name: arguments.name.clone().unwrap_or_else(unique_name),
        ..Options::new(&arguments.endpoint)
    };
    println!("source: {} sends to {}", options.name, options.endpoint);
    let steady = Arc::new(Steady::start(options)?);
    let router = Router::new()
        .route("/counts", get(counts))
        .route("/pause", post(pause))
        .route("/resume", post(resume))
        .route("/rate", post(set_rate))
        .route("/stop", post(stop))
        .with_state(Arc::clone(&steady));
    let all = async {
        match arguments.requests {
            Some(_) => steady.ended().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        counts = all => {
            println!("source: all sent: {}", line(&counts));
            let is_well = counts.failed_exports == 0;
            Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        ended = control::serve(arguments.control, router) => {
            ended?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// A container that starts again has the same host name, but numbers from 1.
fn unique_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}-{:08x}", host.trim(), fastrand::u32(..))
}

fn line(counts: &Counts) -> String {
    format!(
        "requests={} attempts={} retries={} failed_exports={} points_sent={} points_acknowledged={} rejected={}",
        counts.requests,
        counts.attempts,
        counts.retries,
        counts.failed_exports,
        counts.points_sent,
        counts.points_acknowledged,
        counts.rejected
    )
}

type Shared = State<Arc<Steady>>;

async fn counts(State(steady): Shared) -> Json<Counts> {
    Json(steady.counts())
}

async fn pause(State(steady): Shared) -> Json<Counts> {
    steady.pause();
    println!("source: paused");
    Json(steady.counts())
}

async fn resume(State(steady): Shared) -> Json<Counts> {
    steady.resume();
    println!("source: goes on");
    Json(steady.counts())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rate {
    requests_per_second: f64,
}

async fn set_rate(
    State(steady): Shared,
    Query(wanted): Query<Rate>,
) -> Result<Json<Counts>, (StatusCode, String)> {
    let per_second = bounded(wanted.requests_per_second).map_err(|error| (StatusCode::BAD_REQUEST, error))?;
    steady.set_rate(per_second);
    println!("source: {per_second} exports a second");
    Ok(Json(steady.counts()))
}

async fn stop(State(steady): Shared) -> Json<Counts> {
    println!("source: stops");
    let counts = steady.stop().await;
    println!("source: stopped: {}", line(&counts));
    Json(counts)
}
