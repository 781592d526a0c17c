//! Containers as the node sees them: what they print, their end, their restarts.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::Api;

use super::{Node, NodeError};
use crate::cluster::api_error;

impl Node {
    /// What a pod has printed, all of its containers.
    ///
    /// # Errors
    /// The API server or the kubelet refused.
    pub async fn logs(&self, namespace: &str, pod: &str) -> Result<String, NodeError> {
        let arguments = ["logs", "-n", namespace, pod, "--all-containers"];
        Ok(self.plane.kubectl(&arguments).await?)
    }

    /// What the former run of a container has printed.
    ///
    /// # Errors
    /// It was never restarted, or the kubelet refused.
    pub async fn previous_logs(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
    ) -> Result<String, NodeError> {
        let arguments = ["logs", "-n", namespace, pod, "-c", container, "--previous"];
        Ok(self.plane.kubectl(&arguments).await?)
    }

    /// Kills a container of a pod with SIGKILL from the node's side: neither Kubernetes nor the process knows beforehand.
    ///
    /// # Errors
    /// It does not run.
    pub async fn kill(&self, namespace: &str, pod: &str, container: &str) -> Result<(), NodeError> {
        let statuses = self.container_statuses(namespace, pod).await?;
        let found = statuses.iter().find(|status| status.name == container);
        let running =
            found.filter(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()));
        let id = running
            .and_then(|status| status.container_id.as_deref())
            .and_then(|id| id.strip_prefix("containerd://"));
        let id = id.ok_or_else(|| NodeError::NoContainer {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: container.to_owned(),
        })?;
        self.daemons
            .ctr(&["tasks", "kill", "--signal", "SIGKILL", id])
            .await
            .map(drop)
    }

    /// How often the containers of a pod were restarted, all together.
    ///
    /// # Errors
    /// There is no such pod.
    pub async fn restarts(&self, namespace: &str, pod: &str) -> Result<i32, NodeError> {
        let statuses = self.container_statuses(namespace, pod).await?;
        Ok(statuses.iter().map(|status| status.restart_count).sum())
    }

    async fn container_statuses(
        &self,
        namespace: &str,
        pod: &str,
    ) -> Result<Vec<ContainerStatus>, NodeError> {
        let pods: Api<Pod> = Api::namespaced(self.plane.admin().await?, namespace);
        let found = pods.get(pod).await;
        let found = found.map_err(api_error(format!("get pod {namespace}/{pod}")))?;
        Ok(found
            .status
            .and_then(|status| status.container_statuses)
            .unwrap_or_default())
    }
}
