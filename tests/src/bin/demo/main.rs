//! What the product does, visibly: first on this machine alone, in a minute; then, as `demo cluster`, in a Kubernetes
//! cluster of its own, which the caller has made room for. Exits 0 only if the numbers of all sides agree.

#![allow(clippy::print_stdout, reason = "a demo talks to people")]

mod cluster;
mod local;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Any failure ends the demo; its text is all that matters.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Shows what Jevmetrics does.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// A data plane with a stand-in for Jev, senders and a backend on this machine.
    Local {
        /// Where the last line is written too, for the other part.
        #[arg(long)]
        result: Option<PathBuf>,
    },
    /// All of it on Kubernetes, in a sandbox.
    Cluster {
        /// The last line of the other part, to go on with.
        #[arg(long)]
        result: Option<PathBuf>,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let played = match Arguments::parse().part {
        Part::Local { result } => local_part(result).await,
        Part::Cluster { result } => cluster::play(result.as_deref()).await,
    };
    match played {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("demo: failed: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn local_part(result: Option<PathBuf>) -> Result<bool, Failure> {
    let (line, holds) = local::play().await?;
    println!("{line}");
    if let Some(file) = result {
        std::fs::write(file, line)?;
    }
    Ok(holds)
}
