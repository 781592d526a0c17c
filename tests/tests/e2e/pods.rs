//! A namespace on the shared node, and what tests look at in it.

use std::fmt::Debug;
use std::time::Duration;

use jevmetrics_testkit::node::Node;
use jevmetrics_testkit::poll;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

/// Longer than anything takes on a busy machine: pods that start, end, are noticed.
pub(crate) const WITHIN: Duration = Duration::from_mins(2);

/// A namespace in which only pods of the security level "restricted" may run.
pub(crate) struct Space {
    pub(crate) node: &'static Node,
    pub(crate) namespace: String,
    pub(crate) pods: Api<Pod>,
    pub(crate) deployments: Api<Deployment>,
}

impl Space {
    pub(crate) async fn new(prefix: &str) -> Self {
        let node = Node::shared().await.unwrap_or_else(|error| panic!("{error}"));
        let namespace = node.plane().namespace(prefix).await.unwrap();
        let level = "pod-security.kubernetes.io/enforce=restricted";
        let label = ["label", "namespace", &namespace, level];
        node.plane().kubectl(&label).await.unwrap();
        let client = node.plane().admin().await.unwrap();
        Self {
            node,
            pods: Api::namespaced(client.clone(), &namespace),
            deployments: Api::namespaced(client, &namespace),
            namespace,
        }
    }

    pub(crate) async fn apply(&self, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        let admin = self.node.plane().admin_kubeconfig();
        let arguments = ["apply", "--server-side", "-n", &self.namespace, "-f", "-"];
        self.node
            .plane()
            .kubectl_with(&admin, &arguments, &list)
            .await
            .unwrap();
    }

    /// The pods with the label `app`, those excepted that are asked to end.
    pub(crate) async fn pods_of(&self, app: &str) -> Vec<Pod> {
        let params = ListParams::default().labels(&format!("app={app}"));
        let mut pods = self.pods.list(&params).await.unwrap().items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods
    }

    /// Waits until a Deployment has seen its spec and all its pods run it and are available.
    pub(crate) async fn rolled_out(&self, name: &str) {
        let complete = async || {
            let deployment = self
                .deployments
                .get(name)
                .await
                .map_err(|error| error.to_string())?;
            let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
            let status = deployment.status.unwrap_or_default();
            let current = status.observed_generation == deployment.metadata.generation;
            let counts = [
                status.replicas,
                status.updated_replicas,
                status.available_replicas,
            ];
            if current && counts.iter().all(|count| *count == wanted) {
                Ok(())
            } else {
                Err(format!("{status:?}"))
            }
        };
        self.eventually(&format!("the rollout of {name}"), complete).await;
    }

    /// Waits for a condition; if it does not come, what the kubelet and the scheduler have said is part of the failure.
    pub(crate) async fn eventually<T>(
        &self,
        what: &str,
        observe: impl AsyncFnMut() -> Result<T, String>,
    ) -> T {
        match poll::eventually(what, WITHIN, observe).await {
            Ok(found) => found,
            Err(error) => {
                let events = ["get", "events", "-n", &self.namespace];
                panic!("{error}\n{}", told(self.node.plane().kubectl(&events).await));
            }
        }
    }

    /// Runs the probe in a pod of this namespace.
    pub(crate) async fn probe(&self, pod: &str, arguments: &[&str]) -> Result<String, String> {
        let exec = ["exec", "-n", &self.namespace, pod, "--", "/probe"];
        let arguments = [&exec, arguments].concat();
        let printed = self.node.plane().kubectl(&arguments).await;
        printed
            .map(|text| text.trim().to_owned())
            .map_err(|error| error.to_string())
    }

    /// Asks for the end of all that is in it. Nobody waits for that: the node ends as well.
    pub(crate) async fn end(self) {
        let delete = ["delete", "namespace", &self.namespace, "--wait=false"];
        self.node.plane().kubectl(&delete).await.unwrap();
    }
}

pub(crate) fn name(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap()
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref());
    conditions
        .unwrap_or_default()
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn told<T: ToString, E: Debug>(answer: Result<T, E>) -> String {
    answer.map_or_else(|error| format!("{error:?}"), |text| text.to_string())
}
