//! Writes what was seen into the status, if it differs from what is there.

use jevmetrics_api::policy::{JevMetricsPolicy, ValidPolicy};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, Patch, PatchParams};
use kube::{Resource as _, ResourceExt as _};
use serde_json::json;

use super::apply::{FIELD_MANAGER, is_about_uid};
use super::{Outcome, ReconcileError};
use crate::assess::{self, Seen};
use crate::context::Context;
use crate::events::Happening;
use crate::kinds::Kind;
use crate::memory::{Memory, version};
use crate::render::workload_name;

/// Writes the status of `policy` and an event for every condition that has turned.
pub(super) async fn write(
    policy: &JevMetricsPolicy,
    valid: Option<&ValidPolicy>,
    outcome: &Outcome,
    context: &Context,
    memory: &mut Memory,
) -> Result<(), ReconcileError> {
    let (name, namespace) = (policy.name_any(), policy.namespace().unwrap_or_default());
    let watched = context
        .observed
        .object(Kind::Deployment, &namespace, &workload_name(&name));
    let health = context.health.of(&policy.uid().unwrap_or_default());
    let seen = Seen {
        policy,
        valid,
        outcome,
        // Right after an apply the watch still shows what was before.
        deployment: memory.newest_deployment(watched.as_deref()),
        pods: &context.observed.pods(&namespace, &name),
        health: &health,
    };
    let before = memory.status(version(policy), policy.status.as_ref()).cloned();
    let (after, turns) = assess::status(&seen, before.as_ref(), &Time(Timestamp::now()));
    if before.as_ref() == Some(&after) {
        return Ok(());
    }
    let api: Api<JevMetricsPolicy> = Api::namespaced(context.client.clone(), &namespace);
    let patch = json!({
        "apiVersion": JevMetricsPolicy::api_version(&()),
        "kind": JevMetricsPolicy::kind(&()),
        // Another policy of the same name has a status of its own.
        "metadata": {"name": name, "uid": policy.uid()},
        "status": after,
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    match api.patch_status(&name, &params, &Patch::Apply(&patch)).await {
        Ok(written) => memory.wrote_status(version(&written), after),
        // Gone, or another policy by now.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) || is_about_uid(&status) => {
            return Ok(());
        }
        Err(error) => return Err(ReconcileError::Status(error)),
    }
    for turn in &turns {
        context.events.publish(policy, &Happening::from(turn)).await;
    }
    Ok(())
}
