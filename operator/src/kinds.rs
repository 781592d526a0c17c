//! The kinds of objects that the operator owns.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};

/// A kind of object that the operator owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Who the pods are.
    ServiceAccount,
    /// What they may do.
    Role,
    /// That they may do it.
    RoleBinding,
    /// What they read.
    ConfigMap,
    /// Where senders send.
    Service,
    /// How many may be taken away.
    PodDisruptionBudget,
    /// The pods.
    Deployment,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::ServiceAccount,
        Self::Role,
        Self::RoleBinding,
        Self::ConfigMap,
        Self::Service,
        Self::PodDisruptionBudget,
        Self::Deployment,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ServiceAccount => "ServiceAccount",
            Self::Role => "Role",
            Self::RoleBinding => "RoleBinding",
            Self::ConfigMap => "ConfigMap",
            Self::Service => "Service",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::Deployment => "Deployment",
        }
    }

    /// How the API server knows it.
    pub fn resource(self) -> ApiResource {
        match self {
            Self::ServiceAccount => ApiResource::erase::<ServiceAccount>(&()),
            Self::Role => ApiResource::erase::<Role>(&()),
            Self::RoleBinding => ApiResource::erase::<RoleBinding>(&()),
            Self::ConfigMap => ApiResource::erase::<ConfigMap>(&()),
            Self::Service => ApiResource::erase::<Service>(&()),
            Self::PodDisruptionBudget => ApiResource::erase::<PodDisruptionBudget>(&()),
            Self::Deployment => ApiResource::erase::<Deployment>(&()),
        }
    }

    /// The objects of this kind in `namespace`.
    pub fn api(self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), namespace, &self.resource())
    }
}
