//! The pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, ResourceRequirements, Toleration, TopologySpreadConstraint};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// The pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodTemplate {
    /// Image of the data plane. By default the one in the operator's own configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1_024), regex(pattern = r"^[!-~]+$"))]
    pub image: Option<String>,

    /// Secrets for pulling the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub image_pull_secrets: Vec<ImagePullSecret>,

    /// Compute resources. By default requests of 100m CPU and 128Mi memory, and a limit of 512Mi memory.
    #[serde(
        default,
        deserialize_with = "resources",
        skip_serializing_if = "Option::is_none"
    )]
    pub resources: Option<ResourceRequirements>,

    /// Labels that a node must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 64))]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// Taints of nodes that are tolerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub tolerations: Option<Vec<Toleration>>,

    /// Affinity of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,

    /// How pods are spread. Constraints without a labelSelector count the pods of this policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,

    /// Priority class of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
    )]
    pub priority_class_name: Option<String>,

    /// More labels of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(validation = Rule::new(
        "self.all(key, !key.contains('jevmetrics.io/') && !key.startsWith('app.kubernetes.io/'))"
    ).message("spec.template.labels: must have no key of jevmetrics.io/ or app.kubernetes.io/"))]
    pub labels: Option<BTreeMap<String, String>>,

    /// Annotations of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(validation = Rule::new("self.all(key, !key.contains('jevmetrics.io/'))").message(
        "spec.template.annotations: must have no key of jevmetrics.io/"
    ))]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// A quantity may be written as a number; the type takes only text.
fn resources<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ResourceRequirements>, D::Error> {
    let Some(mut resources) = Option::<serde_json::Value>::deserialize(deserializer)? else {
        return Ok(None);
    };
    for kind in ["limits", "requests"] {
        let quantities = resources.get_mut(kind).and_then(serde_json::Value::as_object_mut);
        for quantity in quantities
            .into_iter()
            .flat_map(|quantities| quantities.values_mut())
        {
            if quantity.is_number() {
                *quantity = quantity.to_string().into();
            }
        }
    }
    serde_json::from_value(resources)
        .map(Some)
        .map_err(serde::de::Error::custom)
}

/// A Secret for pulling the image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImagePullSecret {
    /// Name of the Secret.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
    )]
    pub name: String,
}
