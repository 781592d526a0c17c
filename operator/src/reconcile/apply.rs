//! One object, applied if it is not as it must be.
//!
//! Server-side apply with one field manager and force: fields that others own and the policy does not speak of
//! stay as they are, such as an autoscaler's replicas or the stamp of `kubectl rollout restart`.

use jevmetrics_api::policy::ValidPolicy;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use kube::core::{DynamicObject, Status};
use serde_json::{Value, json};

use super::fetch::Live;
use super::replicas;
use crate::context::Context;
use crate::events::Repair;
use crate::kinds::Kind;
use crate::memory::{Known, Memory, version};
use crate::metrics::Applied;
use crate::observed::is_owned_by;
use crate::render::Manifest;

/// The one field manager of all writes.
pub(super) const FIELD_MANAGER: &str = "jevmetrics-operator";

/// An object could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// An object could not be written as JSON.
    #[error("failed to render: {0}")]
    Render(#[source] serde_json::Error),
    /// Somebody else's object has the name.
    #[error("{kind} {name} exists and is not owned by this policy: rename it or the policy, or delete it", kind = .0.name(), name = .1)]
    NameTaken(Kind, String),
    /// An object of a policy of the same name that was deleted.
    #[error("{kind} {name} is left over from a deleted policy of the same name: waiting for it to go", kind = .0.name(), name = .1)]
    LeftOver(Kind, String),
    /// The API server does not take the object as it is.
    #[error("{kind} {name} is refused: {status}", kind = .0.name(), name = .1, status = .2.message)]
    Refused(Kind, String, Box<Status>),
    /// It is made of what the object was, and the object has changed since.
    #[error("{kind} {name} has changed while it was looked at", kind = .0.name(), name = .1)]
    Overtaken(Kind, String),
    /// Nothing new is taken into a namespace that is being deleted.
    #[error("{kind} {name}: the namespace is being deleted", kind = .0.name(), name = .1)]
    NamespaceGoing(Kind, String),
    /// The operator lacks a right, or a quota forbids it.
    #[error("{kind} {name}: it is forbidden: {status}", kind = .0.name(), name = .1, status = .2.message)]
    Forbidden(Kind, String, Box<Status>),
    /// Anything that may be over the next time.
    #[error("failed to apply {kind} {name}: {source}", kind = .0.name(), name = .1, source = .2)]
    Request(Kind, String, #[source] Box<kube::Error>),
}

/// Applies `manifest` unless it is known to be as wanted. Says what was repaired, if it was applied before. `basis` is
/// what the object was when `manifest` was made of it: if it is something else by now, nothing is written, by nobody who
/// looked at it at the same time.
pub(super) async fn apply(
    policy: &ValidPolicy,
    manifest: &Manifest,
    basis: Option<&Live>,
    context: &Context,
    memory: &mut Memory,
) -> Result<Option<Repair>, ApplyError> {
    let Manifest { kind, name, .. } = manifest;
    let seen = context.observed.object(*kind, policy.namespace(), name);
    let known = memory.compare(manifest, seen.as_deref());
    if known == Known::AsWanted {
        return Ok(None);
    }
    let failed = |error| as_apply_error(*kind, name, error);
    let api = kind.api(&context.client, policy.namespace());
    // The watch may lag, and does not see what lacks our label.
    let before = api.get_opt(name).await.map_err(failed)?;
    if let Some(before) = &before {
        may_write(policy, manifest, before).inspect_err(|_| memory.forget(*kind, name))?;
        if *kind == Kind::Deployment && policy.replicas().is_none() {
            replicas::hand_over(&api, before).await.map_err(failed)?;
        }
    }
    let now = before.as_ref().and_then(ResourceExt::resource_version);
    if basis.is_some_and(|basis| basis.version != now) {
        return Err(ApplyError::Overtaken(*kind, name.clone()));
    }
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let patch = precondition(&manifest.value, before.as_ref(), basis.is_some());
    let after = api
        .patch(name, &params, &Patch::Apply(&patch))
        .await
        .map_err(failed)?;
    memory.applied(manifest, &after);
    let applied = match &before {
        None => Applied::Created,
        Some(before) if version(before) == version(&after) => Applied::Unchanged,
        Some(_) => Applied::Changed,
    };
    context.metrics.applied(*kind, applied);
    if applied != Applied::Unchanged {
        tracing::info!(kind = kind.name(), name, result = ?applied, "applied");
    }
    let is_repair = known == Known::Drifted && applied != Applied::Unchanged;
    Ok(is_repair.then(|| Repair::of(manifest, before.as_ref())))
}

/// Refuses to touch what is not ours.
fn may_write(policy: &ValidPolicy, manifest: &Manifest, before: &DynamicObject) -> Result<(), ApplyError> {
    if is_owned_by(before, policy.uid()) {
        return Ok(());
    }
    let (kind, name) = (manifest.kind, manifest.name.clone());
    let mut owners = before.owner_references().iter();
    if owners.any(|owner| owner.kind == "JevMetricsPolicy" && owner.name == policy.name()) {
        return Err(ApplyError::LeftOver(kind, name));
    }
    Err(ApplyError::NameTaken(kind, name))
}

/// Whoever has put another object in the place since then makes the write fail; if it must be `as_it_was`, whoever has
/// changed it.
pub(super) fn precondition(manifest: &Value, before: Option<&DynamicObject>, as_it_was: bool) -> Value {
    let mut patch = manifest.clone();
    let metadata = &mut patch["metadata"];
    match before {
        Some(before) => {
            metadata["uid"] = json!(before.uid());
            if as_it_was {
                metadata["resourceVersion"] = json!(before.resource_version());
            }
        }
        // No object has this version: only creating can succeed. ("0" would be any version.)
        None => metadata["resourceVersion"] = json!("1"),
    }
    patch
}

/// A write that names another uid than the object has is refused as invalid.
pub(super) fn is_about_uid(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 422 && causes.into_iter().any(|cause| cause.field == "metadata.uid")
}

fn is_about_namespace(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .any(|cause| cause.reason == "NamespaceTerminating")
}

pub(super) fn as_apply_error(kind: Kind, name: &str, error: kube::Error) -> ApplyError {
    let name = name.to_owned();
    match error {
        // Another object is in the place since it was looked at: the next look finds it.
        kube::Error::Api(status) if is_about_uid(&status) => {
            ApplyError::Request(kind, name, Box::new(kube::Error::Api(status)))
        }
        kube::Error::Api(status) if matches!(status.code, 400 | 422) => {
            ApplyError::Refused(kind, name, status)
        }
        kube::Error::Api(status) if status.code == 403 && is_about_namespace(&status) => {
            ApplyError::NamespaceGoing(kind, name)
        }
        kube::Error::Api(status) if status.code == 403 => ApplyError::Forbidden(kind, name, status),
        other => ApplyError::Request(kind, name, Box::new(other)),
    }
}
