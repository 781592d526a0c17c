//! The running daemons of one node, and the directory that they share.
//!
//! Invariants: none outlives this process or its files; whoever waits for one is told if any has ended.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::Instant;

use super::daemon::Daemon;
use super::sandbox::Sandbox;
use super::{NodeError, settings};
use crate::cluster::{Binaries, Directory, Supervised, io_error, watched};

/// The namespace of containerd that the kubelet's containers are in.
const CONTAINERS: &str = "k8s.io";
/// How often something that is waited for is looked at.
const STEP: Duration = Duration::from_millis(100);

/// All daemons that were started.
#[derive(Debug)]
pub(super) struct Daemons {
    // Dropped in this order: no daemon outlives its files.
    running: Mutex<Vec<(Daemon, Supervised)>>,
    directory: Directory,
    binaries: Binaries,
    pub(super) sandbox: Sandbox,
}

impl Daemons {
    /// None yet.
    pub(super) fn new(binaries: Binaries, sandbox: Sandbox) -> Result<Self, NodeError> {
        Ok(Self {
            running: Mutex::new(Vec::new()),
            directory: Directory::create()?,
            binaries,
            sandbox,
        })
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    pub(super) fn log_file(&self, daemon: Daemon) -> PathBuf {
        self.file(&format!("{daemon}.log"))
    }

    pub(super) fn pid(&self, daemon: Daemon) -> Result<u32, NodeError> {
        let running = self.running();
        let found = running.iter().find(|(of, _)| *of == daemon);
        found
            .map(|(_, process)| process.pid())
            .ok_or(NodeError::NotRunning(daemon))
    }

    /// Starts one; does not wait for anything.
    pub(super) fn launch(&self, daemon: Daemon, arguments: &[String]) -> Result<(), NodeError> {
        let program = self.binaries.path(daemon.name());
        let process = Supervised::start(&program, arguments, self.directory(), self.log_file(daemon))?;
        self.running().push((daemon, process));
        Ok(())
    }

    /// Waits until `observe` succeeds. `daemon` is the one that it is up to.
    pub(super) async fn wait_for(
        &self,
        daemon: Daemon,
        what: &str,
        deadline: Instant,
        observe: impl AsyncFnMut() -> Result<(), String>,
    ) -> Result<(), NodeError> {
        let late = watched(STEP, deadline, || self.check_running(), observe).await?;
        late.map_err(|late| NodeError::NotReady {
            what: what.to_owned(),
            within: late.within,
            seen: late.seen,
            daemon,
            printed: self.printed(daemon),
        })
    }

    /// Fails if a daemon that was started has ended.
    pub(super) fn check_running(&self) -> Result<(), NodeError> {
        for (daemon, process) in self.running().iter_mut() {
            let ended = process.ended().map_err(io_error("cannot watch a process"))?;
            if let Some(status) = ended {
                return Err(NodeError::Ended {
                    daemon: *daemon,
                    status,
                    printed: process.printed(),
                });
            }
        }
        Ok(())
    }

    /// Runs containerd's client and returns what it printed.
    pub(super) async fn ctr(&self, arguments: &[&str]) -> Result<String, NodeError> {
        self.check_running()?;
        let output = Command::new("ctr")
            .args(["--address", &settings::socket(self.directory())])
            .args(["--namespace", CONTAINERS])
            .args(arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .map_err(io_error("cannot run ctr"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(NodeError::Command {
            command: format!("ctr {}", arguments.join(" ")),
            status: output.status,
            printed: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Imports an image from a tar in the layout of OCI.
    pub(super) async fn import(&self, image: &Path) -> Result<(), NodeError> {
        let image = image.display().to_string();
        self.ctr(&["images", "import", &image]).await.map(drop)
    }

    fn printed(&self, daemon: Daemon) -> String {
        let running = self.running();
        let found = running.iter().find(|(of, _)| *of == daemon);
        found.map(|(_, process)| process.printed()).unwrap_or_default()
    }

    fn running(&self) -> MutexGuard<'_, Vec<(Daemon, Supervised)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
