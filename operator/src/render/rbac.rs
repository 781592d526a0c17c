//! What pods may do: read their live object and watch it, nothing else.

use jevmetrics_api::policy::ValidPolicy;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};

use super::metadata::{metadata, workload_name};

pub(super) fn service_account(policy: &ValidPolicy) -> ServiceAccount {
    ServiceAccount {
        metadata: metadata(policy, workload_name(policy.name())),
        ..ServiceAccount::default()
    }
}

pub(super) fn role(policy: &ValidPolicy) -> Role {
    Role {
        metadata: metadata(policy, workload_name(policy.name())),
        rules: Some(vec![PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["configmaps".to_owned()]),
            resource_names: Some(vec![policy.live_name()]),
            verbs: vec!["get".to_owned(), "watch".to_owned()],
            ..PolicyRule::default()
        }]),
    }
}

pub(super) fn role_binding(policy: &ValidPolicy) -> RoleBinding {
    let name = workload_name(policy.name());
    RoleBinding {
        metadata: metadata(policy, name.clone()),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "Role".to_owned(),
            name: name.clone(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name,
            namespace: Some(policy.namespace().to_owned()),
            ..Subject::default()
        }]),
    }
}
