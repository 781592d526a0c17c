//! A cluster with one real node and the product in it, installed by its chart. All scenarios share it; each has a
//! namespace of its own, with its own Jev and backend on the other side of the bridge.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use jevmetrics_api::policy::JevMetricsPolicy;
use jevmetrics_testkit::mock_jev::{self, MockJev};
use jevmetrics_testkit::node::Node;
use jevmetrics_testkit::poll;
use jevmetrics_testkit::sink::{self, Sink};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard};

use crate::chart::{self, SYSTEM};

/// Longer than a rollout of three pods on a busy machine; reached only by a failing test.
pub(crate) const WITHIN: Duration = Duration::from_mins(5);
/// The name of each scenario's policy.
pub(crate) const POLICY: &str = "metrics";

/// The node with the operator for all namespaces.
pub(crate) async fn node() -> &'static Node {
    static INSTALLED: OnceCell<&'static Node> = OnceCell::const_new();
    INSTALLED
        .get_or_init(async || {
            let node = Node::shared().await.unwrap();
            let began = Instant::now();
            chart::install(node, SYSTEM, &[]).await.unwrap();
            println!(
                "chart installed, operator available: {:.1} s",
                began.elapsed().as_secs_f64()
            );
            node
        })
        .await
}

/// Scenarios share the operator; one takes it away for a while.
pub(crate) static OPERATOR: RwLock<()> = RwLock::const_new(());

/// A namespace with what a policy in it needs.
pub(crate) struct Place {
    pub(crate) node: &'static Node,
    pub(crate) namespace: String,
    pub(crate) client: Client,
    pub(crate) policies: Api<JevMetricsPolicy>,
    pub(crate) pods: Api<Pod>,
    pub(crate) jev: MockJev,
    pub(crate) sink: Sink,
    _operator: Option<RwLockReadGuard<'static, ()>>,
}

impl Drop for Place {
    /// Its pods need not burden the other scenarios. Somebody has to look at those of a failed one.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let plane = self.node.plane();
            let deleted = Command::new(plane.kubectl_path())
                .arg("--kubeconfig")
                .arg(plane.admin_kubeconfig())
                .args(["delete", "namespace", &self.namespace, "--wait=false"])
                .output();
            assert!(deleted.unwrap().status.success(), "namespace {}", self.namespace);
        }
    }
}

impl Place {
    pub(crate) async fn new(prefix: &str) -> Self {
        let node = node().await;
        let operator = OPERATOR.read().await;
        Self::make(node, prefix, Some(operator)).await
    }

    /// For a scenario that has the operator for itself.
    pub(crate) async fn alone(prefix: &str) -> Self {
        Self::make(node().await, prefix, None).await
    }

    async fn make(node: &'static Node, prefix: &str, operator: Option<RwLockReadGuard<'static, ()>>) -> Self {
        let namespace = node.plane().namespace(prefix).await.unwrap();
        let restricted = "pod-security.kubernetes.io/enforce=restricted";
        node.plane()
            .kubectl(&["label", "namespace", &namespace, restricted])
            .await
            .unwrap();
        let client = node.plane().admin().await.unwrap();
        let listen = SocketAddr::new(node.address().into(), 0);
        let jev = MockJev::start_with(mock_jev::Options {
            listen,
            ..mock_jev::Options::default()
        });
        let sink = Sink::start_with(sink::Options {
            listen,
            depth: sink::Depth::Count,
            ..sink::Options::default()
        });
        let place = Self {
            node,
            policies: Api::namespaced(client.clone(), &namespace),
            pods: Api::namespaced(client.clone(), &namespace),
            client,
            namespace,
            jev: jev.await.unwrap(),
            sink: sink.await.unwrap(),
            _operator: operator,
        };
        place.put_secret("jev", &json!({"api-key": mock_jev::KEY})).await;
        place
    }

    /// A spec that leads to these neighbours, with a budget that no scenario waits for.
    pub(crate) fn spec(&self, replicas: i32) -> Value {
        json!({
            "revision": "1",
            "replicas": replicas,
            "export": {"endpoint": self.sink.endpoint()},
            "inference": {
                "baseURL": self.jev.base_url(),
                "apiKeySecretRef": {"name": "jev", "key": "api-key"},
                "requestsPerSecondPerReplica": 1000,
                "burst": 1000,
            },
            // So that rollouts are short: a pod is available five seconds after it has settled.
            "routing": {"settleSeconds": 1},
            // The least, for the node has two cores and many scenarios.
            "template": {"resources": {"requests": {"cpu": "1m", "memory": "16Mi"}, "limits": {"memory": "512Mi"}}},
        })
    }

