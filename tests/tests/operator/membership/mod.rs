//! Who owns what, decided by a real operator over pods on a real API server.
//!
//! ```text
//! pods ─▶ operator ─▶ live object ─▶ Record: every table, as a watch shows it
//!   └──────────────────────────────▶ Record: when each pod became ready, and when it was deleted
//! ```
//! Pods say that they are on the table that was last published, as data planes do.

mod absent;
mod apart;
mod flapping;
mod hundreds;
mod record;
mod touched;
mod two_operators;

use std::collections::BTreeSet;
use std::sync::Arc;

use jevmetrics_api::policy::RoutingStatus;
use jevmetrics_api::routing::RoutingTable;
use jevmetrics_testkit::cluster::{HollowNodes, Mark, Operator, Request, Script};
use jevmetrics_testkit::poll;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use self::record::Record;
use crate::site::WITHIN;
use crate::stage::{Stage, plane};
use crate::voices::Voices;

const LIVE: &str = "jm-live";

/// A policy `jm`, and what happens to its members.
struct Scene {
    stage: Stage,
    nodes: &'static HollowNodes,
    voices: Voices,
    record: Record,
}

impl Scene {
    /// A namespace without an operator and without a policy; pods stop as real ones do.
    async fn new(prefix: &str) -> Self {
        let (_, nodes) = plane().await;
        let stage = Stage::new(prefix).await;
        let voices = Voices::default();
        voices.give(nodes, &stage.namespace, None);
        nodes.script(&stage.namespace, |_| {
            Script::READY.stopping_after(record::PRE_STOP)
        });
        let record = Record::start(&stage, voices.clone());
        Self {
            stage,
            nodes,
            voices,
            record,
        }
    }

    /// With its policy: so many pods, and `routing` of its spec.
    async fn with_policy(prefix: &str, replicas: usize, routing: &Value) -> Self {
        let scene = Self::new(prefix).await;
        let spec = json!({
            "replicas": replicas,
            "export": {"endpoint": "http://sink.invalid:4317"},
            "routing": routing,
        });
        scene.stage.apply("jm", &spec).await;
        scene
    }

    /// Waits until `members` pods are there, all ready, and exactly they own the slots.
    async fn whole(&self, members: usize) -> Arc<RoutingTable> {
        let look = async || {
            let table = self.record.latest().ok_or("no table")?;
            let there = self.record.living();
            let owners: BTreeSet<String> = table.owners().iter().map(|owner| owner.uid.clone()).collect();
            if there.len() == members && owners == there {
                return Ok(table);
            }
            let strangers = owners.difference(&there).count();
            Err(format!(
                "epoch {}: {} owners, {strangers} of them not among {} living pods",
                table.epoch(),
                owners.len(),
                there.len()
            ))
        };
        let what = format!("a table of {members} living pods");
        poll::eventually(&what, WITHIN, look).await.unwrap()
    }

    /// Waits until every pod is on the present epoch, and the status says so.
    async fn converged(&self, members: usize) {
        let all = format!("{members}/{members}");
        let look = async || {
            let routing = self.routing_status().await?;
            let is_whole = usize::try_from(routing.members) == Ok(members);
            if is_whole && routing.converged == all {
                Ok(())
            } else {
                Err(format!("{routing:?}"))
            }
        };
        let what = format!("{all} in the status");
        poll::eventually(&what, WITHIN, look).await.unwrap();
        let reason = "Converged";
        self.stage
            .condition("jm", "RoutingConverged", "True", reason)
            .await;
    }

    async fn routing_status(&self) -> Result<RoutingStatus, String> {
        let policy = self.stage.policies.get("jm").await;
        let status = policy.map_err(|error| error.to_string())?.status;
        status
            .and_then(|status| status.routing)
            .ok_or_else(|| "no routing in the status".to_owned())
    }

    fn live(&self) -> Api<ConfigMap> {
        Api::namespaced(self.stage.client.clone(), &self.stage.namespace)
    }

    /// The table in the live object.
    async fn live_table(&self) -> Result<RoutingTable, String> {
        let object = self.live().get(LIVE).await.map_err(|error| error.to_string())?;
        let text = object.data.unwrap_or_default().remove("routing");
        let text = text.ok_or("no table")?;
        RoutingTable::from_routing_yaml(&text).map_err(|error| error.to_string())
    }

    /// Puts a text in the place of the table, as somebody does who should not.
    async fn put_table(&self, text: &str) {
        let patch = json!({"data": {"routing": text}});
        let params = PatchParams::default();
        self.live()
            .patch(LIVE, &params, &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    async fn delete_live(&self) {
        self.live().delete(LIVE, &DeleteParams::default()).await.unwrap();
    }

    /// Deletes a pod as `kubectl delete pod` does, without waiting for its end.
    async fn delete_pod(&self, name: &str) {
        let params = DeleteParams::default();
        self.stage.pods.delete(name, &params).await.unwrap();
    }

    /// Waits until the pod with this uid owns nothing.
    async fn has_left(&self, uid: &str) {
        let what = format!("a table without {uid}");
        let left = || {
            let table = self.record.latest();
            table.is_some_and(|table| table.slot_of(uid).is_none())
        };
        poll::until(&what, WITHIN, left).await.unwrap();
    }

    /// Writes of the live object since `mark`.
    fn table_writes(&self, operator: &Operator, mark: Mark) -> Vec<Request> {
        let mut writes = self.stage.writes(operator, mark);
        writes.retain(|write| write.resource == "configmaps" && write.name == LIVE);
        writes
    }
}

fn is_living(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready.next().is_some() && pod.metadata.deletion_timestamp.is_none()
}
