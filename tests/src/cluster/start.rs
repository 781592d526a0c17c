//! From nothing to a control plane that takes requests.
//!
//! ```text
//! files ─▶ etcd, API server ─▶ /readyz ─▶ controllers, scheduler ─▶ service account `default`
//! ```

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};
use tokio::time::Instant;

use super::audit::{Log, policy};
use super::authority::{Authority, Identity, SigningKey};
use super::binaries::Binaries;
use super::components::{API_SERVICE, Component, Layout, Network};
use super::directory::Directory;
use super::error::{ClusterError, io_error};
use super::loopback::Loopback;
use super::supervised::Supervised;
use super::watched::watched;
use super::{ControlPlane, Options};
use crate::ports::free_port;

/// What a control plane is made of, and what talks to it.
const BINARIES: [&str; 5] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
];
/// How often something that is waited for is looked at.
const STEP: Duration = Duration::from_millis(50);

impl ControlPlane {
    /// Starts a control plane and waits until pods can be created in the namespace `default`.
    ///
    /// *Guarantees*: the API server is ready, all of its controllers run.
    ///
    /// # Errors
    /// Any [`ClusterError`]; nothing is left running then.
    pub async fn start(options: Options) -> Result<Self, ClusterError> {
        let binaries = Binaries::find(&BINARIES).await?;
        let plane = Self::prepare(binaries, options)?;
        let deadline = Instant::now() + plane.options.ready_within;
        plane.launch(Component::Etcd)?;
        plane.launch(Component::ApiServer)?;
        plane.wait_until_ready(deadline).await?;
        plane.launch(Component::ControllerManager)?;
        plane.launch(Component::Scheduler)?;
        plane.wait_for_controllers(deadline).await?;
        Ok(plane)
    }

    /// Everything that the processes read.
    fn prepare(binaries: Binaries, options: Options) -> Result<Self, ClusterError> {
        let directory = Directory::create()?;
        let loopback = Arc::new(Loopback::claim()?);
        let address = match options.network {
            Network::Loopback => loopback.server(),
            Network::Reachable(address) => address,
        };
        let port = || free_port(IpAddr::V4(address)).map_err(io_error("cannot find a free port"));
        let layout = Layout {
            directory: directory.path().to_owned(),
            network: options.network,
            address,
            etcd_port: port()?,
            api_port: port()?,
        };
        let authority = Authority::create()?;
        write(&layout.file("ca.crt"), &authority.certificate())?;
        let tokens = SigningKey::create()?;
        write(&layout.file("sa.key"), &tokens.private)?;
        write(&layout.file("sa.pub"), &tokens.public)?;
        write(&layout.file("audit-policy.json"), &policy().to_string())?;
        write_identity(
            &layout,
            "kube-apiserver",
            &authority.server("kube-apiserver", &api_server_names(address))?,
        )?;
        let audit = Mutex::new(Log::new(layout.file("audit.log")));
        let plane = Self {
            audit,
            installing: tokio::sync::Mutex::new(()),
            processes: Mutex::new(BTreeMap::new()),
            loopback,
            directory,
            layout,
            binaries,
            authority,
            options,
            users: AtomicU32::new(0),
        };
        plane.write_user("admin", "admin", Some("system:masters"))?;
        plane.write_user("controller-manager", "system:kube-controller-manager", None)?;
        plane.write_user("scheduler", "system:kube-scheduler", None)?;
        if let Network::Reachable(_) = plane.options.network {
            // Who asks a kubelet for logs may do everything there.
            plane.write_user("kubelet-client", "kube-apiserver", Some("system:masters"))?;
        }
        Ok(plane)
    }

    /// Starts one process; does not wait for anything.
    pub(super) fn launch(&self, component: Component) -> Result<(), ClusterError> {
        let mut processes = self.processes();
        if processes.contains_key(&component) {
            return Err(ClusterError::Running(component));
        }
        let mut arguments = self.layout.arguments(component);
        let more = self.options.arguments.iter().filter(|(of, _)| *of == component);
        arguments.extend(more.map(|(_, argument)| argument.clone()));
        let binary = self.binaries.path(component.name());
        let process = Supervised::start(&binary, &arguments, self.directory(), self.log_file(component))?;
        processes.insert(component, process);
        Ok(())
    }

    /// Waits until the API server says that it is ready, which includes its store.
    pub(super) async fn wait_until_ready(&self, deadline: Instant) -> Result<(), ClusterError> {
        let admin = self.admin().await?;
        let ready = async || is_ready(&admin).await;
        self.wait_for(Component::ApiServer, "readiness", deadline, ready)
            .await
    }

    /// Waits until the controllers have made what pods need.
    async fn wait_for_controllers(&self, deadline: Instant) -> Result<(), ClusterError> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin().await?, "default");
        let there = async || match accounts.get_opt("default").await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err("it is not there".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let what = "the service account `default`";
        self.wait_for(Component::ControllerManager, what, deadline, there)
            .await
    }

    async fn wait_for(
        &self,
        component: Component,
        what: &'static str,
        deadline: Instant,
        observe: impl AsyncFnMut() -> Result<(), String>,
    ) -> Result<(), ClusterError> {
        let late = watched(STEP, deadline, || self.check_running(), observe).await?;
        late.map_err(|late| ClusterError::NotReady {
            what,
            within: late.within,
            seen: late.seen,
            component,
            printed: self.printed(component),
        })
    }

    fn check_running(&self) -> Result<(), ClusterError> {
        for (component, process) in self.processes().iter_mut() {
            let ended = process.ended().map_err(io_error("cannot watch a process"))?;
            if let Some(status) = ended {
                return Err(ClusterError::Ended {
                    component: *component,
                    status,
                    printed: process.printed(),
                });
            }
        }
        Ok(())
    }

    fn printed(&self, component: Component) -> String {
        let processes = self.processes();
        processes
            .get(&component)
            .map(Supervised::printed)
            .unwrap_or_default()
    }
}

/// Where the API server is, and what it is named inside the cluster.
fn api_server_names(address: Ipv4Addr) -> [String; 7] {
    [
        address.to_string(),
        API_SERVICE.to_string(),
        "localhost".to_owned(),
        "kubernetes".to_owned(),
        "kubernetes.default".to_owned(),
        "kubernetes.default.svc".to_owned(),
        "kubernetes.default.svc.cluster.local".to_owned(),
    ]
}

async fn is_ready(client: &Client) -> Result<(), String> {
    let request = Request::get("/readyz")
        .body(Vec::new())
        .map_err(|error| error.to_string())?;
    let answer = client.request_text(request).await;
    answer.map(drop).map_err(|error| error.to_string())
}

pub(super) fn write_identity(layout: &Layout, name: &str, identity: &Identity) -> Result<(), ClusterError> {
    write(&layout.file(&format!("{name}.crt")), &identity.certificate)?;
    write(&layout.file(&format!("{name}.key")), &identity.key)
}

pub(crate) fn write(file: &Path, text: &str) -> Result<(), ClusterError> {
    std::fs::write(file, text).map_err(io_error(format!("cannot write {}", file.display())))
}