    /// Applies the scenario's policy.
    pub(crate) async fn apply(&self, spec: &Value) {
        let policy = json!({
            "apiVersion": "jevmetrics.io/v1alpha1",
            "kind": "JevMetricsPolicy",
            "metadata": {"name": POLICY},
            "spec": spec,
        });
        let params = PatchParams::apply("user").force().validation_strict();
        let patch = Patch::Apply(&policy);
        self.policies.patch(POLICY, &params, &patch).await.unwrap();
    }

    /// Changes it, as `kubectl patch --type=merge` does.
    pub(crate) async fn patch(&self, spec: &Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        let params = PatchParams::default();
        self.policies.patch(POLICY, &params, &patch).await.unwrap();
    }

    /// Waits until a condition has this status, for the present spec; gives its reason and message.
    pub(crate) async fn condition(&self, type_: &str, status: &str) -> (String, String) {
        let what = format!("{type_}={status} in {}", self.namespace);
        let look = async || {
            let policy = self
                .policies
                .get(POLICY)
                .await
                .map_err(|error| error.to_string())?;
            let conditions = policy.status.iter().flat_map(|status| &status.conditions);
            let mut found = conditions.filter(|condition| {
                condition.type_ == type_
                    && condition.status == status
                    && condition.observed_generation == policy.metadata.generation
            });
            let found = found.next().ok_or_else(|| format!("{:#?}", policy.status))?;
            Ok((found.reason.clone(), found.message.clone()))
        };
        let found: Result<_, _> = poll::eventually::<_, String>(&what, WITHIN, look).await;
        match found {
            Ok(found) => found,
            Err(error) => panic!("{error}\n{}", self.seen().await),
        }
    }

    /// Waits until every pod runs what the policy says, and serves.
    pub(crate) async fn rolled_out(&self) {
        self.condition("RolledOut", "True").await;
        self.condition("Ready", "True").await;
    }

    /// Waits until the status says that a pod does not start; gives its words.
    pub(crate) async fn stuck(&self) -> String {
        let look = async || {
            let (reason, message) = self.condition("RolledOut", "False").await;
            if reason == "PodNotStarting" {
                Ok(message)
            } else {
                Err(format!("{reason}: {message}"))
            }
        };
        poll::eventually("a pod that does not start", WITHIN, look)
            .await
            .unwrap()
    }

    /// How often the containers of a pod were started again.
    pub(crate) async fn restarts(&self, pod: &Pod) -> i32 {
        self.node
            .restarts(&self.namespace, &pod.name_any())
            .await
            .unwrap()
    }

    /// Pods of the policy that are not on their way out, oldest first.
    pub(crate) async fn members(&self) -> Vec<Pod> {
        let params = ListParams::default().labels(&format!("jevmetrics.io/policy={POLICY}"));
        let mut pods = self.pods.list(&params).await.unwrap().items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.sort_by_key(|pod| (pod.creation_timestamp(), pod.name_any()));
        pods
    }

    pub(crate) async fn put_secret(&self, name: &str, data: &Value) {
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = PatchParams::apply("user").force();
        secrets
            .patch(name, &params, &Patch::Apply(&secret))
            .await
            .unwrap();
    }

    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> String {
        let mut all = vec!["--namespace", self.namespace.as_str()];
        all.extend(arguments);
        self.node.plane().kubectl(&all).await.unwrap()
    }

    /// Events of this namespace, one line each.
    pub(crate) async fn events(&self) -> String {
        self.kubectl(&[
            "get",
            "events",
            "--sort-by=.lastTimestamp",
            "-o",
            "custom-columns=OBJECT:.involvedObject.name,REASON:.reason,MESSAGE:.message",
        ])
        .await
    }

    /// What a person would look at if something went wrong.
    pub(crate) async fn seen(&self) -> String {
        let pods = self.kubectl(&["get", "pods", "-o", "wide"]).await;
        let policies = self.kubectl(&["get", "jmp", "-o", "yaml"]).await;
        let operator = self
            .node
            .plane()
            .kubectl(&[
                "--namespace",
                SYSTEM,
                "logs",
                "--tail=20",
                "--prefix",
                "--selector=app.kubernetes.io/name=jevmetrics",
            ])
            .await;
        format!("{pods}\n{policies}\n{}\n{operator:?}", self.events().await)
    }
}
