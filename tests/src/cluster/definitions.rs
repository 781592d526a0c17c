//! Custom resources, known to the API server and to the garbage collector.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};

use super::ControlPlane;
use super::components::Component;
use super::error::{ClusterError, api_error};
use crate::poll;

/// Longer than it takes on a busy machine.
const WITHIN: Duration = Duration::from_mins(1);

impl ControlPlane {
    /// Installs definitions of custom resources and waits until the API server serves them.
    ///
    /// The controllers are started anew if one of them was not there: the garbage collector looks for new kinds at its
    /// start and then twice a minute, and until then does not delete what an object of that kind owns.
    ///
    /// # Errors
    /// The API server refused one, or does not serve it.
    pub async fn install(&self, definitions: &[CustomResourceDefinition]) -> Result<(), ClusterError> {
        // Tests that share a control plane ask for the same at the same time.
        let _alone = self.installing.lock().await;
        let client = self.admin().await?;
        let mut is_new = false;
        for definition in definitions {
            is_new |= install(&client, definition).await?;
        }
        if is_new {
            self.kill(Component::ControllerManager)?;
            self.start_again(Component::ControllerManager).await?;
        }
        Ok(())
    }
}

/// Applies one; tells whether it was not there before.
async fn install(client: &Client, definition: &CustomResourceDefinition) -> Result<bool, ClusterError> {
    let all: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition.metadata.name.clone().unwrap_or_default();
    let failed = || api_error(format!("install {name}"));
    let is_new = all.get_opt(&name).await.map_err(failed())?.is_none();
    let params = PatchParams::apply("testkit").force();
    all.patch(&name, &params, &Patch::Apply(definition))
        .await
        .map_err(failed())?;
    let established = async || {
        let status = all.get(&name).await.map_err(|error| error.to_string())?.status;
        let conditions = status.and_then(|status| status.conditions).unwrap_or_default();
        let holds = conditions
            .iter()
            .any(|condition| condition.type_ == "Established" && condition.status == "True");
        if holds {
            Ok(())
        } else {
            Err(format!("{conditions:?}"))
        }
    };
    poll::eventually(&format!("the service of {name}"), WITHIN, established).await?;
    Ok(is_new)
}
