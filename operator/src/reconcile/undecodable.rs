//! A policy that cannot be read, such as one that an older definition let in: said in its status, and nothing else.

use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::controller::Action;
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use jevmetrics_api::policy::{JevMetricsPolicy, JevMetricsPolicySpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::apply::FIELD_MANAGER;
use super::{LOOK_AGAIN, ReconcileError};
use crate::conditions::{self, CONFIGURATION_VALID, Verdict};
use crate::context::Context;
use crate::events::Happening;

/// What is wrong, with the path of its field.
fn problem(object: &DynamicObject) -> Option<String> {
    let read = serde_path_to_error::deserialize::<_, JevMetricsPolicySpec>(&object.data["spec"]);
    let error = read.err()?;
    Some(format!("spec.{}: {}", error.path(), error.inner()))
}

/// Says in its status why a policy cannot be read; what runs for it goes on.
pub(super) async fn report(invalid: &InvalidObject, context: &Context) -> Result<Action, ReconcileError> {
    if invalid.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let name = invalid.metadata.name.clone().unwrap_or_default();
    let namespace = invalid.metadata.namespace.clone().unwrap_or_default();
    let resource = kube::core::ApiResource::erase::<JevMetricsPolicy>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), &namespace, &resource);
    let Some(object) = api.get_opt(&name).await.map_err(ReconcileError::Status)? else {
        return Ok(Action::await_change());
    };
    let verdict = Verdict::no(
        "Undecodable",
        problem(&object).unwrap_or_else(|| invalid.error.clone()),
    );
    let generation = object.metadata.generation;
    let mut status = object.data["status"].clone();
    let before: Vec<Condition> = serde_json::from_value(status["conditions"].clone()).unwrap_or_default();
    let now = Time(Timestamp::now());
    let (after, turned) = conditions::with(&before, CONFIGURATION_VALID, &verdict, generation, &now);
    if after == before {
        return Ok(Action::requeue(LOOK_AGAIN));
    }
    if !status.is_object() {
        status = json!({});
    }
    status["observedGeneration"] = json!(generation);
    status["conditions"] = serde_json::to_value(&after).unwrap_or(Value::Null);
    let patch = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "uid": object.uid()},
        "status": status,
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    api.patch_status(&name, &params, &Patch::Apply(&patch))
        .await
        .map_err(ReconcileError::Status)?;
    if turned {
        context
            .events
            .publish_to(
                &object.object_ref(&resource),
                &Happening::turned(CONFIGURATION_VALID, &verdict),
            )
            .await;
    }
    Ok(Action::requeue(LOOK_AGAIN))
}
