//! The operator as a process of its own, with the rights that it says it needs and no other.
//!
//! Each has a user of its own, so that the audit log tells what it did; it ends with this process, and when it is
//! dropped.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use jevmetrics_operator::rights::{LEASE_RIGHTS, RIGHTS, Right};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::ControlPlane;
use super::error::{ClusterError, api_error, io_error};
use super::supervised::{Signal, Supervised};
use crate::{memory, poll, ports};

/// Names the binary; without it, it is looked for beside the running test.
pub const OPERATOR_VARIABLE: &str = "JEVMETRICS_OPERATOR_BIN";
const BINARY: &str = "jevmetrics-operator";
/// Nobody pulls it.
const IMAGE: &str = "dataplane.invalid/dataplane:1";
/// The role with all that an operator may do.
const ROLE: &str = "jevmetrics-operator";
/// An operator that is asked to stop finishes what it is at.
const STOP_WITHIN: Duration = Duration::from_secs(30);

/// How to start an operator.
#[derive(Debug, Clone)]
pub struct OperatorOptions {
    /// Its user.
    pub user: String,
    /// The one namespace that it looks at; all if there is none.
    pub namespace: Option<String>,
    /// Where its Lease is.
    pub lease_namespace: String,
    /// Image of data planes.
    pub image: String,
}

impl OperatorOptions {
    /// For one namespace, with its Lease in it, as a user of its own.
    pub fn for_namespace(namespace: &str) -> Self {
        Self {
            user: format!("operator-of-{namespace}"),
            namespace: Some(namespace.to_owned()),
            lease_namespace: namespace.to_owned(),
            image: IMAGE.to_owned(),
        }
    }

    /// For all namespaces, with its Lease in one of them.
    pub fn for_cluster(user: &str, lease_namespace: &str) -> Self {
        Self {
            user: user.to_owned(),
            namespace: None,
            lease_namespace: lease_namespace.to_owned(),
            image: IMAGE.to_owned(),
        }
    }
}

/// A running operator. Dropping it kills it.
pub struct Operator {
    process: Supervised,
    user: String,
    address: SocketAddr,
    client: reqwest::Client,
}

impl ControlPlane {
    /// Gives `user` the rights of an operator.
    ///
    /// # Errors
    /// The API server refused.
    pub async fn grant_operator(&self, user: &str) -> Result<(), ClusterError> {
        let client = self.admin().await?;
        let params = PatchParams::apply("testkit").force();
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": ROLE},
            "rules": RIGHTS.iter().chain(LEASE_RIGHTS).map(rule).collect::<Vec<_>>(),
        });
        let roles: Api<ClusterRole> = Api::all(client.clone());
        let patched = roles.patch(ROLE, &params, &Patch::Apply(&role)).await;
        patched.map_err(api_error("write the operator's role"))?;
        let name = format!("{ROLE}-{}", user.replace(':', "-"));
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        let bindings: Api<ClusterRoleBinding> = Api::all(client);
        let patched = bindings.patch(&name, &params, &Patch::Apply(&binding)).await;
        patched.map_err(api_error("bind the operator's role"))?;
        Ok(())
    }

    /// Starts an operator and waits until its pages answer.
    ///
    /// # Errors
    /// It is not there, or it ended; the error says what it printed.
    pub async fn operator(&self, options: &OperatorOptions) -> Result<Operator, ClusterError> {
        self.grant_operator(&options.user).await?;
        let kubeconfig = self.kubeconfig_for(&options.user, None)?;
        let mut arguments = vec![
            "run".to_owned(),
            format!("--dataplane-image={}", options.image),
            format!("--lease-namespace={}", options.lease_namespace),
        ];
        arguments.extend(
            options
                .namespace
                .iter()
                .map(|namespace| format!("--namespace={namespace}")),
        );
        self.operator_with(&options.user, &kubeconfig, &arguments).await
    }

    /// Starts an operator with these arguments as the user of `kubeconfig`, who must have the rights, and waits until its
    /// pages answer. Only the address of its pages is of this machine.
    ///
    /// # Errors
    /// As [`ControlPlane::operator`].
    pub async fn operator_with(
        &self,
        user: &str,
        kubeconfig: &Path,
        arguments: &[String],
    ) -> Result<Operator, ClusterError> {
        let what = "cannot start the operator";
        let host = self.layout.address.into();
        let port = ports::free_port(host).map_err(io_error(what))?;
        let address = SocketAddr::new(host, port);
        let log = self
            .layout
            .file(&format!("{}-{port}.log", user.replace(':', "-")));
        let mut all = vec![
            format!("KUBECONFIG={}", kubeconfig.display()),
            binary().map_err(io_error(what))?.display().to_string(),
        ];
        all.extend_from_slice(arguments);
        all.push(format!("--listen={address}"));
        let process = Supervised::start(Path::new("/usr/bin/env"), &all, self.directory(), log)?;
        let mut operator = Operator {
            process,
            user: user.to_owned(),
            address,
            client: crate::http_client::build()
                .map_err(|error| io_error(what)(std::io::Error::other(error)))?,
        };
        operator.wait_until_it_answers().await?;
        Ok(operator)
    }
}

