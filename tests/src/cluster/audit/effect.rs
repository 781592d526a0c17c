//! Whether a write changed something.
//!
//! The API server answers a write that changes nothing with the object as it was, under its old resource version. So a
//! version that was already part of an answer to a write is no change.
//!
//! *Caveats*: of two writes at the same moment, one of which changes nothing, either may be told as the change: the
//! number is right. A version that no recorded answer had (a pod's binding) makes the next write that changes nothing
//! look like a change. Deleting again what is being deleted is told as a change.

use std::collections::HashSet;

use super::event::{Event, ObjectRef};
use super::request::{Effect, parameter};

/// Versions of objects that were answers to writes: uid and resource version.
#[derive(Debug, Default)]
pub(super) struct Versions(HashSet<(String, String)>);

impl Versions {
    /// What `event` did; it is remembered for those that follow.
    pub(super) fn effect(&mut self, event: &Event) -> Effect {
        if !writes(event) {
            return Effect::Read;
        }
        if parameter(&event.request_uri, "dryRun").is_some() {
            return Effect::DryRun;
        }
        let code = event.response_status.as_ref().map_or(0, |status| status.code);
        if !(200..300).contains(&code) {
            return Effect::Refused;
        }
        let metadata = event.response_object.as_ref().map(|object| &object.metadata);
        let version = metadata.filter(|metadata| !metadata.resource_version.is_empty());
        let is_new = version.map(|version| {
            let key = (version.uid.clone(), version.resource_version.clone());
            self.0.insert(key)
        });
        match (event.verb.as_str(), is_new) {
            ("create" | "delete", _) | (_, Some(true)) => Effect::Changed,
            (_, Some(false)) => Effect::Unchanged,
            (_, None) => Effect::Unknown,
        }
    }
}

fn writes(event: &Event) -> bool {
    let Some(ObjectRef {
        api_group,
        subresource,
        ..
    }) = &event.object_ref
    else {
        return false;
    };
    match event.verb.as_str() {
        // Questions that have the form of an object: reviews and tokens.
        "create" => {
            !["authentication.k8s.io", "authorization.k8s.io"].contains(&api_group.as_str())
                && subresource != "token"
        }
        "update" | "patch" | "delete" | "deletecollection" => true,
        _ => false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(verb: &str, uri: &str, code: u16, version: Option<&str>) -> Event {
        let object = version.map(|version| json!({"metadata": {"uid": "u", "resourceVersion": version}}));
        serde_json::from_value(json!({
            "auditID": "1", "stage": "ResponseComplete", "requestURI": uri, "verb": verb,
            "requestReceivedTimestamp": "2026-01-02T03:04:05.678901Z",
            "user": {"username": "somebody"}, "objectRef": {"resource": "configmaps"},
            "responseStatus": {"code": code}, "responseObject": object,
        }))
        .unwrap()
    }

    #[test]
    fn a_version_changes_once() {
        let mut versions = Versions::default();
        let mut told = Vec::new();
        for (verb, code, version) in [
            ("create", 201, Some("1")),
            ("patch", 200, Some("1")),
            ("patch", 200, Some("2")),
            ("update", 200, Some("2")),
            ("patch", 409, Some("3")),
            ("patch", 200, Some("3")),
            ("get", 200, Some("4")),
            ("patch", 200, Some("4")),
            ("patch", 200, None),
            ("delete", 200, None),
        ] {
            told.push(versions.effect(&event(verb, "/x?fieldManager=m", code, version)));
        }
        assert_eq!(
            told,
            [
                Effect::Changed,
                Effect::Unchanged,
                Effect::Changed,
                Effect::Unchanged,
                Effect::Refused,
                Effect::Changed,
                Effect::Read,
                Effect::Changed,
                Effect::Unknown,
                Effect::Changed,
            ]
        );
    }

    #[test]
    fn a_dry_run_changes_nothing() {
        let mut versions = Versions::default();
        let dry = event("patch", "/x?fieldManager=m&dryRun=All", 200, Some("1"));
        assert_eq!(versions.effect(&dry), Effect::DryRun);
        assert_eq!(
            versions.effect(&event("patch", "/x", 200, Some("1"))),
            Effect::Changed
        );
    }
}
