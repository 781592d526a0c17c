//! A policy that cannot be read, such as one that an older definition let in: said in its status. Its members come and go
//! all the same; nothing else is done.

use std::time::Duration;

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
use super::membership::{Decided, Subject, UNTIL_PUBLISHED};
use super::{Failed, LOOK_AGAIN, ReconcileError, keep};
use crate::assess;
use crate::conditions::{self, CONFIGURATION_VALID};
use crate::context::Context;
use crate::events::Happening;

/// What is wrong, with the path of its field.
fn problem(object: &DynamicObject) -> Option<String> {
    let read = serde_path_to_error::deserialize::<_, JevMetricsPolicySpec>(&object.data["spec"]);
    let error = read.err()?;
    Some(format!("spec.{}: {}", error.path(), error.inner()))
}

/// Says in its status why a policy cannot be read; what runs for it goes on, with the members that it has.
pub(super) async fn report(invalid: &InvalidObject, context: &Context) -> Result<Action, Failed> {
    if invalid.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let name = invalid.metadata.name.clone().unwrap_or_default();
    let namespace = invalid.metadata.namespace.clone().unwrap_or_default();
    let resource = kube::core::ApiResource::erase::<JevMetricsPolicy>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), &namespace, &resource);
    let found = api.get_opt(&name).await.map_err(|error| Failed {
        cause: ReconcileError::Status(error),
        look_again: Some(UNTIL_PUBLISHED),
    });
    let Some(object) = found? else {
        return Ok(Action::await_change());
    };
    let mut look_again = None;
    let kept = keep_members(&namespace, &object, context, &mut look_again).await;
    let said = say(invalid, &api, &object, &kept, context).await;
    match kept.and(said) {
        Ok(()) => Ok(Action::requeue(
            look_again.map_or(LOOK_AGAIN, |wait| wait.min(LOOK_AGAIN)),
        )),
        Err(cause) => Err(Failed { cause, look_again }),
    }
}

async fn keep_members(
    namespace: &str,
    object: &DynamicObject,
    context: &Context,
    look_again: &mut Option<Duration>,
) -> Result<Option<Decided>, ReconcileError> {
    let uid = object.uid().unwrap_or_default();
    let subject = Subject {
        namespace,
        name: &object.name_any(),
        uid: &uid,
        in_status: object.data["status"]["routing"]["epoch"].as_u64(),
    };
    let memory = context.memories.of(&uid);
    let mut memory = memory.lock().await;
    keep::keep(&subject, context, &mut memory, look_again).await
}

async fn say(
    invalid: &InvalidObject,
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    kept: &Result<Option<Decided>, ReconcileError>,
    context: &Context,
) -> Result<(), ReconcileError> {
    let resource = kube::core::ApiResource::erase::<JevMetricsPolicy>(&());
    let name = object.name_any();
    let problem = problem(object).unwrap_or_else(|| invalid.error.clone());
    let generation = object.metadata.generation;
    let mut status = object.data["status"].clone();
    let before: Vec<Condition> = serde_json::from_value(status["conditions"].clone()).unwrap_or_default();
    let now = Time(Timestamp::now());
    let mut after = before.clone();
    let mut turns = Vec::new();
    let is_kept = matches!(kept, Ok(Some(_)));
    for (type_, verdict) in assess::undecodable(&before, problem, is_kept, kept.as_ref().err()) {
        let (with, turned) = conditions::with(&after, type_, &verdict, generation, &now);
        after = with;
        // The other one only follows from it.
        if turned && type_ == CONFIGURATION_VALID {
            turns.push(Happening::turned(type_, &verdict));
        }
    }
    if after == before {
        return Ok(());
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
    for turn in &turns {
        context
            .events
            .publish_to(&object.object_ref(&resource), turn)
            .await;
    }
    Ok(())
}