impl Operator {
    /// Its user, as in the audit log.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The text of one of its pages, such as `/metrics`, and its status code.
    ///
    /// # Errors
    /// No answer.
    pub async fn page(&self, path: &str) -> Result<(u16, String), reqwest::Error> {
        let url = format!("http://{}{path}", self.address);
        let reply = self
            .client
            .get(url)
            .timeout(Duration::from_secs(5))
            .send()
            .await?;
        Ok((reply.status().as_u16(), reply.text().await?))
    }

    /// Whether it leads.
    pub async fn leads(&self) -> bool {
        let page = self.page("/metrics").await;
        page.is_ok_and(|(_, text)| text.lines().any(|line| line == "jevmetrics_operator_leading 1"))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its resident memory in bytes.
    ///
    /// # Errors
    /// It has ended.
    pub fn resident_bytes(&self) -> Result<u64, ClusterError> {
        memory::resident_bytes(self.process.pid()).map_err(io_error("cannot read /proc"))
    }

    /// The end of what it printed.
    pub fn printed(&self) -> String {
        self.process.printed()
    }

    /// Stops it in its tracks.
    ///
    /// # Errors
    /// It has ended.
    pub fn pause(&mut self) -> Result<(), ClusterError> {
        self.signal(Signal::Stop)
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// It has ended.
    pub fn resume(&mut self) -> Result<(), ClusterError> {
        self.signal(Signal::Continue)
    }

    /// Asks it to end and waits for its end.
    ///
    /// # Errors
    /// It did not end.
    pub async fn stop(mut self) -> Result<ExitStatus, ClusterError> {
        self.signal(Signal::Terminate)?;
        let ended = poll::until_some("the end of the operator", STOP_WITHIN, async || {
            self.process.ended().transpose()
        });
        ended.await?.map_err(io_error("cannot wait for the operator"))
    }

    fn signal(&mut self, signal: Signal) -> Result<(), ClusterError> {
        self.process
            .signal(signal)
            .map_err(io_error("cannot signal the operator"))
    }

    async fn wait_until_it_answers(&mut self) -> Result<(), ClusterError> {
        let answers = poll::until_some("an answer of the operator", Duration::from_mins(1), async || {
            if matches!(self.process.ended(), Ok(Some(_))) {
                return Some(Err(std::io::Error::other(self.process.printed())));
            }
            self.page("/livez").await.ok().map(|_| Ok(()))
        });
        answers.await?.map_err(io_error("the operator has ended"))
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Operator")
            .field("user", &self.user)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

fn rule(right: &Right) -> serde_json::Value {
    json!({"apiGroups": [right.group], "resources": [right.resource], "verbs": right.verbs})
}

fn binary() -> std::io::Result<PathBuf> {
    if let Some(named) = std::env::var_os(OPERATOR_VARIABLE) {
        return Ok(PathBuf::from(named));
    }
    let this = std::env::current_exe()?;
    let looked: Vec<PathBuf> = this
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join(BINARY))
        .collect();
    let found = looked.iter().find(|path| path.is_file()).cloned();
    found.ok_or_else(|| std::io::Error::other(format!("not found: {looked:?}; build it with --bins")))
}
