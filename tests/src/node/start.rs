//! From a control plane to a node that runs pods and resolves names.
//!
//! ```text
//! containerd ─▶ images ─┐
//! control plane ────────┴▶ kubelet, kube-proxy ─▶ node Ready ─▶ CoreDNS ─▶ a name resolves in a pod
//! ```

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::Api;
use tokio::time::Instant;

use super::daemon::Daemon;
use super::daemons::Daemons;
use super::sandbox::Sandbox;
use super::{Milestones, NODE, Node, NodeError, NodeOptions, dns, images, settings};
use crate::cluster::{Binaries, ControlPlane, Network, Options, io_error, write};

impl Node {
    /// Starts a cluster and waits until its node is Ready and a pod of it resolves names.
    ///
    /// # Errors
    /// Any [`NodeError`]: this is no sandbox, a program is missing or ended, or something did not get ready in time.
    pub async fn start(options: NodeOptions) -> Result<Self, NodeError> {
        let sandbox = Sandbox::entered()?;
        let binaries = Binaries::find(&["kubelet", "kube-proxy"]).await?;
        let mut files = images::own().await?;
        files.extend(options.images);

        let began = Instant::now();
        let deadline = began + options.ready_within;
        let plane = Options {
            network: Network::Reachable(sandbox.address),
            ready_within: options.ready_within,
            ..Options::default()
        };
        let daemons = Daemons::new(binaries, sandbox)?;
        let containers = start_containers(&daemons, &files, deadline);
        let plane = async { Ok(ControlPlane::start(plane).await?) };
        let (plane, ()) = tokio::try_join!(plane, containers)?;
        let control_plane = began.elapsed();

        start_pods(&daemons, &plane, deadline).await?;
        let node = began.elapsed();
        start_names(&daemons, &plane, deadline).await?;
        Ok(Self {
            daemons,
            plane,
            milestones: Milestones {
                control_plane,
                node,
                names: began.elapsed(),
            },
        })
    }
}

/// Starts containerd and imports images.
async fn start_containers(daemons: &Daemons, images: &[PathBuf], deadline: Instant) -> Result<(), NodeError> {
    let directory = daemons.directory();
    let folder = daemons.file("network");
    std::fs::create_dir(&folder).map_err(io_error("cannot make a folder"))?;
    let network = settings::network(directory, &daemons.sandbox).to_string();
    write(&folder.join("pods.conflist"), &network)?;
    write(&daemons.file("containerd.toml"), &settings::containerd(directory))?;
    daemons.launch(Daemon::Containerd, &Daemon::containerd(directory))?;
    let answers = async || match daemons.ctr(&["version"]).await {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    };
    daemons
        .wait_for(Daemon::Containerd, "an answer of containerd", deadline, answers)
        .await?;
    for image in images {
        daemons.import(image).await?;
    }
    Ok(())
}

/// Starts what makes pods of containers, and waits until pods may come.
async fn start_pods(daemons: &Daemons, plane: &ControlPlane, deadline: Instant) -> Result<(), NodeError> {
    let (directory, sandbox) = (daemons.directory(), &daemons.sandbox);
    let server = plane.write_server("kubelet-server", &[sandbox.address.to_string(), NODE.to_owned()])?;
    let node = format!("system:node:{NODE}");
    let kubelet = plane.write_user("kubelet", &node, Some("system:nodes"))?;
    let proxy = plane.write_user("kube-proxy", "system:kube-proxy", None)?;
    let text = settings::kubelet(directory, sandbox, &plane.authority_file(), &server).to_string();
    write(&daemons.file("kubelet.json"), &text)?;
    daemons.launch(Daemon::Kubelet, &Daemon::kubelet(directory, sandbox, &kubelet))?;
    daemons.launch(Daemon::KubeProxy, &Daemon::kube_proxy(sandbox, &proxy))?;
    let nodes: Api<NodeObject> = Api::all(plane.admin().await?);
    let ready = async || readiness(&nodes).await;
    daemons
        .wait_for(Daemon::Kubelet, "readiness of the node", deadline, ready)
        .await
}

/// Starts the DNS and waits until it answers a pod.
async fn start_names(daemons: &Daemons, plane: &ControlPlane, deadline: Instant) -> Result<(), NodeError> {
    let apply = ["apply", "--server-side", "-f", "-"];
    let objects = dns::objects().to_string();
    plane
        .kubectl_with(&plane.admin_kubeconfig(), &apply, &objects)
        .await?;
    let pods: Api<Pod> = Api::namespaced(plane.admin().await?, dns::NAMESPACE);
    let resolved = async || lookup(&pods).await;
    daemons
        .wait_for(
            Daemon::Kubelet,
            "the answer to a name in a pod",
            deadline,
            resolved,
        )
        .await?;
    let delete = ["delete", "pod", "-n", dns::NAMESPACE, dns::LOOKUP, "--wait=false"];
    plane.kubectl(&delete).await?;
    Ok(())
}

async fn readiness(nodes: &Api<NodeObject>) -> Result<(), String> {
    let node = nodes.get_opt(NODE).await.map_err(|error| error.to_string())?;
    let node = node.ok_or("it has not registered")?;
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    let conditions = node
        .status
        .and_then(|status| status.conditions)
        .unwrap_or_default();
    let ready = conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    // Pods go there only once it is no longer marked as new.
    if ready && taints.is_empty() {
        Ok(())
    } else {
        Err(format!("{conditions:?}, {taints:?}"))
    }
}

async fn lookup(pods: &Api<Pod>) -> Result<(), String> {
    let pod = pods.get(dns::LOOKUP).await.map_err(|error| error.to_string())?;
    let containers = pod.status.and_then(|status| status.container_statuses);
    let state = containers
        .unwrap_or_default()
        .pop()
        .and_then(|container| container.state);
    // The end of its container: that of the pod is told a second later.
    match state.as_ref().and_then(|state| state.terminated.as_ref()) {
        Some(end) if end.exit_code == 0 => Ok(()),
        _ => Err(format!("{state:?}")),
    }
}

impl Node {
    /// Imports an image from a tar in the layout of OCI, as `tests/images/image.sh` writes it.
    ///
    /// # Errors
    /// containerd refused it.
    pub async fn import(&self, image: &Path) -> Result<(), NodeError> {
        self.daemons.import(image).await
    }
}
