//! `kubectl port-forward` to one pod, as long as it is held.

use std::process::Stdio;

use jevmetrics_testkit::cluster::ControlPlane;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::Failure;

/// A way to a pod's port; dropping it ends it.
pub(crate) struct Forward {
    _process: Child,
    // It prints a line for each connection, and ends when nobody takes it.
    _printed: BufReader<ChildStdout>,
    address: String,
}

impl Forward {
    pub(crate) async fn to(
        plane: &ControlPlane,
        namespace: &str,
        pod: &str,
        port: u16,
    ) -> Result<Self, Failure> {
        println!("   $ kubectl port-forward -n {namespace} {pod} {port}");
        let mut process = Command::new(plane.kubectl_path())
            .arg("--kubeconfig")
            .arg(plane.admin_kubeconfig())
            .args(["port-forward", "-n", namespace, pod, &format!(":{port}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = process.stdout.take().ok_or("it has no output")?;
        let mut printed = BufReader::new(stdout);
        let mut line = String::new();
        printed.read_line(&mut line).await?;
        // Forwarding from 127.0.0.1:40123 -> 9465
        let address = line
            .split_whitespace()
            .nth(2)
            .ok_or_else(|| format!("kubectl port-forward said {line:?}"))?;
        Ok(Self {
            address: address.to_owned(),
            _process: process,
            _printed: printed,
        })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        let answer = reqwest::get(format!("http://{}{path}", self.address)).await?;
        Ok(answer.error_for_status()?.json().await?)
    }
}
