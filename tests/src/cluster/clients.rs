//! Who talks to the API server, and as whom.
//!
//! Invariants: a client belongs to the runtime that asked for it; each user authenticates as itself, by a certificate
//! or by a token of its service account, so that RBAC and the audit log see the right name.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::Ordering;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::ControlPlane;
use super::error::{ClusterError, api_error, io_error};
use super::kubeconfig::{Credentials, kubeconfig};
use super::start::{write, write_identity};
use crate::http_client::install_tls_provider;

/// What a server shows.
#[derive(Debug)]
pub(crate) struct ServerFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl ControlPlane {
    /// A client that may do everything; in the audit log it is `admin`.
    ///
    /// # Errors
    /// Its kubeconfig is gone.
    pub async fn admin(&self) -> Result<Client, ClusterError> {
        client("admin", &self.admin_kubeconfig()).await
    }

    /// A client for a user who may do what roles allow.
    ///
    /// # Errors
    /// Its files could not be written.
    pub async fn client_for(&self, user: &str, group: Option<&str>) -> Result<Client, ClusterError> {
        client(user, &self.kubeconfig_for(user, group)?).await
    }

    /// A client for a service account, which must exist.
    ///
    /// # Errors
    /// The API server gave no token.
    pub async fn client_for_service_account(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Client, ClusterError> {
        client(name, &self.kubeconfig_for_service_account(namespace, name).await?).await
    }

    /// The kubeconfig of [`ControlPlane::admin`].
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.layout.file("admin.kubeconfig")
    }

    /// A kubeconfig with a new certificate for `user`, for another process.
    ///
    /// # Errors
    /// Its files could not be written.
    pub fn kubeconfig_for(&self, user: &str, group: Option<&str>) -> Result<PathBuf, ClusterError> {
        self.write_user(&self.next_user(), user, group)
    }

    /// A kubeconfig with a new token for a service account, which must exist. The token is good for an hour.
    ///
    /// # Errors
    /// The API server gave no token, or the file could not be written.
    pub async fn kubeconfig_for_service_account(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<PathBuf, ClusterError> {
        let token = self.token_for(namespace, name).await?;
        let user = format!("system:serviceaccount:{namespace}:{name}");
        self.write_kubeconfig(&self.next_user(), &user, Credentials::Token(&token))
    }

    /// A new token for a service account, which must exist. It is good for an hour.
    ///
    /// # Errors
    /// The API server gave none.
    pub async fn token_for(&self, namespace: &str, name: &str) -> Result<String, ClusterError> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin().await?, namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(3600),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await;
        let what = || format!("get a token for service account {namespace}/{name}");
        let status = answer.map_err(api_error(what()))?.status;
        status.and_then(|status| status.token).ok_or_else(|| {
            io_error(format!("cannot {}", what()))(std::io::Error::other("there is none in the answer"))
        })
    }

    /// The kubectl of the same version.
    pub fn kubectl_path(&self) -> PathBuf {
        self.binaries.path("kubectl")
    }

    /// Runs kubectl as `admin` and returns what it printed.
    ///
    /// # Errors
    /// [`ClusterError::Kubectl`] with its standard error.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String, ClusterError> {
        self.kubectl_with(&self.admin_kubeconfig(), arguments, "").await
    }

    /// Runs kubectl as the user of `kubeconfig`, with `input` as its standard input.
    ///
    /// # Errors
    /// [`ClusterError::Kubectl`] with its standard error.
    pub async fn kubectl_with(
        &self,
        kubeconfig: &Path,
        arguments: &[&str],
        input: &str,
    ) -> Result<String, ClusterError> {
        let what = "cannot run kubectl";
        let mut child = Command::new(self.kubectl_path())
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(arguments)
            .env_clear()
            // It keeps a cache there.
            .env("HOME", self.directory())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(io_error(what))?;
        if let Some(mut stdin) = child.stdin.take() {
            // It may end without having read all of it; then its status tells.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let output = child.wait_with_output().await.map_err(io_error(what))?;
        if !output.status.success() {
            return Err(ClusterError::Kubectl {
                arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
                status: output.status,
                printed: String::from_utf8_lossy(&output.stderr).into_owned(),
            });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Writes certificate, key and kubeconfig of a user.
    pub(crate) fn write_user(
        &self,
        file: &str,
        user: &str,
        group: Option<&str>,
    ) -> Result<PathBuf, ClusterError> {
        write_identity(&self.layout, file, &self.authority.client(user, group)?)?;
        let [certificate, key] = ["crt", "key"].map(|kind| self.layout.file(&format!("{file}.{kind}")));
        let credentials = Credentials::Certificate {
            certificate: &certificate,
            key: &key,
        };
        self.write_kubeconfig(file, user, credentials)
    }

    /// Writes certificate and key of a server.
    pub(crate) fn write_server(&self, name: &str, reached: &[String]) -> Result<ServerFiles, ClusterError> {
        write_identity(&self.layout, name, &self.authority.server(name, reached)?)?;
        Ok(ServerFiles {
            certificate: self.layout.file(&format!("{name}.crt")),
            key: self.layout.file(&format!("{name}.key")),
        })
    }

    /// The certificate that vouches for all others.
    pub(crate) fn authority_file(&self) -> PathBuf {
        self.layout.file("ca.crt")
    }

    fn write_kubeconfig(
        &self,
        file: &str,
        user: &str,
        credentials: Credentials<'_>,
    ) -> Result<PathBuf, ClusterError> {
        let path = self.layout.file(&format!("{file}.kubeconfig"));
        let text = kubeconfig(&self.server(), &self.layout.file("ca.crt"), user, credentials);
        write(&path, &text.to_string())?;
        Ok(path)
    }

    /// Users' names hold what file names may not.
    fn next_user(&self) -> String {
        format!("user-{}", self.users.fetch_add(1, Ordering::Relaxed))
    }
}

pub(super) async fn client(user: &str, file: &Path) -> Result<Client, ClusterError> {
    install_tls_provider();
    let failed = |source| ClusterError::Kubeconfig {
        user: user.to_owned(),
        source: Box::new(source),
    };
    let file = Kubeconfig::read_from(file).map_err(failed)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let config = config.map_err(failed)?;
    Client::try_from(config).map_err(api_error(format!("make a client for {user}")))
}
