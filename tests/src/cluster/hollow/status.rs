//! The status of a hollow pod, as kubelet writes it.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

/// Where a pod is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// No container runs.
    Waiting { reason: String, message: String },
    /// All containers run.
    Running { ready: bool, since: Timestamp },
    /// All containers have ended, for good.
    Failed { since: Timestamp },
}

/// A pod's status as a strategic merge patch: conditions of others stay.
pub(super) fn status(pod: &Pod, address: Ipv4Addr, restarts: u32, state: &State, now: Timestamp) -> Value {
    let phase = match state {
        // A container that crashes again and again has run before.
        State::Waiting { reason, .. } if reason != "CrashLoopBackOff" => "Pending",
        State::Waiting { .. } | State::Running { .. } => "Running",
        State::Failed { .. } => "Failed",
    };
    let initialized = !matches!(state, State::Waiting { reason, .. } if reason == "ContainerCreating");
    let ready = matches!(state, State::Running { ready: true, .. });
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let statuses: Vec<Value> = containers
        .map(|container| {
            json!({
                "name": container.name,
                "image": container.image,
                "imageID": "",
                "containerID": format!("hollow://{}/{restarts}", container.name),
                "ready": ready,
                "started": matches!(state, State::Running { .. }),
                "restartCount": restarts,
                "state": container_state(state),
            })
        })
        .collect();
    let mut status = json!({
        "phase": phase,
        "conditions": [
            condition("PodReadyToStartContainers", initialized, now),
            condition("Initialized", initialized, now),
            condition("ContainersReady", ready, now),
            condition("Ready", ready, now),
        ],
        "containerStatuses": statuses,
        "hostIP": Ipv4Addr::LOCALHOST,
        "hostIPs": [{"ip": Ipv4Addr::LOCALHOST}],
    });
    // A pod has an address as soon as its sandbox is there, which needs its volumes.
    if initialized {
        status["podIP"] = json!(address);
        status["podIPs"] = json!([{"ip": address}]);
    }
    if pod
        .status
        .as_ref()
        .is_none_or(|status| status.start_time.is_none())
    {
        status["startTime"] = json!(Time(now));
    }
    json!({"status": status})
}

fn container_state(state: &State) -> Value {
    match state {
        State::Waiting { reason, message } => json!({"waiting": {"reason": reason, "message": message}}),
        State::Running { since, .. } => json!({"running": {"startedAt": Time(*since)}}),
        State::Failed { since } => json!({"terminated": {
            "exitCode": 137, "reason": "Error", "startedAt": Time(*since), "finishedAt": Time(*since),
        }}),
    }
}

fn condition(kind: &str, holds: bool, now: Timestamp) -> Value {
    let mut condition = json!({
        "type": kind,
        "status": if holds { "True" } else { "False" },
        "lastTransitionTime": Time(now),
        "reason": null,
        "message": null,
    });
    if !holds && kind.ends_with("Ready") {
        condition["reason"] = json!("ContainersNotReady");
        condition["message"] = json!("containers with unready status");
    }
    condition
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn of(state: &State) -> Value {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {}, "spec": {"containers": [{"name": "c"}]}})).unwrap();
        status(&pod, Ipv4Addr::new(127, 1, 1, 1), 0, state, Timestamp::UNIX_EPOCH)["status"].take()
    }

    #[test]
    fn a_pod_without_its_volumes_has_no_address() {
        let creating = of(&State::Waiting {
            reason: "ContainerCreating".into(),
            message: String::new(),
        });
        assert_eq!(creating["phase"], "Pending");
        assert_eq!(creating["podIP"], Value::Null);
        let since = Timestamp::UNIX_EPOCH;
        let running = of(&State::Running { ready: false, since });
        assert_eq!(running["phase"], "Running");
        assert_eq!(running["podIP"], "127.1.1.1");
        assert_eq!(running["conditions"][3]["status"], "False");
        assert_eq!(
            of(&State::Running { ready: true, since })["conditions"][3]["status"],
            "True"
        );
    }

    #[test]
    fn the_phase_follows_the_reason() {
        let phase = |reason: &str| {
            of(&State::Waiting {
                reason: reason.into(),
                message: String::new(),
            })["phase"]
                .take()
        };
        assert_eq!(phase("ImagePullBackOff"), "Pending");
        assert_eq!(phase("CrashLoopBackOff"), "Running");
        assert_eq!(
            of(&State::Failed {
                since: Timestamp::UNIX_EPOCH
            })["phase"],
            "Failed"
        );
    }
}
