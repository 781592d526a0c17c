//! Where a scenario plays: a namespace with hollow nodes under it, and an operator for it alone.

use std::collections::BTreeMap;
use std::time::Duration;

use jevmetrics_api::policy::{JevMetricsPolicy, RevisionStatus, definition};
use jevmetrics_testkit::cluster::{
    ClusterError, ControlPlane, Effect, HollowNodes, Mark, Operator, OperatorOptions, Request,
};
use jevmetrics_testkit::poll;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::policies;

/// Longer than anything takes on a busy machine; reached only by a failing test.
pub(crate) const WITHIN: Duration = Duration::from_mins(2);
/// Nothing happens for so long: whatever was to come has come. Counts and members wait for some 6 s for their write.
const QUIET: Duration = Duration::from_secs(8);
/// After so many statuses of a policy in a minute the next one waits for longer.
const CROWDED: usize = 8;

pub(crate) struct Stage {
    pub(crate) plane: &'static ControlPlane,
    /// Before anything happened here.
    pub(crate) start: Mark,
    pub(crate) namespace: String,
    pub(crate) client: Client,
    pub(crate) policies: Api<JevMetricsPolicy>,
    pub(crate) deployments: Api<Deployment>,
    pub(crate) pods: Api<Pod>,
}

/// The definition, as users install it.
pub(crate) async fn plane() -> (&'static ControlPlane, &'static HollowNodes) {
    let nodes = HollowNodes::shared().await.unwrap();
    let plane = ControlPlane::shared().await.unwrap();
    plane.install(&[definition().unwrap()]).await.unwrap();
    (plane, nodes)
}

impl Stage {
    /// A namespace without an operator.
    pub(crate) async fn new(prefix: &str) -> Self {
        Self::on(plane().await.0, prefix).await
    }

    /// A namespace of `plane`, which has the definition and nodes.
    pub(crate) async fn on(plane: &'static ControlPlane, prefix: &str) -> Self {
        let start = plane.audit_mark().unwrap();
        let namespace = plane.namespace(prefix).await.unwrap();
        let client = plane.admin().await.unwrap();
        Self {
            plane,
            start,
            policies: Api::namespaced(client.clone(), &namespace),
            deployments: Api::namespaced(client.clone(), &namespace),
            pods: Api::namespaced(client.clone(), &namespace),
            client,
            namespace,
        }
    }

    /// A namespace and its operator.
    pub(crate) async fn with_operator(prefix: &str) -> (Self, Operator) {
        let stage = Self::new(prefix).await;
        let operator = stage.operator().await;
        (stage, operator)
    }

    pub(crate) async fn operator(&self) -> Operator {
        let options = OperatorOptions::for_namespace(&self.namespace);
        self.plane.operator(&options).await.unwrap()
    }

    /// Applies a spec as a user does.
    pub(crate) async fn apply(&self, name: &str, spec: &Value) {
        self.try_apply(name, spec).await.unwrap();
    }

    pub(crate) async fn try_apply(&self, name: &str, spec: &Value) -> kube::Result<JevMetricsPolicy> {
        let policy = policies::named(name, spec);
        let params = PatchParams::apply("user").force().validation_strict();
        self.policies.patch(name, &params, &Patch::Apply(&policy)).await
    }

