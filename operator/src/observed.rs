//! What the watches have seen: one store a kind, read by every reconcile, written by the watches alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use jevmetrics_api::policy::JevMetricsPolicy;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::core::{DeserializeGuard, DynamicObject};
use kube::runtime::reflector::{ObjectRef, Store, store::WriterDropped};
use tokio::sync::OnceCell;

use crate::deleted::Deleted;
use crate::kinds::Kind;
use crate::render::POLICY;

/// A policy, or why it could not be read.
pub type Guarded = DeserializeGuard<JevMetricsPolicy>;

/// What the watches have seen.
#[derive(Debug, Clone)]
pub struct Observed {
    pub(crate) policies: Store<Guarded>,
    pub(crate) owned: BTreeMap<Kind, Store<DynamicObject>>,
    pub(crate) pods: Store<Pod>,
    pub(crate) deleted: Deleted,
    complete: OnceCell<()>,
}

impl Observed {
    /// What these hold.
    pub fn new(
        policies: Store<Guarded>,
        owned: BTreeMap<Kind, Store<DynamicObject>>,
        pods: Store<Pod>,
        deleted: Deleted,
    ) -> Self {
        Self {
            policies,
            owned,
            pods,
            deleted,
            complete: OnceCell::new(),
        }
    }

    /// Waits until every watch of what belongs to policies has shown what there is: before, an object that is not seen
    /// may well be there.
    ///
    /// # Errors
    /// The watches have ended.
    pub async fn complete(&self) -> Result<(), WriterDropped> {
        // A store wakes only the last who waits for it: so one at a time, and not for policies, as the controller does.
        let seen = self.complete.get_or_try_init(async || {
            for store in self.owned.values() {
                store.wait_until_ready().await?;
            }
            self.pods.wait_until_ready().await
        });
        seen.await.copied()
    }

    /// An object of `kind`, if it carries the operator's label.
    pub fn object(&self, kind: Kind, namespace: &str, name: &str) -> Option<Arc<DynamicObject>> {
        let reference = ObjectRef::new_with(name, kind.resource()).within(namespace);
        self.owned.get(&kind)?.get(&reference)
    }

    /// Every object that names `uid` as an owner.
    pub fn owned_by(&self, uid: &str) -> Vec<(Kind, Arc<DynamicObject>)> {
        let of_kind = |(kind, store): (&Kind, &Store<DynamicObject>)| {
            let found = store.state_filter(|object| is_owned_by(object, uid));
            found
                .into_iter()
                .map(|object| (*kind, object))
                .collect::<Vec<_>>()
        };
        self.owned.iter().flat_map(of_kind).collect()
    }

    /// The pods of a policy, oldest first; see [`is_of_a_replica_set`].
    pub fn pods(&self, namespace: &str, policy: &str) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.state_filter(|pod| {
            is_of_a_replica_set(pod)
                && pod.namespace().as_deref() == Some(namespace)
                && pod.labels().get(POLICY).is_some_and(|label| label == policy)
        });
        pods.sort_by_key(|pod| (pod.creation_timestamp(), pod.name_any()));
        pods
    }
}

/// Whether a ReplicaSet controls `pod`, as those of a Deployment. Whoever else makes a pod with the label of a policy, such
/// as a Job or a person, makes no member of it.
pub fn is_of_a_replica_set(pod: &Pod) -> bool {
    let mut owners = pod.owner_references().iter();
    owners.any(|owner| owner.controller == Some(true) && owner.kind == "ReplicaSet")
}

/// Whether `object` names `uid` as an owner.
pub fn is_owned_by(object: &DynamicObject, uid: &str) -> bool {
    object.owner_references().iter().any(|owner| owner.uid == uid)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kube::runtime::reflector;
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, owners: &Value) -> Pod {
        let metadata = json!({
            "name": name, "namespace": "ns", "uid": name, "labels": {POLICY: "p"}, "ownerReferences": owners,
        });
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn owner(kind: &str, controller: bool) -> Value {
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "o", "controller": controller}])
    }

    #[test]
    fn pods_of_a_policy_are_those_of_replica_sets() {
        let (store, mut writer) = reflector::store();
        for pod in [
            pod("of-a-replica-set", &owner("ReplicaSet", true)),
            pod("of-a-job", &owner("Job", true)),
            pod("a-person-s", &Value::Null),
            pod("not-controlled", &owner("ReplicaSet", false)),
        ] {
            writer.apply_watcher_event(&Event::Apply(pod));
        }
        let policies = reflector::store().0;
        let observed = Observed::new(policies, BTreeMap::new(), store, Deleted::default());
        let names: Vec<String> = observed
            .pods("ns", "p")
            .iter()
            .map(|pod| pod.name_any())
            .collect();
        assert_eq!(names, ["of-a-replica-set"]);
        assert!(observed.pods("elsewhere", "p").is_empty());
    }
}
