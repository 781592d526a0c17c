//! Namespaces, so that tests that share a control plane do not meet.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, PostParams};

use super::ControlPlane;
use super::error::{ClusterError, api_error};
use crate::poll;

/// Longer than it takes on a busy machine.
const WITHIN: Duration = Duration::from_mins(1);

impl ControlPlane {
    /// Makes a namespace with a name of its own that begins with `prefix`, and waits until pods can be created in it.
    ///
    /// # Errors
    /// The API server refused, or the controllers made no service account.
    pub async fn namespace(&self, prefix: &str) -> Result<String, ClusterError> {
        let client = self.admin().await?;
        let namespace = Namespace {
            metadata: ObjectMeta {
                generate_name: Some(format!("{prefix}-")),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let made = namespaces.create(&PostParams::default(), &namespace).await;
        let what = || format!("make namespace {prefix}");
        let name = made.map_err(api_error(what()))?.metadata.name.unwrap_or_default();
        let accounts: Api<ServiceAccount> = Api::namespaced(client, &name);
        let what = format!("service account `default` of namespace {name}");
        poll::eventually(&what, WITHIN, async || accounts.get("default").await.map(drop)).await?;
        Ok(name)
    }

    /// Deletes a namespace with all that is in it and waits until it is gone.
    ///
    /// # Errors
    /// The API server refused, or something in it stays.
    pub async fn delete_namespace(&self, name: &str) -> Result<(), ClusterError> {
        let namespaces: Api<Namespace> = Api::all(self.admin().await?);
        let deleted = namespaces.delete(name, &DeleteParams::default()).await;
        deleted.map_err(api_error(format!("delete namespace {name}")))?;
        let gone = async || match namespaces.get_opt(name).await {
            Ok(None) => Ok(()),
            Ok(Some(namespace)) => Err(format!("{:?}", namespace.status)),
            Err(error) => Err(error.to_string()),
        };
        Ok(poll::eventually(&format!("the end of namespace {name}"), WITHIN, gone).await?)
    }
}
