//! A cluster to look around in: a control plane with hollow nodes until Ctrl-C, or, with `--node` and in a sandbox, one
//! with a real node until a shell or a command ends.
//!
//! ```text
//! cluster                          prints how to reach it
//! cluster --node                   opens $SHELL with kubectl and helm
//! cluster --node -- COMMAND...     runs the command instead, and ends with its code
//! ```
#![allow(clippy::print_stdout, reason = "a program for people")]

mod real;

use std::process::ExitCode;

use jevmetrics_testkit::cluster::{ClusterError, ControlPlane, HollowNodes, Options};
use jevmetrics_testkit::helm::HelmError;
use jevmetrics_testkit::node::NodeError;

const NODES: usize = 3;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => hollow().await,
        ["--node"] => real::run(None).await,
        ["--node", "--", ref command @ ..] if !command.is_empty() => real::run(Some(command)).await,
        _ => Err(Failure::Usage),
    }
}

async fn hollow() -> Result<ExitCode, Failure> {
    let plane = ControlPlane::start(Options::default()).await?;
    let _nodes = HollowNodes::start(&plane, NODES).await?;
    println!("export KUBECONFIG={}", plane.admin_kubeconfig().display());
    println!("# kubectl, if you have none: {}", plane.kubectl_path().display());
    println!("# Ctrl-C ends it");
    tokio::signal::ctrl_c().await.map_err(Failure::Signal)?;
    Ok(ExitCode::SUCCESS)
}

#[derive(thiserror::Error)]
enum Failure {
    #[error("usage: cluster [--node [-- COMMAND...]]")]
    Usage,
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error(transparent)]
    Helm(#[from] &'static HelmError),
    #[error("cannot wait for Ctrl-C: {0}")]
    Signal(std::io::Error),
    #[error("cannot {what}: {source}")]
    Io { what: String, source: std::io::Error },
}

/// As it is shown when `main` fails.
impl std::fmt::Debug for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, formatter)
    }
}
