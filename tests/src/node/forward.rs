//! A way to a port of a pod, also to one that listens on the pod's own loopback: `kubectl port-forward`.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use super::{Node, NodeError};
use crate::cluster::io_error;
use crate::http_client;

/// A way to a port of a pod; dropping it ends it.
#[derive(Debug)]
pub struct Forward {
    _process: Child,
    // It prints a line for each connection, and ends when nobody takes it.
    _printed: BufReader<ChildStdout>,
    address: String,
    client: reqwest::Client,
}

impl Node {
    /// Opens a way to a port of a pod.
    ///
    /// # Errors
    /// kubectl could not be run, or opened none; then it has said why on standard error.
    pub async fn forward(&self, namespace: &str, pod: &str, port: u16) -> Result<Forward, NodeError> {
        let what = format!("cannot forward port {port} of pod {namespace}/{pod}");
        let mut process = Command::new(self.plane.kubectl_path())
            .arg("--kubeconfig")
            .arg(self.plane.admin_kubeconfig())
            .args(["port-forward", "-n", namespace, pod, &format!(":{port}")])
            // It keeps a cache there.
            .env("HOME", self.plane.directory())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(io_error(what.as_str()))?;
        let failed = |why: String| io_error(what.as_str())(std::io::Error::other(why));
        let stdout = process.stdout.take();
        let mut printed = BufReader::new(stdout.ok_or_else(|| failed("kubectl has no output".to_owned()))?);
        let mut line = String::new();
        printed
            .read_line(&mut line)
            .await
            .map_err(io_error(what.as_str()))?;
        // Forwarding from 127.0.0.1:40123 -> 9465
        let address = line.split_whitespace().nth(2);
        let address = address.ok_or_else(|| failed(format!("kubectl printed {line:?}")))?;
        Ok(Forward {
            address: address.to_owned(),
            client: http_client::build().map_err(|error| failed(error.to_string()))?,
            _process: process,
            _printed: printed,
        })
    }
}

impl Forward {
    /// What is at `path` behind the port.
    ///
    /// # Errors
    /// It did not answer, or not with success.
    pub async fn get(&self, path: &str) -> Result<String, NodeError> {
        let url = format!("http://{}{path}", self.address);
        let answer = async {
            self.client
                .get(url)
                .send()
                .await?
                .error_for_status()?
                .text()
                .await
        };
        Ok(answer.await?)
    }
}
