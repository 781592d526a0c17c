//! The operator: for every `JevMetricsPolicy` the objects that make a data plane, and a status that says how it is.
//!
//! ```text
//! run ─▶ lease ─▶ controller ─▶ reconcile: validate ─▶ fetch ─▶ render ─▶ apply ─▶ status
//!                     ▲                                 (pure)              assess (pure)
//!                   watches, peer (polls)
//! ```
//! Invariants:
//! - Idle means no writes. What differs is found before anything is sent.
//! - Nothing that is not owned by the policy is touched.
//! - One policy's trouble is its own.
//! - Secrets are fetched by name, never listed or watched, and none is kept.

pub mod args;
pub mod assess;
pub mod backoff;
pub mod client;
mod coalesce;
pub mod commands;
pub mod conditions;
pub mod context;
pub mod controller;
mod deleted;
pub mod documents;
pub mod events;
pub mod generation;
pub mod health;
pub mod heartbeat;
pub mod kinds;
pub mod lease;
mod log;
pub mod membership;
pub mod memory;
pub mod metrics;
pub mod observed;
pub mod pages;
pub mod peer;
mod pod_changes;
pub mod reconcile;
pub mod render;
pub mod rights;
pub mod run;
pub mod voices;

use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::args::{Arguments, Command};

/// Does what the command line says.
pub fn main(arguments: Arguments) -> ExitCode {
    let mut out = io::stdout().lock();
    let done: Result<(), Box<dyn std::error::Error>> = match arguments.command {
        Command::Run(arguments) => {
            drop(out);
            return run_to_end(arguments);
        }
        Command::Crd => commands::crd(&mut out).map_err(Into::into),
        Command::Render(arguments) => commands::render_files(&arguments, &mut out).map_err(Into::into),
        Command::Check(files) => commands::check(&files, &mut out).map_err(Into::into),
    };
    match done.and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has seen enough.
        Err(error) if is_broken_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let printing = error.downcast_ref().and_then(|error| match error {
        commands::CommandError::Print(error) => Some(error),
        _ => None,
    });
    let cause = printing.or_else(|| error.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

fn run_to_end(arguments: args::Run) -> ExitCode {
    log::start();
    // An error means that there is a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => {
            let ended = runtime
                .block_on(run::run(arguments))
                .map_err(|error| error.to_string());
            runtime.shutdown_background();
            ended
        }
        Err(error) => Err(format!("failed to start threads: {error}")),
    };
    match ended {
        Ok(()) => {
            tracing::info!("stopped");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}
