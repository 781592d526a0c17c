//! What the operator has seen. Nothing in it follows traffic.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::routing::RoutingAffinity;

/// What the operator has seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JevMetricsPolicyStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// What holds. `docs/operator.md` lists types, reasons and what to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// Pods of the Deployment; read by autoscalers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,

    /// Label selector of the pods; read by autoscalers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub selector: Option<String>,

    /// Ready pods and wanted ones, such as `3/3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub ready: Option<String>,

    /// How far the revision is rolled out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<RevisionStatus>,

    /// What the pods say of Jev.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inference: Option<InferenceStatus>,

    /// Under which name pods share, and which change of their budget they have been given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordination: Option<CoordinationStatus>,

    /// Who owns resources, and how far the pods know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<RoutingStatus>,

    /// The pods, and what they own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2_000), extend("x-kubernetes-list-type" = "atomic"))]
    pub members: Vec<MemberStatus>,
}

/// Who owns resources, and how far the pods know it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoutingStatus {
    /// The affinity in force.
    pub affinity: RoutingAffinity,

    /// The table in the live object; a later one has a higher epoch.
    #[schemars(range(min = 1))]
    pub epoch: i64,

    /// Pods that own a slot.
    #[schemars(range(min = 0))]
    pub members: i32,

    /// Ready pods that are on this epoch, and all ready ones, such as `198/200`.
    #[schemars(length(max = 32))]
    pub converged: String,

    /// When the table changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_change_time: Option<Time>,

    /// What changed then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub last_change: Option<String>,
}

/// A pod, and what it owns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// The pod's name.
    #[schemars(length(max = 253))]
    pub pod: String,

    /// The slot that it owns.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub slot: Option<i32>,

    /// The node's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node: Option<String>,

    /// The node's zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub zone: Option<String>,

    /// Of the program, as it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub version: Option<String>,

    /// The revision that the pod was made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub revision: Option<String>,

    /// Where it is in its membership.
    pub state: MembershipState,

    /// Since when.
    pub since: Time,

    /// When it has last answered.
    pub heartbeat: HeartbeatAge,

    /// Whether it knows the present table; absent if it has not said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<EpochReached>,

    /// Its share of the slots, such as `1/5`; absent if it has none or nobody routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub share: Option<String>,
}

/// Where a pod is in its membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum MembershipState {
    /// Owns a slot.
    Active,
    /// Not ready or gone; its slot is kept.
    Held,
    /// About to stop.
    Draining,
    /// Ready, but not for long enough.
    Settling,
    /// Ready; all slots are taken.
    Spare,
    /// Not ready, without a slot.
    NotReady,
}

/// When a pod has last answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum HeartbeatAge {
    /// Within 15 s.
    Fresh,
    /// Within 30 s.
    Late,
    /// Not within 30 s, or never.
    Missing,
}

/// Whether a pod knows the present table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum EpochReached {
    /// It does.
    Current,
    /// It is on an earlier one, or on none.
    Behind,
}

/// How far the revision is rolled out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevisionStatus {
    /// The revision that serves: during a rollout the oldest one of a ready pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub current: Option<String>,

    /// The revision that is rolled out.
    #[schemars(length(max = 63))]
    pub target: String,

    /// Pods that have been made from the present template.
    #[schemars(range(min = 0))]
    pub updated: i32,

    /// Those of them that are ready.
    #[schemars(range(min = 0))]
    pub ready: i32,

    /// Names all that changes an answer, as pods of the target say it; `mixed` if they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub assessment_version: Option<String>,
}

/// What the pods say of Jev.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InferenceStatus {
    /// The URL that is asked.
    #[schemars(length(max = 2_048))]
    pub endpoint: String,

    /// The model that answered, `mixed` if pods differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub model: Option<String>,
}

/// Under which name pods share, and which change of their budget they have been given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoordinationStatus {
    /// Pods with the same name, and the same Redis, share.
    #[schemars(length(max = 400))]
    pub namespace: String,

    /// Counts changes of the budget; absent with `spec.coordination.namespace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_295_i64))]
    pub generation: Option<i64>,
}
