//! The way from `replicas` set to unset.
//!
//! A field that nobody owns any more goes back to its default: 1. So before the operator lets go of it, another
//! field manager takes it over at its present value; that one never writes again, so whoever scales next wins.

use kube::Api;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use serde_json::json;

use super::apply::FIELD_MANAGER;

/// Holds the field for whoever scales next.
const HOLDER: &str = "jevmetrics-operator-replicas";

/// Hands `spec.replicas` of a Deployment over, if the operator owns it.
pub(super) async fn hand_over(
    api: &Api<DynamicObject>,
    deployment: &DynamicObject,
) -> Result<(), kube::Error> {
    if !is_owned_here(deployment) {
        return Ok(());
    }
    let replicas = &deployment.data["spec"]["replicas"];
    // With the version that was read: who scales at the same moment wins, and this is tried again.
    let held = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": deployment.name_any(), "uid": deployment.uid(), "resourceVersion": deployment.resource_version()},
        "spec": {"replicas": replicas},
    });
    let params = PatchParams::apply(HOLDER).force();
    api.patch(&deployment.name_any(), &params, &Patch::Apply(&held))
        .await?;
    Ok(())
}

fn is_owned_here(deployment: &DynamicObject) -> bool {
    deployment.managed_fields().iter().any(|entry| {
        let fields = entry
            .fields_v1
            .as_ref()
            .map(|fields| &fields.0["f:spec"]["f:replicas"]);
        entry.manager.as_deref() == Some(FIELD_MANAGER) && fields.is_some_and(|field| !field.is_null())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn managed_by(manager: &str, fields: &serde_json::Value) -> DynamicObject {
        serde_json::from_value(json!({
            "metadata": {"name": "jm", "managedFields": [{"manager": manager, "fieldsV1": {"f:spec": fields}}]},
        }))
        .unwrap()
    }

    #[test]
    fn only_a_field_that_the_operator_owns_is_handed_over() {
        let replicas = json!({"f:replicas": {}});
        assert!(is_owned_here(&managed_by(FIELD_MANAGER, &replicas)));
        assert!(!is_owned_here(&managed_by(HOLDER, &replicas)));
        assert!(!is_owned_here(&managed_by(
            FIELD_MANAGER,
            &json!({"f:selector": {}})
        )));
    }
}
