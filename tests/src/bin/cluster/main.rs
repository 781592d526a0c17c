//! A control plane with hollow nodes to look around in, until Ctrl-C.
#![allow(clippy::print_stdout, reason = "a program for people")]

use jevmetrics_testkit::cluster::{ClusterError, ControlPlane, HollowNodes, Options};

const NODES: usize = 3;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let plane = ControlPlane::start(Options::default()).await?;
    let _nodes = HollowNodes::start(&plane, NODES).await?;
    println!("export KUBECONFIG={}", plane.admin_kubeconfig().display());
    println!("# kubectl, if you have none: {}", plane.kubectl_path().display());
    println!("# Ctrl-C ends it");
    tokio::signal::ctrl_c().await?;
    Ok(())
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("cannot wait for Ctrl-C: {0}")]
    Signal(#[from] std::io::Error),
}
