//! Stand-ins that run as pods: a judge, a backend and senders, for tests and the demo in a cluster.
//!
//! ```text
//! source ──OTLP──▶ (data plane) ──OTLP──▶ sink        each with a control port: what it counted, what it is to do
//!                       └──HTTP──▶ jev
//! ```
//!
//! Each ends at once on SIGTERM or SIGINT, with status 0, also as the first process of a container, and prints one line
//! whenever its state changes.
#![allow(clippy::print_stdout, reason = "its log is what it prints")]

mod answers;
mod control;
mod jev;
mod sink;
mod source;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

/// As in the data plane; the allocator of a static C library is slow.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Any failure ends the process; its text is all that matters.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Stand-ins for what is around a data plane.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Judges metrics by their names, in place of Jev.
    Jev(jev::Arguments),
    /// Takes OTLP, counts it, and refuses if told so.
    Sink(sink::Arguments),
    /// Sends a steady load whose points are numbered.
    Source(source::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let role = Arguments::parse().role;
    match play(role).await {
        Ok(code) => code,
        Err(error) => {
            println!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Until the role ends or a signal comes.
async fn play(role: Role) -> Result<ExitCode, Failure> {
    // Before anything else: the first process of a container is not ended by a signal that it does not take.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let playing = async {
        match role {
            Role::Jev(arguments) => jev::run(arguments).await,
            Role::Sink(arguments) => sink::run(arguments).await,
            Role::Source(arguments) => source::run(arguments).await,
        }
    };
    tokio::select! {
        code = playing => code,
        _ = terminate.recv() => {
            println!("ends: SIGTERM");
            Ok(ExitCode::SUCCESS)
        }
        _ = interrupt.recv() => {
            println!("ends: SIGINT");
            Ok(ExitCode::SUCCESS)
        }
    }
}
