//! Names, labels and owner of every object.

use std::collections::BTreeMap;

use jevmetrics_api::policy::{JevMetricsPolicy, ValidPolicy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::Resource as _;

/// Label with the name of the policy: what selects its pods. Never changes, for selectors cannot.
pub const POLICY: &str = "jevmetrics.io/policy";
/// Label of pods with the revision that they run.
pub const REVISION: &str = "jevmetrics.io/revision";
/// Label by which the operator finds its objects again.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`].
pub const MANAGED_BY_OPERATOR: &str = "jevmetrics-operator";
/// Name of the Deployment and of what its pods need to run.
pub fn workload_name(policy: &str) -> String {
    format!("{policy}-dataplane")
}

/// Selects the pods of a policy, as text.
pub fn pod_selector(policy: &str) -> String {
    format!("{POLICY}={policy}")
}

pub(super) fn selector(policy: &ValidPolicy) -> LabelSelector {
    LabelSelector {
        match_labels: Some([(POLICY.to_owned(), policy.name().to_owned())].into()),
        ..LabelSelector::default()
    }
}

pub(super) fn labels(policy: &ValidPolicy) -> BTreeMap<String, String> {
    labels_of(policy.name())
}

fn labels_of(policy: &str) -> BTreeMap<String, String> {
    [
        ("app.kubernetes.io/component", "dataplane"),
        ("app.kubernetes.io/instance", policy),
        (MANAGED_BY, MANAGED_BY_OPERATOR),
        ("app.kubernetes.io/name", "jevmetrics"),
        (POLICY, policy),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

pub(super) fn metadata(policy: &ValidPolicy, name: String) -> ObjectMeta {
    metadata_of(policy.namespace(), policy.name(), policy.uid(), name)
}

/// As [`metadata`], for a policy of which no more than this is known.
pub(super) fn metadata_of(namespace: &str, policy: &str, uid: &str, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
        labels: Some(labels_of(policy)),
        owner_references: owner(policy, uid).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

/// None if the policy is in no cluster: then nothing can be owned.
fn owner(policy: &str, uid: &str) -> Option<OwnerReference> {
    (!uid.is_empty()).then(|| OwnerReference {
        api_version: JevMetricsPolicy::api_version(&()).into_owned(),
        kind: JevMetricsPolicy::kind(&()).into_owned(),
        name: policy.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        // Only who may change finalizers of the policy may set this; the policy waits for nothing.
        block_owner_deletion: None,
    })
}
