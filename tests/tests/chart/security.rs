//! The security standard "restricted", field by field, and what goes beyond it.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::rendered::{everything, rendered};

#[test]
fn pods_keep_to_the_restricted_standard() {
    for values in [json!({}), everything("Cluster"), everything("Namespaced")] {
        let rendered = rendered(&values);
        let (pod, container) = (rendered.pod(), rendered.container());
        // Nothing of the host.
        for field in [
            "hostNetwork",
            "hostPID",
            "hostIPC",
            "volumes",
            "initContainers",
            "ephemeralContainers",
        ] {
            assert!(pod[field].is_null(), "{field}");
        }
        assert!(
            container["ports"]
                .as_array()
                .unwrap()
                .iter()
                .all(|port| port["hostPort"].is_null())
        );
        assert_eq!(
            pod["securityContext"],
            json!({
                "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            })
        );
        assert_eq!(
            container["securityContext"],
            json!({
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            })
        );
    }
}

#[test]
fn only_the_operators_pods_get_a_token() {
    let rendered = rendered(&json!({}));
    assert_eq!(
        rendered.only("ServiceAccount")["automountServiceAccountToken"],
        false
    );
    assert_eq!(rendered.pod()["automountServiceAccountToken"], true);
}

/// *Guarantees*: every field is one that Kubernetes knows: what its types do not read would be lost on the way.
#[test]
fn every_field_is_known_to_kubernetes() {
    fn known<T: DeserializeOwned + Serialize>(object: &Value) {
        let read: T = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), *object);
    }
    for scope in ["Cluster", "Namespaced"] {
        for object in &rendered(&everything(scope)).0 {
            match object["kind"].as_str().unwrap() {
                "ClusterRole" => known::<ClusterRole>(object),
                "ClusterRoleBinding" => known::<ClusterRoleBinding>(object),
                "Deployment" => known::<Deployment>(object),
                "PodDisruptionBudget" => known::<PodDisruptionBudget>(object),
                "Role" => known::<Role>(object),
                "RoleBinding" => known::<RoleBinding>(object),
                "Service" => known::<Service>(object),
                "ServiceAccount" => known::<ServiceAccount>(object),
                // Of the Prometheus operator.
                "ServiceMonitor" => assert_eq!(object["apiVersion"], "monitoring.coreos.com/v1"),
                other => panic!("{other}"),
            }
        }
    }
}
