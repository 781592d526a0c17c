//! Events on policies: what has turned, and what was repaired. Reasons are stable words, listed in
//! `docs/operator.md`.
//!
//! An event that cannot be written is logged and forgotten: nothing depends on it.

use jevmetrics_api::policy::JevMetricsPolicy;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::DynamicObject;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource as _};
use serde_json::Value;

use crate::assess::Turn;
use crate::conditions::Verdict;
use crate::kinds::Kind;
use crate::render::{Manifest, SETTINGS_VOLUME};

/// Longest note that the API server takes is 1,024 bytes.
const MAX_NOTE_BYTES: usize = 1000;

/// Where events go. Shared: it folds what is repeated.
#[derive(Clone)]
pub struct Events(Recorder);

impl std::fmt::Debug for Events {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Events")
    }
}

/// Something worth an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    is_warning: bool,
    reason: &'static str,
    action: &'static str,
    note: String,
}

/// What was found in a repaired object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// It was deleted.
    Deleted,
    /// Its fields were changed.
    Changed,
    /// A Deployment was rolled back to other settings.
    RolledBack,
}

impl Repair {
    /// Of an object that was applied before and found as `before`.
    pub fn of(manifest: &Manifest, before: Option<&DynamicObject>) -> Self {
        let Some(before) = before else {
            return Self::Deleted;
        };
        let wanted = settings(&manifest.value);
        if manifest.kind == Kind::Deployment && wanted.is_some() && settings(&before.data) != wanted {
            return Self::RolledBack;
        }
        Self::Changed
    }
}

/// The settings that pods of a Deployment mount.
fn settings(deployment: &Value) -> Option<&str> {
    let volumes = deployment.pointer("/spec/template/spec/volumes")?.as_array()?;
    let settings = volumes.iter().find(|volume| volume["name"] == SETTINGS_VOLUME)?;
    settings["configMap"]["name"].as_str()
}

impl Happening {
    /// An object was not as it was left.
    pub fn repaired(manifest: &Manifest, repair: Repair) -> Self {
        let object = format!("{} {}", manifest.kind.name(), manifest.name);
        let (reason, note) = match repair {
            Repair::Deleted => (
                "Recreated",
                format!("{object} was deleted by somebody and is there again"),
            ),
            Repair::Changed => (
                "Repaired",
                format!("{object} was changed by somebody and is as it must be again"),
            ),
            Repair::RolledBack => (
                "RollbackUndone",
                format!(
                    "{object} was rolled back to other settings; to go back, apply the former spec of the policy"
                ),
            ),
        };
        Self {
            is_warning: true,
            reason,
            action: "Repair",
            note,
        }
    }

    /// A condition has turned.
    pub fn turned(type_: &str, verdict: &Verdict) -> Self {
        Self {
            is_warning: verdict.holds == Some(false) || verdict.is_doubtful,
            reason: verdict.reason,
            action: "Assess",
            note: format!("{type_}: {}", verdict.message),
        }
    }
}

impl From<&Turn> for Happening {
    fn from(turn: &Turn) -> Self {
        Self::turned(turn.type_, &turn.verdict)
    }
}

impl Events {
    /// Events that name `instance` as their reporter.
    pub fn new(client: Client, instance: String) -> Self {
        let reporter = Reporter {
            controller: "jevmetrics.io/operator".to_owned(),
            instance: Some(instance),
        };
        Self(Recorder::new(client, reporter))
    }

    /// Publishes an event on `policy`.
    pub async fn publish(&self, policy: &JevMetricsPolicy, happening: &Happening) {
        self.publish_to(&policy.object_ref(&()), happening).await;
    }

    /// Publishes an event on whatever `reference` names.
    pub async fn publish_to(&self, reference: &ObjectReference, happening: &Happening) {
        let mut note = happening.note.clone();
        note.truncate(note.floor_char_boundary(MAX_NOTE_BYTES));
        let event = Event {
            type_: if happening.is_warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: happening.reason.to_owned(),
            note: Some(note),
            action: happening.action.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.0.publish(&event, reference).await {
            tracing::warn!(%error, reason = happening.reason, "an event could not be written");
        }
    }
}
