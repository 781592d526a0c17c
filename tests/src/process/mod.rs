//! The data plane as a child process: started with files of its own on free ports, watched, signalled, killed
//! when dropped.
//!
//! Invariants: only the process started here is ever signalled; its files live in a directory of its own,
//! which goes when it is dropped; a start that fails says what the process printed.

mod coordination;
mod error;
mod output;
mod prepare;
mod scrape;
mod settings;
#[cfg(test)]
mod tests;
mod tls;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::{Child, Command};

use jevmetrics_api::member::Member;

use crate::{http_client, memory, peer, poll, signal};
use error::io_error;
use output::Captured;
use prepare::{fill_ports, replace};

pub use coordination::{Budget, Coordination};
pub use error::ProcessError;
pub use prepare::{BINARY_VARIABLE, find_binary, free_listen};
pub use scrape::parse as parse_metrics;
pub use settings::{
    Compression, Export, ExportProtocol, Header, Identity, Inference, Ingest, Listen, Live, LiveFile,
    LiveObject, Mode, Policy, Retention, SettingsFile, Source,
};
pub use tls::{ClientTls, Peer, PeerTls, ServerTls};

const KEY_FILE: &str = "api-key";

/// How to start a data plane.
#[derive(Debug)]
pub struct Options {
    /// Its settings. Addresses with port 0 get a free one; an empty live file gets a path.
    pub settings: SettingsFile,
    /// Its live policy; `None` starts it without the file.
    pub live: Option<LiveFile>,
    /// Jev's key, put into a file of its own.
    pub api_key: Option<String>,
    /// The settings file's content in place of `settings`: for what must not be accepted.
    pub settings_text: Option<String>,
    /// More environment.
    pub environment: Vec<(String, String)>,
    /// More arguments.
    pub arguments: Vec<OsString>,
    /// The binary; `None` looks for it.
    pub binary: Option<PathBuf>,
    /// How long it may take to become ready.
    pub ready_within: Duration,
}

impl Options {
    /// With the default key of the mock, ready within 30 s.
    pub fn new(settings: SettingsFile, mode: Mode) -> Self {
        Self {
            settings,
            live: Some(LiveFile::new(mode)),
            api_key: Some(crate::mock_jev::KEY.to_owned()),
            settings_text: None,
            environment: Vec::new(),
            arguments: Vec::new(),
            binary: None,
            ready_within: Duration::from_secs(30),
        }
    }
}

/// A running data plane. Dropping it kills it.
#[derive(Debug)]
pub struct DataPlane {
    child: Child,
    pid: u32,
    listen: Listen,
    live_file: PathBuf,
    stdout: Captured,
    stderr: Captured,
    client: reqwest::Client,
    directory: TempDir,
}

impl DataPlane {
    /// Writes the files, starts the process and waits until it is ready.
    ///
    /// # Errors
    /// Any [`ProcessError`]; the process is gone then.
    pub async fn start(options: Options) -> Result<Self, ProcessError> {
        let within = options.ready_within;
        let mut started = Self::spawn(options)?;
        started.wait_until_ready(within).await?;
        Ok(started)
    }

