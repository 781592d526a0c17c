//! What a Pod says, as far as membership looks at it.

use std::net::{IpAddr, SocketAddr};

use jevmetrics_api::peer;
use jevmetrics_api::routing::Owner;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use crate::render::REVISION;

/// Kubernetes copies it from the node to its pods, where it is set to do so.
const ZONE: &str = "topology.kubernetes.io/zone";

/// What a Pod says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Observation {
    /// Its uid.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// Where it takes what others forward, once it has an address.
    pub address: Option<SocketAddr>,
    /// Its node.
    pub node: Option<String>,
    /// Its node's zone.
    pub zone: Option<String>,
    /// The revision that it was made for.
    pub revision: Option<String>,
    /// Whether it is ready.
    pub is_ready: bool,
    /// Whether it is about to stop, or has: it will not be ready again.
    pub is_leaving: bool,
    /// Whether it has stopped for good, and is still there for people to look at.
    pub has_ended: bool,
}

impl Observation {
    /// Reads a Pod; none is made of one that is in no cluster.
    pub fn of(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref();
        let address = status
            .and_then(|status| status.pod_ip.as_deref()?.parse::<IpAddr>().ok())
            .map(|address| SocketAddr::new(address, peer::PORT));
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let is_ready = conditions.into_iter().flatten().any(|condition| {
            let (type_, value) = (condition.type_.as_str(), condition.status.as_str());
            (type_, value) == ("Ready", "True")
        });
        // An evicted pod has failed, and is never deleted by whoever evicted it.
        let has_ended = matches!(
            status.and_then(|status| status.phase.as_deref()),
            Some("Failed" | "Succeeded")
        );
        Some(Self {
            uid: pod.uid()?,
            name: pod.name_any(),
            address,
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            zone: pod.labels().get(ZONE).filter(|zone| !zone.is_empty()).cloned(),
            revision: pod.labels().get(REVISION).cloned(),
            is_ready,
            is_leaving: has_ended || pod.metadata.deletion_timestamp.is_some(),
            has_ended,
        })
    }

    /// Where it can be reached, if it can own a slot.
    pub(super) fn living(&self) -> Option<SocketAddr> {
        self.address.filter(|_| self.is_ready && !self.is_leaving)
    }

    /// As the owner of a slot, if it can be one.
    pub(super) fn as_owner(&self, slot: u16) -> Option<Owner> {
        Some(Owner {
            slot,
            uid: self.uid.clone(),
            name: self.name.clone(),
            address: self.living()?,
            zone: self.zone.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn of(change: impl FnOnce(&mut Value)) -> Observation {
        let mut pod = json!({
            "metadata": {
                "name": "jm-1", "uid": "u",
                "labels": {ZONE: "eu-1a", REVISION: "7"},
            },
            "spec": {"nodeName": "n", "containers": []},
            "status": {"podIP": "10.0.0.1", "phase": "Running", "conditions": [
                {"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"},
            ]},
        });
        change(&mut pod);
        Observation::of(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    #[test]
    fn a_ready_pod_can_own_a_slot() {
        let pod = of(|_| {});
        assert_eq!(
            pod,
            Observation {
                uid: "u".to_owned(),
                name: "jm-1".to_owned(),
                address: Some("10.0.0.1:4319".parse().unwrap()),
                node: Some("n".to_owned()),
                zone: Some("eu-1a".to_owned()),
                revision: Some("7".to_owned()),
                is_ready: true,
                is_leaving: false,
                has_ended: false,
            }
        );
        let owner = pod.as_owner(3).unwrap();
        assert_eq!((owner.slot, owner.address), (3, "10.0.0.1:4319".parse().unwrap()));
    }

    #[test]
    fn a_pod_that_is_not_ready_leaves_or_has_no_address_cannot() {
        let not_ready = of(|pod| pod["status"]["conditions"][1]["status"] = json!("False"));
        let leaves = of(|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
        let evicted = of(|pod| pod["status"]["phase"] = json!("Failed"));
        let nowhere = of(|pod| pod["status"]["podIP"] = Value::Null);
        assert!(leaves.is_leaving && evicted.is_leaving);
        assert!(evicted.has_ended && !leaves.has_ended);
        assert!(!not_ready.is_leaving && !nowhere.is_leaving);
        for pod in [not_ready, leaves, evicted, nowhere] {
            assert_eq!(pod.as_owner(0), None, "{pod:?}");
        }
    }

    #[test]
    fn what_is_not_there_is_not_made_up() {
        let pod = of(|pod| {
            pod["metadata"]["labels"] = json!({ZONE: ""});
            pod["spec"] = Value::Null;
            pod["status"] = Value::Null;
        });
        assert_eq!((pod.zone, pod.node, pod.revision), (None, None, None));
        assert!(!pod.is_ready);
        assert_eq!(Observation::of(&Pod::default()), None);
    }
}
