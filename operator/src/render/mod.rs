//! From a valid policy to every object that it owns. Pure: no clock, no client; equal input, equal bytes.
//!
//! Nothing of the operator's version is in an object, so an upgrade of the operator with equal configuration
//! changes none of them.

mod collector;
mod config_maps;
mod deployment;
mod disruption_budget;
mod metadata;
mod probes;
mod rbac;
mod service;
mod volumes;

#[cfg(test)]
mod tests;

use jevmetrics_api::policy::ValidPolicy;
use jevmetrics_api::routing::RoutingTable;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde::Serialize;
use serde_json::Value;

use crate::kinds::Kind;

pub use self::collector::{COLLECTOR_FILE, collector_routing_name, exporter_name, members_name};
pub use self::config_maps::{LIVE_KEY, ROUTING_KEY, settings_name, table_alone};
pub use self::metadata::{MANAGED_BY, MANAGED_BY_OPERATOR, POLICY, REVISION, pod_selector, workload_name};
pub use self::service::service_name;
pub use self::volumes::SETTINGS_VOLUME;

/// What the operator's own configuration decides about data planes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defaults {
    /// Image of policies that name none.
    pub image: String,
}

/// Every object of a policy.
#[derive(Debug, Clone)]
pub struct Objects {
    service_account: ServiceAccount,
    role: Role,
    role_binding: RoleBinding,
    settings: ConfigMap,
    live: ConfigMap,
    service: Service,
    /// Only with the affinity `Upstream`.
    upstream: Option<collector::Upstream>,
    disruption_budget: PodDisruptionBudget,
    deployment: Deployment,
}

/// An object, ready to be applied.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// All of it.
    pub value: Value,
}

/// Renders every object of `policy`. `generation` is that of its shared budget; 0 if it has none.
pub fn render(policy: &ValidPolicy, defaults: &Defaults, generation: u32) -> Objects {
    Objects {
        service_account: rbac::service_account(policy),
        role: rbac::role(policy),
        role_binding: rbac::role_binding(policy),
        settings: config_maps::settings(policy),
        live: config_maps::live(policy, generation),
        service: service::service(policy),
        upstream: collector::upstream(policy),
        disruption_budget: disruption_budget::disruption_budget(policy),
        deployment: deployment::deployment(policy, defaults),
    }
}

impl Objects {
    /// With `table` in the live object. Without one there is none before the first.
    #[must_use]
    pub fn with_routing(mut self, table: Option<&RoutingTable>) -> Self {
        if let Some(table) = table {
            let data = self.live.data.get_or_insert_default();
            data.insert(ROUTING_KEY.to_owned(), table.to_yaml());
        }
        self
    }

    /// In the order in which they are applied: whatever a pod needs comes before the pods.
    ///
    /// # Errors
    /// None in practice: these types are made to be written as JSON.
    pub fn manifests(self) -> Result<Vec<Manifest>, serde_json::Error> {
        // Taken apart by name, so that a new kind cannot be forgotten here.
        let Self {
            service_account,
            role,
            role_binding,
            settings,
            live,
            service,
            upstream,
            disruption_budget,
            deployment,
        } = self;
        let mut manifests = vec![
            // Pods of a Deployment without its ServiceAccount are refused.
            manifest(Kind::ServiceAccount, &service_account)?,
            manifest(Kind::Role, &role)?,
            manifest(Kind::RoleBinding, &role_binding)?,
            // Pods of a new template wait for their settings.
            manifest(Kind::ConfigMap, &settings)?,
            // Acts on running pods at once; a rollout of the same change only follows it.
            manifest(Kind::ConfigMap, &live)?,
            manifest(Kind::Service, &service)?,
        ];
        if let Some(collector::Upstream { members, routing }) = upstream {
            // What a Collector looks up is there before it is told to.
            manifests.push(manifest(Kind::Service, &members)?);
            manifests.push(manifest(Kind::ConfigMap, &routing)?);
        }
        // Before the pods that it protects.
        manifests.push(manifest(Kind::PodDisruptionBudget, &disruption_budget)?);
        manifests.push(manifest(Kind::Deployment, &deployment)?);
        Ok(manifests)
    }
}

fn manifest(
    kind: Kind,
    object: &(impl Serialize + kube::ResourceExt),
) -> Result<Manifest, serde_json::Error> {
    Ok(Manifest {
        kind,
        name: object.name_any(),
        value: serde_json::to_value(object)?,
    })
}
