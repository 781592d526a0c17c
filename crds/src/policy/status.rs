//! What the operator has seen. Nothing in it follows traffic.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
