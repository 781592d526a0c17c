//! Which policies a change of a pod concerns: those of pods of which something has changed that anybody here reads. And
//! which pods are gone.
//!
//! Kubelets write to pods all the time, and anybody may annotate them. Deletions are always told: of a pod that is gone
//! nothing can be compared. One that is not in the next list is as deleted as one of which the watch says so: no pod comes
//! back under its uid. Only one whose label somebody takes away looks deleted too, and may come back; it is no member
//! meanwhile.
//!
//! What a list shows is told when the list is complete: the store shows nothing of it before.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Event;

use crate::assess::PodView;
use crate::membership::Observation;
use crate::observed::{Guarded, is_of_a_replica_set};
use crate::render::POLICY;

type Policy = ObjectRef<Guarded>;
/// Namespace and name.
type Key = (Option<String>, String);

/// What events of the watch come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// The policies to look at. One may be named several times.
    pub(crate) concerned: Vec<Policy>,
    /// Pods that were members and are gone: the policy and the uid of each.
    pub(crate) deleted: Vec<(Policy, String)>,
}

impl News {
    fn gone(&mut self, known: Known) {
        self.deleted
            .extend(known.member.map(|uid| (known.policy.clone(), uid)));
        self.concerned.push(known.policy);
    }
}

/// A pod as it was last told.
#[derive(Debug)]
struct Known {
    digest: u64,
    policy: Policy,
    /// Its uid, if it may be a member.
    member: Option<String>,
}

/// The pods as they were last told.
#[derive(Debug, Default)]
pub(crate) struct PodChanges {
    known: HashMap<Key, Known>,
    /// While a list is read: those of before it that were not in it yet.
    before: HashMap<Key, Known>,
    /// What the list has shown so far, also if it was begun anew.
    listed: News,
}

impl PodChanges {
    /// Takes in an event of the watch; says what comes of it.
    pub(crate) fn take_in(&mut self, event: &Event<Pod>) -> News {
        let mut news = News::default();
        match event {
            Event::Init => self.before.extend(self.known.drain()),
            Event::InitApply(pod) => {
                let before = self.before.remove(&key(pod));
                let mut listed = std::mem::take(&mut self.listed);
                self.compare(pod, before, &mut listed);
                self.listed = listed;
            }
            Event::InitDone => {
                news = std::mem::take(&mut self.listed);
                // Gone while nobody watched.
                for (_, known) in self.before.drain() {
                    news.gone(known);
                }
            }
            Event::Apply(pod) => {
                let before = self.known.remove(&key(pod));
                self.compare(pod, before, &mut news);
            }
            Event::Delete(pod) => {
                let before = self.known.remove(&key(pod));
                if let Some(known) = known(pod).or(before) {
                    news.gone(known);
                }
            }
        }
        news
    }

    fn compare(&mut self, pod: &Pod, before: Option<Known>, news: &mut News) {
        let now = known(pod);
        let is_old = |now: &Known, before: &Known| now.digest == before.digest && now.policy == before.policy;
        let is_news = !now
            .as_ref()
            .zip(before.as_ref())
            .is_some_and(|(now, before)| is_old(now, before));
        if is_news {
            news.concerned.extend(now.as_ref().map(|now| now.policy.clone()));
            match before {
                // Another pod has its name.
                Some(before) if before.member.is_some() && before.member != pod.uid() => news.gone(before),
                Some(before) => news.concerned.push(before.policy),
                None => {}
            }
        }
        self.known.extend(now.map(|now| (key(pod), now)));
    }
}

/// None if the pod is of no policy.
fn known(pod: &Pod) -> Option<Known> {
    Some(Known {
        digest: what_is_read(pod),
        policy: policy_of(pod)?,
        member: pod.uid().filter(|_| is_of_a_replica_set(pod)),
    })
}

fn key(pod: &Pod) -> Key {
    (pod.namespace(), pod.name_any())
}

fn policy_of(pod: &Pod) -> Option<Policy> {
    let policy = pod.labels().get(POLICY)?;
    Some(ObjectRef::new(policy).within(&pod.namespace()?))
}

