//! One namespace or all of them.

use serde_json::json;

use crate::rendered::{NAMESPACE, OPERATOR, everything, rendered};

/// Kinds that live in namespaces.
const NAMESPACED: [&str; 7] = [
    "Deployment",
    "PodDisruptionBudget",
    "Role",
    "RoleBinding",
    "Service",
    "ServiceAccount",
    "ServiceMonitor",
];

#[test]
fn for_one_namespace_nothing_cluster_scoped_is_rendered_whatever_is_switched_on() {
    let rendered = rendered(&everything("Namespaced"));
    for object in &rendered.0 {
        let kind = object["kind"].as_str().unwrap();
        assert!(NAMESPACED.contains(&kind), "{kind}");
        assert_eq!(object["metadata"]["namespace"], NAMESPACE, "{kind}");
    }
    let mut kinds: Vec<_> = rendered
        .0
        .iter()
        .map(|object| object["kind"].as_str().unwrap())
        .collect();
    kinds.sort_unstable();
    assert_eq!(kinds, NAMESPACED);
    let run = rendered.arguments();
    assert_eq!(run.namespace.as_deref(), Some(NAMESPACE));
    assert_eq!(run.lease_namespace.as_deref(), Some(NAMESPACE));
}

#[test]
fn for_the_cluster_only_rights_are_cluster_scoped() {
    let rendered = rendered(&everything("Cluster"));
    let (mut cluster_scoped, mut kinds) = (Vec::new(), Vec::new());
    for (object, name) in rendered.0.iter().zip(rendered.names()) {
        if object["metadata"]["namespace"].is_null() {
            cluster_scoped.push(name);
        } else {
            assert_eq!(object["metadata"]["namespace"], NAMESPACE, "{name}");
            kinds.push(object["kind"].as_str().unwrap());
        }
    }
    cluster_scoped.sort();
    assert_eq!(
        cluster_scoped,
        [
            format!("ClusterRole {OPERATOR}"),
            "ClusterRole jm-jevmetrics-policies-edit".to_owned(),
            "ClusterRole jm-jevmetrics-policies-view".to_owned(),
            format!("ClusterRoleBinding {OPERATOR}"),
        ]
    );
    kinds.sort_unstable();
    assert_eq!(kinds, NAMESPACED);
    let run = rendered.arguments();
    assert_eq!(run.namespace, None);
    assert_eq!(run.lease_namespace.as_deref(), Some(NAMESPACE));
}

#[test]
fn roles_for_users_can_be_left_out_of_the_cluster() {
    let rendered = rendered(&json!({"rbac": {"userRoles": "None"}}));
    assert_eq!(rendered.of_kind("ClusterRole").len(), 1, "{:?}", rendered.names());
}

/// *Guarantees*: what is not asked for is not there, and nothing needs another's definition.
#[test]
fn by_default_there_is_what_an_operator_needs_and_no_more() {
    let rendered = rendered(&json!({}));
    let mut names = rendered.names();
    names.sort();
    let mut wanted = [
        "ClusterRole",
        "ClusterRoleBinding",
        "Deployment",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "ServiceAccount",
    ]
    .map(|kind| format!("{kind} {OPERATOR}"))
    .to_vec();
    wanted.extend(["edit", "view"].map(|what| format!("ClusterRole jm-jevmetrics-policies-{what}")));
    wanted.sort();
    assert_eq!(names, wanted);
}
