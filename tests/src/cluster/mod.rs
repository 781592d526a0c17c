//! A real Kubernetes control plane on loopback: etcd, API server, controllers and scheduler, without containers.
//!
//! ```text
//! test ──kube::Client, kubectl──▶ kube-apiserver ──▶ etcd
//!                                   ▲        └──▶ audit log
//!          controllers, scheduler ──┘
//! ```
//!
//! For a real node it listens on an address that pods reach, see [`Network`] and [`crate::node`].
//!
//! Invariants: all of it listens on a loopback range that is held by this control plane alone; its processes and files
//! are gone when it is dropped, and when this process ends in any way; what a start prints is part of its error; no
//! process or connection lives on the runtime of the test that started it.
//!
//! *Caveats* of loopback: pods have loopback addresses, which endpoints refuse, so nobody fills the endpoints of Services; nodes send
//! no heartbeats and nobody misses them.

mod audit;
mod authority;
mod binaries;
mod clients;
mod components;
mod definitions;
mod directory;
mod error;
mod faults;
mod hollow;
mod kubeconfig;
mod loopback;
mod namespaces;
mod operator;
mod start;
mod supervised;
mod watched;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::memory;
use audit::Log;
use authority::Authority;
pub(crate) use binaries::{Binaries, run_script};
pub(crate) use clients::ServerFiles;
use components::Layout;
pub(crate) use directory::Directory;
pub(crate) use error::{api_error, io_error};
use loopback::Loopback;
pub(crate) use start::write;
pub(crate) use supervised::Supervised;
pub(crate) use watched::watched;

pub use audit::{Effect, Mark, Request};
pub use components::{Component, Network};
pub use error::ClusterError;
pub use hollow::{HollowNodes, Process, Script, Start, USER as HOLLOW_USER};
pub use operator::{OPERATOR_VARIABLE, Operator, OperatorOptions};

/// How to start a control plane.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long it may take until it is ready, without the time to build it.
    pub ready_within: Duration,
    /// Where it listens.
    pub network: Network,
    /// More arguments of a component, `--name=value`; where one is given twice, the last counts.
    pub arguments: Vec<(Component, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ready_within: Duration::from_mins(2),
            network: Network::default(),
            arguments: Vec::new(),
        }
    }
}

type Processes = BTreeMap<Component, Supervised>;

/// A running control plane. Dropping it kills its processes and removes its files.
pub struct ControlPlane {
    // Dropped in this order: no process outlives its address or its files.
    processes: Mutex<Processes>,
    loopback: Arc<Loopback>,
    directory: Directory,
    layout: Layout,
    binaries: Binaries,
    authority: Authority,
    options: Options,
    users: AtomicU32,
    audit: Mutex<Log>,
    installing: tokio::sync::Mutex<()>,
}

impl ControlPlane {
    /// The one control plane that the tests of this process share; the first who asks starts it.
    ///
    /// It is never dropped: its processes end because this one does.
    ///
    /// # Errors
    /// It could not be started. That is not tried again.
    pub async fn shared() -> Result<&'static Self, &'static ClusterError> {
        static SHARED: OnceCell<Result<ControlPlane, ClusterError>> = OnceCell::const_new();
        let shared = SHARED.get_or_init(async || Self::start(Options::default()).await);
        shared.await.as_ref()
    }

    /// `https://address:port` of the API server.
    pub fn server(&self) -> String {
        self.layout.server()
    }

    /// Its files: keys, certificates, logs, data.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// What a component printed.
    pub fn log_file(&self, component: Component) -> PathBuf {
        self.layout.file(&format!("{component}.log"))
    }

    /// The process id of a component.
    ///
    /// # Errors
    /// It is stopped.
    pub fn pid(&self, component: Component) -> Result<u32, ClusterError> {
        let processes = self.processes();
        let process = processes.get(&component);
        process
            .map(Supervised::pid)
            .ok_or(ClusterError::NotRunning(component))
    }

    /// The resident memory of a component in bytes.
    ///
    /// # Errors
    /// It is stopped.
    pub fn resident_bytes(&self, component: Component) -> Result<u64, ClusterError> {
        memory::resident_bytes(self.pid(component)?).map_err(io_error("cannot read /proc"))
    }

    fn audit(&self) -> MutexGuard<'_, Log> {
        self.audit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn processes(&self) -> MutexGuard<'_, Processes> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ControlPlane")
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}