    /// Changes a policy as `kubectl patch --type=merge` does.
    pub(crate) async fn patch(&self, name: &str, spec: &Value) {
        let patch = json!({"spec": spec});
        self.policies
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    /// Waits until a condition of a policy has this status and reason, for its present spec.
    pub(crate) async fn condition(&self, name: &str, type_: &str, status: &str, reason: &str) -> String {
        let what = format!("{type_}={status} ({reason}) of {name}");
        let found = poll::eventually(&what, WITHIN, async || {
            let policy = self.policies.get(name).await.map_err(|error| error.to_string())?;
            let conditions = policy
                .status
                .as_ref()
                .map(|status| status.conditions.clone())
                .unwrap_or_default();
            let found = conditions.iter().find(|condition| {
                condition.type_ == type_
                    && condition.status == status
                    && condition.reason == reason
                    && condition.observed_generation == policy.metadata.generation
            });
            found
                .map(|condition| condition.message.clone())
                .ok_or_else(|| format!("{:#?}", policy.status))
        });
        found.await.unwrap()
    }

    /// Waits until the operator has looked at the present spec.
    pub(crate) async fn observed(&self, name: &str) {
        let what = format!("a status for the present spec of {name}");
        let observed = poll::eventually(&what, WITHIN, async || {
            let policy = self.policies.get(name).await.map_err(|error| error.to_string())?;
            let observed = policy
                .status
                .as_ref()
                .and_then(|status| status.observed_generation);
            if observed == policy.metadata.generation {
                Ok(())
            } else {
                Err(format!("{observed:?}"))
            }
        });
        observed.await.unwrap();
    }

    /// Waits until `look` is happy with what it sees.
    pub(crate) async fn eventually<T, Seen: std::fmt::Display>(
        &self,
        what: &str,
        look: impl AsyncFnMut() -> Result<T, Seen>,
    ) -> T {
        poll::eventually(what, WITHIN, look).await.unwrap()
    }

    /// Waits for an event of this reason on a policy; gives its note.
    pub(crate) async fn event(&self, name: &str, reason: &str) -> String {
        let events: Api<k8s_openapi::api::events::v1::Event> =
            Api::namespaced(self.client.clone(), &self.namespace);
        let look = async || {
            let all = events
                .list(&ListParams::default())
                .await
                .map_err(|error| error.to_string())?;
            let about = |event: &&k8s_openapi::api::events::v1::Event| {
                event
                    .regarding
                    .as_ref()
                    .and_then(|regarding| regarding.name.as_deref())
                    == Some(name)
            };
            let mut seen = Vec::new();
            for event in all.items.iter().filter(about) {
                if event.reason.as_deref() == Some(reason) {
                    return Ok(event.note.clone().unwrap_or_default());
                }
                seen.push(event.reason.clone().unwrap_or_default());
            }
            Err(format!("{seen:?}"))
        };
        self.eventually(&format!("event {reason} on {name}"), look).await
    }

    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> String {
        self.try_kubectl(arguments).await.unwrap()
    }

    pub(crate) async fn try_kubectl(&self, arguments: &[&str]) -> Result<String, ClusterError> {
        let mut all = vec!["--namespace", self.namespace.as_str()];
        all.extend(arguments);
        self.plane.kubectl(&all).await
    }

    pub(crate) async fn rolled_out(&self, name: &str) {
        self.condition(name, "RolledOut", "True", "Complete").await;
    }

    /// Every object that the policy owns, by kind and name, without what differs from one to the next.
    pub(crate) async fn owned(&self, uid: &str) -> Vec<(String, DynamicObject)> {
        let mut found = Vec::new();
        for kind in jevmetrics_operator::kinds::Kind::ALL {
            let api = kind.api(&self.client, &self.namespace);
            for object in api.list(&ListParams::default()).await.unwrap() {
                if object.owner_references().iter().any(|owner| owner.uid == uid) {
                    found.push((kind.name().to_owned(), object));
                }
            }
        }
        found.sort_by(|(one, a), (other, b)| (one, a.name_any()).cmp(&(other, b.name_any())));
        found
    }

    /// What the status says of the revision.
    pub(crate) async fn revision(&self, name: &str) -> RevisionStatus {
        let policy = self.policies.get(name).await.unwrap();
        policy.status.unwrap().revision.unwrap()
    }

    pub(crate) async fn uid(&self, name: &str) -> String {
        self.policies.get(name).await.unwrap().uid().unwrap()
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.policies
            .delete(name, &DeleteParams::background())
            .await
            .unwrap();
    }

    /// Waits until the operator has written nothing for a while, and has nothing that waits to be written; says what it wrote
    /// since `mark`.
    pub(crate) async fn settled(&self, operator: &Operator, mark: Mark) -> Vec<Request> {
        loop {
            let writes = settled(QUIET, || self.writes(operator, mark)).await;
            if !is_crowded(&self.writes(operator, self.start)) {
                return writes;
            }
        }
    }

    /// Waits until every ready pod owns a slot and nobody else does: the first table may come some 20 s after the pods.
    async fn seated(&self) {
        let resource = ApiResource::erase::<JevMetricsPolicy>(&());
        let policies = Api::<DynamicObject>::namespaced_with(self.client.clone(), &self.namespace, &resource);
        let look = async || {
            let all = policies.list(&ListParams::default()).await;
            let all = all.map_err(|error| error.to_string())?;
            let is_seated = |policy: &&DynamicObject| {
                let status = &policy.data["status"];
                let ready = status["ready"].as_str().and_then(|text| text.split_once('/'));
                let ready = ready
                    .and_then(|(ready, _)| ready.parse::<usize>().ok())
                    .unwrap_or(0);
                let members = status["members"].as_array().map_or(&[][..], Vec::as_slice);
                let is_active = |member: &Value| member["state"] == "Active";
                ready == 0 || (members.len() == ready && members.iter().all(is_active))
            };
            match all.items.iter().find(|policy| !is_seated(policy)) {
                None => Ok(()),
                Some(policy) => Err(format!("{}: {}", policy.name_any(), policy.data["status"])),
            }
        };
        self.eventually("a slot for every ready pod", look).await;
    }

    /// The moment from which an operator has nothing left to write of what was before.
    pub(crate) async fn calm(&self, operator: &Operator) -> Mark {
        self.seated().await;
        let mark = self.plane.audit_mark().unwrap();
        self.settled(operator, mark).await;
        self.plane.audit_mark().unwrap()
    }

    /// As [`Stage::settled`], but for the status: what pods say may turn a condition at any time.
    pub(crate) async fn settled_objects(&self, operator: &Operator, mark: Mark) -> Vec<Request> {
        let mut writes = self.settled(operator, mark).await;
        writes.retain(|request| request.subresource != "status");
        writes
    }

    /// What an operator asked to be changed since `mark`; its Lease and events are not counted.
    pub(crate) fn writes(&self, operator: &Operator, mark: Mark) -> Vec<Request> {
        let mut requests = self.plane.requests_of(operator.user(), mark).unwrap();
        requests.retain(|request| {
            request.is_write() && !matches!(request.resource.as_str(), "leases" | "events")
        });
        requests
    }
}

/// Waits until `writes` has not grown for `quiet`, and gives them.
pub(crate) async fn settled(quiet: Duration, writes: impl Fn() -> Vec<Request>) -> Vec<Request> {
    let mut before = writes().len();
    loop {
        tokio::time::sleep(quiet).await;
        let now = writes();
        if now.len() == before {
            return now;
        }
        before = now.len();
    }
}

/// Whether a policy has had so many statuses in the last minute that another may wait.
pub(crate) fn is_crowded(writes: &[Request]) -> bool {
    let is_recent = |write: &&Request| {
        let age = Timestamp::now().duration_since(write.received);
        write.subresource == "status" && age.as_secs() < 60
    };
    let mut of_policies: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for write in writes.iter().filter(is_recent) {
        *of_policies.entry((&write.namespace, &write.name)).or_default() += 1;
    }
    of_policies.values().any(|&statuses| statuses >= CROWDED)
}

pub(crate) fn changed(requests: &[Request]) -> Vec<String> {
    let changed = requests
        .iter()
        .filter(|request| request.effect != Effect::Unchanged);
    changed.map(shown).collect()
}

pub(crate) fn unchanged(requests: &[Request]) -> Vec<String> {
    let unchanged = requests
        .iter()
        .filter(|request| request.effect == Effect::Unchanged);
    unchanged.map(shown).collect()
}

fn shown(request: &Request) -> String {
    let Request {
        verb,
        resource,
        subresource,
        name,
        code,
        ..
    } = request;
    format!("{verb} {resource}/{subresource} {name} {code}")
}
