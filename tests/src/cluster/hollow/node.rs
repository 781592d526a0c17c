//! Nodes that are only objects: ready, without taints, with room for everything.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cluster::error::{ClusterError, api_error};

/// Zones over which nodes are spread, for topology constraints.
const ZONES: usize = 3;

/// `hollow-0` and so on.
pub(super) fn name(index: usize) -> String {
    format!("hollow-{index}")
}

/// Makes a node that the scheduler uses.
pub(super) async fn create(client: &Client, index: usize, address: &str) -> Result<(), ClusterError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let name = name(index);
    let failed = || api_error(format!("make node {name}"));
    let node = serde_json::from_value(node(&name, index))
        .map_err(|error| failed()(kube::Error::SerdeError(error)))?;
    nodes
        .create(&PostParams::default(), &node)
        .await
        .map_err(failed())?;
    let params = PatchParams::default();
    let status = Patch::Merge(json!({"status": status(&name, address)}));
    nodes
        .patch_status(&name, &params, &status)
        .await
        .map_err(failed())?;
    // Admission taints a new node; the controller that takes the taint away again is off.
    let untaint = Patch::Merge(json!({"spec": {"taints": null}}));
    nodes.patch(&name, &params, &untaint).await.map_err(failed())?;
    Ok(())
}

fn node(name: &str, index: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/region": "hollow",
                "topology.kubernetes.io/zone": format!("zone-{}", index % ZONES),
            },
        },
    })
}

fn status(name: &str, address: &str) -> Value {
    let room = json!({"cpu": "1000", "memory": "4Ti", "ephemeral-storage": "4Ti", "pods": "1000"});
    let now = Time(jiff::Timestamp::now());
    json!({
        "capacity": room,
        "allocatable": room,
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": name},
        ],
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "Hollow", "message": "has no containers",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }],
    })
}