    /// Writes the files and starts the process.
    ///
    /// # Errors
    /// A file could not be written, or the binary not be started.
    pub fn spawn(options: Options) -> Result<Self, ProcessError> {
        let binary = match options.binary {
            Some(binary) => binary,
            None => find_binary()?,
        };
        let directory = tempfile::tempdir().map_err(io_error("cannot make a directory"))?;
        let mut settings = options.settings;
        settings.listen = fill_ports(settings.listen)?;
        let live_file = match &mut settings.live {
            Live::File { file } if file.as_os_str().is_empty() => {
                *file = directory.path().join("live.yaml");
                file.clone()
            }
            Live::File { file } => file.clone(),
            Live::Object { .. } => directory.path().join("unused.yaml"),
        };
        if let Some(key) = &options.api_key {
            let file = directory.path().join(KEY_FILE);
            replace(&file, key)?;
            settings.inference.api_key.get_or_insert(Source::File { file });
        }
        if let Some(live) = &options.live {
            replace(&live_file, &serde_yaml::to_string(live)?)?;
        }
        let settings_file = directory.path().join("settings.yaml");
        let text = match options.settings_text {
            Some(text) => text,
            None => serde_yaml::to_string(&settings)?,
        };
        replace(&settings_file, &text)?;
        let mut child = Command::new(binary)
            .arg("--settings")
            .arg(&settings_file)
            .args(options.arguments)
            .envs(options.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(io_error("cannot start the data plane"))?;
        let gone = || io::Error::other("it ended at once");
        let start = io_error("cannot watch the data plane");
        let pid = child.id().ok_or_else(gone).map_err(&start)?;
        let stdout = child.stdout.take().ok_or_else(gone).map_err(&start)?;
        let stderr = child.stderr.take().ok_or_else(gone).map_err(&start)?;
        Ok(Self {
            stdout: Captured::start(stdout, &directory.path().join("stdout")).map_err(&start)?,
            stderr: Captured::start(stderr, &directory.path().join("stderr")).map_err(&start)?,
            child,
            pid,
            listen: settings.listen,
            live_file,
            client: http_client::build()?,
            directory,
        })
    }

    /// Waits until `/readyz` says 200.
    ///
    /// # Errors
    /// [`ProcessError::Ended`] or [`ProcessError::NotReady`].
    pub async fn wait_until_ready(&mut self, within: Duration) -> Result<(), ProcessError> {
        let url = format!("http://{}/readyz", self.listen.metrics);
        let (client, child) = (&self.client, &mut self.child);
        let seen = poll::until_some("readiness", within, async || {
            if let Ok(Some(status)) = child.try_wait() {
                return Some(Err(status));
            }
            // Shorter than the whole wait: a process that accepts and says nothing is asked again.
            let answer = client.get(&url).timeout(Duration::from_secs(1)).send().await;
            answer
                .is_ok_and(|answer| answer.status() == 200)
                .then_some(Ok(()))
        });
        match seen.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(status)) => {
                self.stdout.finish().await;
                self.stderr.finish().await;
                Err(ProcessError::Ended {
                    status,
                    printed: self.printed(),
                })
            }
            Err(_) => Err(ProcessError::NotReady {
                within,
                printed: self.printed(),
            }),
        }
    }

    /// Where it listens.
    pub fn listen(&self) -> Listen {
        self.listen
    }

    /// `http://address:port` of OTLP over gRPC.
    pub fn grpc_endpoint(&self) -> String {
        format!("http://{}", self.listen.grpc)
    }

    /// `http://address:port` of OTLP over HTTP.
    pub fn http_endpoint(&self) -> String {
        format!("http://{}", self.listen.http)
    }

    /// Its heartbeat document, asked for without TLS.
    ///
    /// # Errors
    /// No answer, or none that can be read.
    pub async fn member(&self) -> Result<Member, ProcessError> {
        Ok(peer::ask(self.listen.peer).await?)
    }

    /// Its directory: settings, key, captured output.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Replaces the live policy, by rename as Kubernetes does.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn set_live(&self, live: &LiveFile) -> Result<(), ProcessError> {
        self.set_live_text(&serde_yaml::to_string(live)?)
    }

    /// Replaces the live file's content: for what must not be accepted.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn set_live_text(&self, text: &str) -> Result<(), ProcessError> {
        replace(&self.live_file, text)
    }

    /// Removes the live file.
    ///
    /// # Errors
    /// It could not be removed.
    pub fn remove_live(&self) -> Result<(), ProcessError> {
        std::fs::remove_file(&self.live_file).map_err(io_error("cannot remove the live file"))
    }

    /// Replaces the key of Jev in the file that was made for it.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn set_api_key(&self, key: &str) -> Result<(), ProcessError> {
        replace(&self.directory.path().join(KEY_FILE), key)
    }

    /// What it printed on both streams: standard output first.
    pub fn printed(&self) -> String {
        format!("{}{}", self.stdout.text(), self.stderr.text())
    }

    /// The body of `path` on the metrics port, and its status.
    ///
    /// # Errors
    /// No answer.
    pub async fn get(&self, path: &str) -> Result<(u16, String), ProcessError> {
        self.get_from(self.listen.metrics, path).await
    }

    /// The body of `path` on the admin port, and its status.
    ///
    /// # Errors
    /// No answer.
    pub async fn get_admin(&self, path: &str) -> Result<(u16, String), ProcessError> {
        self.get_from(self.listen.admin, path).await
    }

    async fn get_from(&self, address: SocketAddr, path: &str) -> Result<(u16, String), ProcessError> {
        let answer = self
            .client
            .get(format!("http://{address}{path}"))
            .timeout(Duration::from_secs(10))
            .send()
            .await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// Its metrics: series with labels as printed, and values.
    ///
    /// # Errors
    /// No answer.
    pub async fn scrape(&self) -> Result<BTreeMap<String, f64>, ProcessError> {
        Ok(parse_metrics(&self.get("/metrics").await?.1))
    }

    /// Its resident memory in bytes.
    ///
    /// # Errors
    /// It is gone, or this is not Linux.
    pub fn resident_bytes(&self) -> Result<u64, ProcessError> {
        memory::resident_bytes(self.pid).map_err(io_error("cannot read /proc"))
    }

    /// Sends a signal by its name: `TERM`, `INT`, `STOP`, `CONT`.
    ///
    /// # Errors
    /// It is gone.
    pub async fn signal(&mut self, name: &str) -> Result<(), ProcessError> {
        let what = "cannot signal the data plane";
        // While it has not been waited for, its id belongs to nobody else.
        if self.child.id().is_none() {
            return Err(io_error(what)(io::Error::other("it has ended")));
        }
        signal::send(name, self.pid).await.map_err(io_error(what))
    }

    /// Kills it and waits for its end.
    ///
    /// # Errors
    /// The kernel refused.
    pub async fn kill(&mut self) -> Result<(), ProcessError> {
        self.child
            .kill()
            .await
            .map_err(io_error("cannot kill the data plane"))
    }

    /// Waits for its end; then [`DataPlane::printed`] is complete.
    ///
    /// # Errors
    /// [`ProcessError::StillRunning`]; it goes on running.
    pub async fn wait(&mut self, within: Duration) -> Result<ExitStatus, ProcessError> {
        let Ok(status) = tokio::time::timeout(within, self.child.wait()).await else {
            return Err(ProcessError::StillRunning(within));
        };
        let status = status.map_err(io_error("cannot wait for the data plane"))?;
        self.stdout.finish().await;
        self.stderr.finish().await;
        Ok(status)
    }
}
