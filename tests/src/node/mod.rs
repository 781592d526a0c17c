//! A Kubernetes cluster with one real node: a control plane, containerd, kubelet, kube-proxy and `CoreDNS`.
//!
//! ```text
//! test ──▶ ControlPlane ◀─┬─ kubelet ──▶ containerd ──▶ pods on a bridge
//!   │                     ├─ kube-proxy ──▶ iptables: Services balance over pods
//!   │                     └─ CoreDNS, a pod: Services have names
//!   └──import, kill──▶ containerd
//! ```
//!
//! It runs only in the sandbox that `tests/scripts/sandbox.sh` makes, for what a node does to a machine is undone by
//! the end of that sandbox alone.
//!
//! Invariants: nothing is pulled, every image is imported from a file; a node that has started runs pods, its Services
//! balance over them, and their names resolve; its daemons end with this process; what a daemon printed is part of an
//! error about it.
//!
//! *Caveats*: containers, mounts and rules of packets stay until the sandbox ends; one node only; nothing enforces a
//! `NetworkPolicy`.

mod containers;
mod daemon;
mod daemons;
mod dns;
mod error;
mod forward;
mod images;
mod restricted;
mod sandbox;
mod settings;
mod start;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::cluster::{ControlPlane, io_error};
use crate::memory;
use daemons::Daemons;

pub use daemon::Daemon;
pub use error::NodeError;
pub use forward::Forward;
pub use images::{IMAGES_VARIABLE, PROBE_IMAGE, images_folder};
pub use restricted::restricted;

/// The name of the node.
pub const NODE: &str = "node";

/// How to start a node.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// Images to import before the first pod: tars in the layout of OCI, as `tests/images/image.sh` writes them.
    pub images: Vec<PathBuf>,
    /// How long it may take until it is ready, without the time to build its programs.
    pub ready_within: Duration,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            images: Vec::new(),
            ready_within: Duration::from_mins(3),
        }
    }
}

/// How long a start took until then, from its beginning, without the time to build its programs.
#[derive(Debug, Clone, Copy)]
pub struct Milestones {
    /// The control plane took requests, and images were imported.
    pub control_plane: Duration,
    /// The node was Ready and took pods.
    pub node: Duration,
    /// A name resolved in a pod.
    pub names: Duration,
}

/// A running cluster with one real node. Dropping it kills its daemons, not its containers.
#[derive(Debug)]
pub struct Node {
    // Dropped in this order: no daemon outlives the API server or its files.
    daemons: Daemons,
    plane: ControlPlane,
    milestones: Milestones,
}

impl Node {
    /// The one node that the tests of this process share, with all images of [`images_folder`]; the first who asks
    /// starts it. It is never dropped.
    ///
    /// # Errors
    /// It could not be started. That is not tried again.
    pub async fn shared() -> Result<&'static Self, &'static NodeError> {
        static SHARED: OnceCell<Result<Node, NodeError>> = OnceCell::const_new();
        let start = async || {
            Self::start(NodeOptions {
                images: images_folder()?,
                ..NodeOptions::default()
            })
            .await
        };
        SHARED.get_or_init(start).await.as_ref()
    }

    /// Its control plane: clients, kubectl, audit log, namespaces, faults.
    pub fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// Its address, at which pods reach what listens in this process.
    pub fn address(&self) -> Ipv4Addr {
        self.daemons.sandbox.address
    }

    /// How long its start took.
    pub fn milestones(&self) -> Milestones {
        self.milestones
    }

    /// What a daemon printed.
    pub fn log_file(&self, daemon: Daemon) -> PathBuf {
        self.daemons.log_file(daemon)
    }

    /// The resident memory of a daemon in bytes.
    ///
    /// # Errors
    /// It does not run.
    pub fn resident_bytes(&self, daemon: Daemon) -> Result<u64, NodeError> {
        let pid = self.daemons.pid(daemon)?;
        Ok(memory::resident_bytes(pid).map_err(io_error("cannot read /proc"))?)
    }
}