/// All that membership and the status are made of.
fn what_is_read(pod: &Pod) -> u64 {
    let mut hasher = DefaultHasher::new();
    Observation::of(pod).hash(&mut hasher);
    PodView::of(pod).hash(&mut hasher);
    for owner in pod.owner_references() {
        owner.uid.hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    fn pod(change: impl FnOnce(&mut Value)) -> Pod {
        let mut pod = json!({
            "metadata": {"name": "jm-1", "namespace": "ns", "uid": "u", "labels": {POLICY: "jm"}, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true},
            ]},
            "spec": {"containers": []},
            "status": {"podIP": "10.0.0.1", "phase": "Running", "conditions": [
                {"type": "Ready", "status": "True"},
            ]},
        });
        change(&mut pod);
        serde_json::from_value(pod).unwrap()
    }

    fn other(name: &'static str, policy: &'static str) -> Pod {
        pod(move |pod| {
            pod["metadata"]["name"] = json!(name);
            pod["metadata"]["uid"] = json!(format!("uid of {name}"));
            pod["metadata"]["labels"] = json!({POLICY: policy});
        })
    }

    /// The policies to look at, each once.
    fn names(news: &News) -> Vec<&str> {
        let names: BTreeSet<&str> = news.concerned.iter().map(|policy| policy.name.as_str()).collect();
        names.into_iter().collect()
    }

    fn deleted(news: &News) -> Vec<(&str, &str)> {
        let deleted = news.deleted.iter();
        deleted
            .map(|(policy, uid)| (policy.name.as_str(), uid.as_str()))
            .collect()
    }

    #[test]
    fn only_what_is_read_is_news() {
        let mut changes = PodChanges::default();
        assert_eq!(names(&changes.take_in(&Event::Apply(pod(|_| {})))), ["jm"]);
        let quiet: [fn(&mut Value); 4] = [
            |_| {},
            |pod| pod["metadata"]["annotations"] = json!({"touched": "again"}),
            |pod| pod["metadata"]["resourceVersion"] = json!("9"),
            |pod| pod["status"]["qosClass"] = json!("Burstable"),
        ];
        for change in quiet {
            assert_eq!(changes.take_in(&Event::Apply(pod(change))), News::default());
        }
        let news: [fn(&mut Value); 5] = [
            |pod| pod["status"]["conditions"][0]["status"] = json!("False"),
            |pod| pod["status"]["podIP"] = json!("10.0.0.2"),
            |pod| pod["status"]["phase"] = json!("Failed"),
            |pod| pod["metadata"]["uid"] = json!("another"),
            |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
        ];
        for change in news {
            assert_eq!(names(&changes.take_in(&Event::Apply(pod(change)))), ["jm"]);
        }
    }

    #[test]
    fn a_deletion_is_news_although_nothing_else_has_changed() {
        let leaving = || pod(|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
        let mut changes = PodChanges::default();
        changes.take_in(&Event::Apply(leaving()));
        let news = changes.take_in(&Event::Delete(leaving()));
        assert_eq!((names(&news), deleted(&news)), (vec!["jm"], vec![("jm", "u")]));
        assert!(changes.known.is_empty());
    }

    /// *Scenario*: its grace period was over before anybody looked.
    #[test]
    fn a_pod_that_was_never_seen_leaving_is_deleted_as_any_other() {
        let mut changes = PodChanges::default();
        changes.take_in(&Event::Apply(pod(|_| {})));
        assert_eq!(
            deleted(&changes.take_in(&Event::Delete(pod(|_| {})))),
            [("jm", "u")]
        );
        let of_nobody = || pod(|pod| pod["metadata"]["ownerReferences"] = json!([]));
        changes.take_in(&Event::Apply(of_nobody()));
        let news = changes.take_in(&Event::Delete(of_nobody()));
        assert_eq!((names(&news), deleted(&news)), (vec!["jm"], vec![]), "no member");
    }

    #[test]
    fn what_a_list_shows_is_told_when_the_store_shows_it() {
        let mut changes = PodChanges::default();
        changes.take_in(&Event::Apply(pod(|_| {})));
        let unready = || pod(|pod| pod["status"]["conditions"][0]["status"] = json!("False"));
        // Begun anew in the middle, where nothing is news any more.
        for event in [
            Event::Init,
            Event::InitApply(unready()),
            Event::Init,
            Event::InitApply(unready()),
        ] {
            assert_eq!(changes.take_in(&event), News::default());
        }
        let news = changes.take_in(&Event::InitDone);
        assert_eq!((names(&news), deleted(&news)), (vec!["jm"], vec![]));
        changes.take_in(&Event::Init);
        changes.take_in(&Event::InitApply(unready()));
        assert_eq!(changes.take_in(&Event::InitDone), News::default());
    }

    #[test]
    fn who_is_not_in_the_next_list_is_gone() {
        let mut changes = PodChanges::default();
        for event in [
            Event::Init,
            Event::InitApply(pod(|_| {})),
            Event::InitApply(other("b", "two")),
        ] {
            changes.take_in(&event);
        }
        let news = changes.take_in(&Event::InitDone);
        assert_eq!((names(&news), deleted(&news)), (vec!["jm", "two"], vec![]));

        changes.take_in(&Event::Init);
        changes.take_in(&Event::InitApply(pod(|_| {})));
        let news = changes.take_in(&Event::InitDone);
        assert_eq!(
            (names(&news), deleted(&news)),
            (vec!["two"], vec![("two", "uid of b")])
        );
        assert_eq!(changes.known.len(), 1);
    }

    #[test]
    fn a_pod_whose_name_another_has_is_gone() {
        let mut changes = PodChanges::default();
        changes.take_in(&Event::Apply(pod(|_| {})));
        let another = pod(|pod| pod["metadata"]["uid"] = json!("v"));
        let news = changes.take_in(&Event::Apply(another));
        assert_eq!((names(&news), deleted(&news)), (vec!["jm"], vec![("jm", "u")]));
    }

    #[test]
    fn a_pod_that_is_given_to_another_policy_concerns_both() {
        let mut changes = PodChanges::default();
        changes.take_in(&Event::Apply(pod(|_| {})));
        let given = pod(|pod| pod["metadata"]["labels"] = json!({POLICY: "two"}));
        let news = changes.take_in(&Event::Apply(given));
        assert_eq!((names(&news), deleted(&news)), (vec!["jm", "two"], vec![]));
    }
}
