//! A Collector in front, with the operator's file beside its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{Listen, free_listen};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::stage::WITHIN;

/// A running Collector. Dropping it kills it.
pub(crate) struct Tier {
    _child: Child,
    listen: Listen,
    client: reqwest::Client,
    directory: TempDir,
}

/// What `tests/collector/build.sh` has built.
fn binary() -> PathBuf {
    let named = std::env::var_os("JEVMETRICS_COLLECTOR");
    named.unwrap_or_else(|| panic!("make collector names it")).into()
}

/// The files as arguments, the Collector's own first: OTLP in, and a pipeline to `exporter`.
fn arguments(directory: &Path, listen: Listen, exporter: &str, files: &[&str]) -> Vec<String> {
    let metrics = json!({"host": listen.metrics.ip(), "port": listen.metrics.port()});
    let own = json!({
        "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": listen.grpc}}}},
        "service": {
            "telemetry": {"metrics": {"readers": [{"pull": {"exporter": {"prometheus": metrics}}}]}},
            "pipelines": {"metrics": {"receivers": ["otlp"], "exporters": [exporter]}},
        },
    });
    let own = serde_yaml::to_string(&own).unwrap();
    let mut arguments = Vec::new();
    for (index, text) in [own.as_str()].iter().chain(files).enumerate() {
        let path = directory.join(format!("{index}.yaml"));
        std::fs::write(&path, text).unwrap();
        arguments.extend(["--config".to_owned(), path.display().to_string()]);
    }
    arguments
}

/// What the Collector itself says of such a configuration, without running it.
pub(crate) async fn validate(exporter: &str, files: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let arguments = arguments(directory.path(), free_listen().unwrap(), exporter, files);
    let mut command = Command::new(binary());
    command.arg("validate").args(arguments).output().await.unwrap()
}

impl Tier {
    /// Starts it and waits until it listens.
    pub(crate) async fn start(exporter: &str, files: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listen = free_listen().unwrap();
        let log = File::create(directory.path().join("log")).unwrap();
        let child = Command::new(binary())
            .args(arguments(directory.path(), listen, exporter, files))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let tier = Self {
            _child: child,
            listen,
            client: reqwest::Client::builder()
                .no_proxy()
                .tls_certs_only([])
                .build()
                .unwrap(),
            directory,
        };
        let listens = async || tokio::net::TcpStream::connect(listen.grpc).await;
        poll::eventually("a Collector that listens", WITHIN, listens)
            .await
            .unwrap_or_else(|error| panic!("{error}; {}", tier.log()));
        tier
    }

    /// `http://address:port` of OTLP over gRPC.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.listen.grpc)
    }

    /// What it has printed.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// Waits until the sum of its series that begin with `name` and hold `label` is `wanted`, or more than 0 if that is
    /// not said.
    pub(crate) async fn shows(&self, name: &str, label: &str, wanted: Option<f64>) {
        let url = format!("http://{}/metrics", self.listen.metrics);
        let look = async || {
            let answer = self
                .client
                .get(&url)
                .send()
                .await
                .map_err(|error| error.to_string())?;
            let text = answer.text().await.map_err(|error| error.to_string())?;
            let ours = text
                .lines()
                .filter(|line| line.starts_with(name) && line.contains(label));
            let values = ours.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            let sum: f64 = values.sum();
            if wanted.map_or(sum > 0.5, |wanted| (sum - wanted).abs() < 0.5) {
                Ok(())
            } else {
                Err(format!("{sum} in {text}"))
            }
        };
        let what = format!("{name} {label} {wanted:?}");
        poll::eventually(&what, WITHIN, look)
            .await
            .unwrap_or_else(|error| panic!("{error}; {}", self.log()));
    }
}
