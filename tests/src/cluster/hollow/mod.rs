//! Hollow nodes: pods that are scheduled onto them come to life without containers.
//!
//! ```text
//! watch ─▶ kubelet ─▶ one life a pod ─▶ status, final deletion
//!                          └─▶ process: what a test lets run at the pod's address
//! ```
//!
//! Invariants: they live on a thread and a runtime of their own, so that tests with runtimes of their own share them;
//! every pod has a loopback address that no other pod of any process has; what a test scripts holds in its own
//! namespace only.

mod kubelet;
mod life;
mod node;
mod references;
mod script;
mod status;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::thread::JoinHandle;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::{OnceCell, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::ControlPlane;
use super::error::{ClusterError, io_error};
use kubelet::{Kubelet, Pods};
use life::Action;
use script::Scripts;

pub use script::{Process, Script, Start};

/// As which user they write; nobody else should use it, so that the audit log keeps them apart.
pub const USER: &str = "hollow-kubelet";
/// Nodes of [`HollowNodes::shared`].
const SHARED_NODES: usize = 3;

/// Running hollow nodes. Dropping them ends their pods' processes; nodes and pods stay as objects.
#[derive(Debug)]
pub struct HollowNodes {
    scripts: Arc<Scripts>,
    pods: Arc<Pods>,
    stop: Option<DropGuard>,
    thread: Option<JoinHandle<()>>,
}

impl HollowNodes {
    /// Three nodes for [`ControlPlane::shared`], which is started if it is not yet; they go with this process.
    ///
    /// # Errors
    /// One of both could not be started. That is not tried again.
    pub async fn shared() -> Result<&'static Self, &'static ClusterError> {
        static SHARED: OnceCell<Result<HollowNodes, ClusterError>> = OnceCell::const_new();
        let plane = ControlPlane::shared().await?;
        let shared = SHARED.get_or_init(async || Self::start(plane, SHARED_NODES).await);
        shared.await.as_ref()
    }

    /// Makes `hollow-0` and so on, and runs what is scheduled onto them.
    ///
    /// # Errors
    /// The API server refused a node, for example because it is there already.
    pub async fn start(plane: &ControlPlane, nodes: usize) -> Result<Self, ClusterError> {
        let client = plane.admin().await?;
        for index in 0..nodes {
            node::create(&client, index, &plane.layout.address.to_string()).await?;
        }
        let (scripts, pods) = (Arc::new(Scripts::default()), Arc::new(Pods::default()));
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(io_error("cannot make a runtime for hollow nodes"))?;
        // A client lives on the runtime that has made it.
        let kubeconfig = plane.kubeconfig_for(USER, Some("system:masters"))?;
        let (told, client_made) = oneshot::channel();
        let (nodes, loopback) = ((0..nodes).map(node::name).collect(), Arc::clone(&plane.loopback));
        let (with_scripts, with_pods) = (Arc::clone(&scripts), Arc::clone(&pods));
        let work = async move {
            let client = match super::clients::client(USER, &kubeconfig).await {
                Ok(client) => client,
                Err(error) => return drop(told.send(Err(error))),
            };
            // Nobody listens only if the start was given up.
            let _ = told.send(Ok(()));
            let kubelet = Kubelet {
                client,
                nodes,
                loopback,
                scripts: with_scripts,
                pods: with_pods,
            };
            tokio::select! {
                () = kubelet.watch() => {}
                () = stopped.cancelled() => {}
            }
        };
        let thread = std::thread::Builder::new()
            .name("hollow-nodes".to_owned())
            .spawn(move || runtime.block_on(work))
            .map_err(io_error("cannot start a thread for hollow nodes"))?;
        let ended = |_| io_error("cannot start hollow nodes")(std::io::Error::other("their thread ended"));
        client_made.await.map_err(ended)??;
        Ok(Self {
            scripts,
            pods,
            stop: Some(stop.drop_guard()),
            thread: Some(thread),
        })
    }

    /// Says what pods of a namespace do that are seen from now on; all others are ready at once.
    pub fn script(&self, namespace: &str, script: impl Fn(&Pod) -> Script + Send + Sync + 'static) {
        self.scripts.write(namespace, script);
    }

    /// Says what runs in pods of a namespace that start from now on.
    ///
    /// `run` is called before a pod is ready, on the runtime of the hollow nodes, with the pod's address; it must not
    /// block. It can listen there at once and spawn tasks. What it returns is dropped when the pod's process ends, which
    /// has to end all that it began.
    pub fn run(&self, namespace: &str, run: impl Fn(&Pod, Ipv4Addr) -> Process + Send + Sync + 'static) {
        self.scripts.run(namespace, run);
    }

    /// Makes a pod fail or pass its readiness probe. It is written when this returns.
    ///
    /// A pod that is scripted never to run begins to.
    ///
    /// # Errors
    /// [`ClusterError::NoPod`].
    pub async fn set_ready(&self, namespace: &str, name: &str, ready: bool) -> Result<(), ClusterError> {
        self.order(namespace, name, Action::Ready(ready)).await
    }

    /// Ends a pod's process and starts it again: for a moment the pod is not ready, then it has one restart more.
    ///
    /// # Errors
    /// [`ClusterError::NoPod`].
    pub async fn restart(&self, namespace: &str, name: &str) -> Result<(), ClusterError> {
        self.order(namespace, name, Action::Restart).await
    }

    /// Ends a pod's process for good; the pod is `Failed`, as after an eviction.
    ///
    /// # Errors
    /// [`ClusterError::NoPod`].
    pub async fn fail(&self, namespace: &str, name: &str) -> Result<(), ClusterError> {
        self.order(namespace, name, Action::Fail).await
    }

    /// A pod takes orders one after another, the first one when it has started.
    async fn order(&self, namespace: &str, name: &str, action: Action) -> Result<(), ClusterError> {
        let none = || ClusterError::NoPod {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let orders = self.pods.orders(&(namespace.to_owned(), name.to_owned()));
        let (done, written) = oneshot::channel();
        orders
            .ok_or_else(none)?
            .send((action, done))
            .map_err(|_| none())?;
        written.await.map_err(|_| none())
    }
}

impl Drop for HollowNodes {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It can only fail by a panic, which was printed.
            let _ = thread.join();
        }
    }
}
