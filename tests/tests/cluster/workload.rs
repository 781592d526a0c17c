//! Deployments as scenarios of this test binary use them.

use std::time::Duration;

use jevmetrics_testkit::cluster::ControlPlane;
use jevmetrics_testkit::poll;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

/// Longer than anything takes on a busy machine; reached only by a failing test.
pub(crate) const WITHIN: Duration = Duration::from_mins(2);

/// `app` with so many replicas; `spec` is added to its pods'.
pub(crate) fn deployment(replicas: usize, spec: &Value) -> Deployment {
    let mut pod = json!({
        "terminationGracePeriodSeconds": 5,
        "containers": [{"name": "main", "image": "none.invalid/none"}],
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod[key] = value.clone();
    }
    serde_json::from_value(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "app", "labels": {"app": "app"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "app"}},
            "template": {"metadata": {"labels": {"app": "app"}}, "spec": pod},
        },
    }))
    .unwrap()
}

pub(crate) struct Workload {
    pub(crate) namespace: String,
    pub(crate) client: Client,
    pub(crate) deployments: Api<Deployment>,
    pub(crate) pods: Api<Pod>,
}

impl Workload {
    pub(crate) async fn new(plane: &ControlPlane, prefix: &str) -> Self {
        let namespace = plane.namespace(prefix).await.unwrap();
        let client = plane.admin().await.unwrap();
        Self {
            deployments: Api::namespaced(client.clone(), &namespace),
            pods: Api::namespaced(client.clone(), &namespace),
            client,
            namespace,
        }
    }

    pub(crate) async fn create(&self, deployment: &Deployment) {
        self.deployments
            .create(&PostParams::default(), deployment)
            .await
            .unwrap();
    }

    pub(crate) async fn list(&self) -> Vec<Pod> {
        self.pods.list(&ListParams::default()).await.unwrap().items
    }

    /// Waits until so many replicas are available, and no more.
    pub(crate) async fn available(&self, replicas: i32) {
        let available = async || {
            let status = self
                .deployments
                .get("app")
                .await
                .map_err(|error| error.to_string())?
                .status;
            let number = status
                .as_ref()
                .and_then(|status| status.available_replicas)
                .unwrap_or(0);
            if number == replicas {
                Ok(())
            } else {
                Err(format!("{status:?}"))
            }
        };
        let what = format!("{replicas} available replicas");
        poll::eventually(&what, WITHIN, available).await.unwrap();
    }

    /// Waits until the only pod waits for `reason`, and returns its name.
    pub(crate) async fn waiting(&self, reason: &str) -> String {
        let waiting = async || {
            let pod = self.list().await.pop().ok_or("no pod")?;
            match waits_for(&pod) {
                Some(seen) if seen == reason => Ok(pod.metadata.name.unwrap()),
                _ => Err("it waits for something else"),
            }
        };
        poll::eventually(reason, WITHIN, waiting).await.unwrap()
    }
}

pub(crate) fn waits_for(pod: &Pod) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.first()?.state.as_ref()?.waiting.as_ref()?.reason.clone()
}
