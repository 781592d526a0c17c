//! Watching the policy of a scenario, as a person does.

use std::process::Stdio;

use jevmetrics_api::policy::JevMetricsPolicyStatus;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::site::{POLICY, Place};

/// `kubectl get --watch`, which prints each status as it is written.
pub(crate) struct Watch {
    process: Child,
    lines: JoinHandle<Vec<String>>,
}

impl Watch {
    pub(crate) fn start(place: &Place) -> Self {
        let plane = place.node.plane();
        let mut process = Command::new(plane.kubectl_path())
            .arg("--kubeconfig")
            .arg(plane.admin_kubeconfig())
            .args(["--namespace", &place.namespace, "get", "jmp", POLICY, "--watch"])
            .args(["-o", r#"jsonpath={.status}{"\n"}"#])
            .env("HOME", plane.directory())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut printed = BufReader::new(process.stdout.take().unwrap()).lines();
        let lines = tokio::spawn(async move {
            let mut lines = Vec::new();
            while let Some(line) = printed.next_line().await.unwrap() {
                lines.push(line);
            }
            lines
        });
        Self { process, lines }
    }

    /// What it has printed; it must have gone on until now.
    pub(crate) async fn end(mut self) -> Vec<JevMetricsPolicyStatus> {
        assert_eq!(self.process.try_wait().unwrap(), None, "it still watches");
        self.process.kill().await.unwrap();
        let lines = self.lines.await.unwrap();
        lines
            .iter()
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }
}
