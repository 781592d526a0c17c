//! What a Pod says, as far as a status speaks of it.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt as _;

use crate::render::{REVISION, SETTINGS_VOLUME};

/// What a Pod says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodView {
    /// Its name.
    pub name: String,
    /// The revision that it was made for.
    pub revision: Option<String>,
    /// The ConfigMap with its settings.
    pub settings: Option<String>,
    /// Whether it serves.
    pub is_ready: bool,
    /// Why it does not get there, if it says so.
    pub trouble: Option<String>,
}

impl PodView {
    /// Reads a Pod.
    pub fn of(pod: &Pod) -> Self {
        let is_leaving = pod.metadata.deletion_timestamp.is_some();
        Self {
            name: pod.name_any(),
            revision: pod.labels().get(REVISION).cloned(),
            settings: settings(pod),
            is_ready: !is_leaving && condition(pod, "Ready").is_some_and(|(status, _)| status == "True"),
            trouble: if is_leaving { None } else { trouble(pod) },
        }
    }
}

fn settings(pod: &Pod) -> Option<String> {
    let volumes = pod.spec.as_ref()?.volumes.as_ref()?;
    // Others may have put volumes of their own beside it.
    let settings = volumes.iter().find(|volume| volume.name == SETTINGS_VOLUME)?;
    Some(settings.config_map.as_ref()?.name.clone())
}

fn condition<'p>(pod: &'p Pod, type_: &str) -> Option<(&'p str, Option<&'p str>)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((&found.status, found.message.as_deref()))
}

/// Why a pod does not get there, in words that stay the same while it does not: what alternates between two tries, or
/// counts them, would be news each time. What a container has printed is not shown.
fn trouble(pod: &Pod) -> Option<String> {
    if let Some(("False", message)) = condition(pod, "PodScheduled") {
        return Some(with_message("Unschedulable", message));
    }
    let status = pod.status.as_ref()?;
    if let Some(told) = status
        .container_statuses
        .iter()
        .flatten()
        .find_map(container_trouble)
    {
        return Some(told);
    }
    (status.phase.as_deref() == Some("Failed")).then(|| {
        with_message(
            status.reason.as_deref().unwrap_or("Failed"),
            status.message.as_deref(),
        )
    })
}

fn container_trouble(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    match waiting.and_then(|waiting| waiting.reason.as_deref()) {
        // These two are ordinary steps on the way.
        Some("ContainerCreating" | "PodInitializing") => None,
        Some("ErrImagePull" | "ImagePullBackOff") => Some(format!("ImagePullBackOff: {}", container.image)),
        Some("CrashLoopBackOff") => Some(crash(container)),
        Some(reason) => Some(with_message(
            reason,
            waiting.and_then(|waiting| waiting.message.as_deref()),
        )),
        // Between two crashes it runs for a moment, or has just ended.
        None if !container.ready && container.restart_count > 0 => Some(crash(container)),
        None => None,
    }
}

fn crash(container: &ContainerStatus) -> String {
    let states = [&container.state, &container.last_state];
    let ended = states
        .into_iter()
        .flatten()
        .find_map(|state| state.terminated.as_ref());
    match ended {
        Some(ended) => {
            let reason = ended.reason.as_deref().unwrap_or("Error");
            format!("CrashLoopBackOff: exit code {} ({reason})", ended.exit_code)
        }
        None => "CrashLoopBackOff".to_owned(),
    }
}

fn with_message(reason: &str, message: Option<&str>) -> String {
    match message {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn seen(container: &Value) -> Option<String> {
        let mut status =
            json!({"name": "dataplane", "image": "a/b:1", "imageID": "", "ready": false, "restartCount": 0});
        for (field, value) in container.as_object().unwrap() {
            status[field] = value.clone();
        }
        let pod = json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [status]}});
        PodView::of(&serde_json::from_value(pod).unwrap()).trouble
    }

    #[test]
    fn a_crash_loop_is_told_in_the_same_words_in_each_of_its_phases() {
        let ended = json!({"terminated": {"exitCode": 1, "reason": "Error", "message": "a secret\n"}});
        let backs_off = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}});
        for phase in [
            json!({"restartCount": 1, "state": {"running": {}}, "lastState": ended}),
            json!({"restartCount": 1, "state": ended}),
            json!({"restartCount": 2, "state": backs_off, "lastState": ended}),
        ] {
            assert_eq!(
                seen(&phase).as_deref(),
                Some("CrashLoopBackOff: exit code 1 (Error)")
            );
        }
    }

    #[test]
    fn an_image_that_cannot_be_pulled_is_told_in_the_same_words_in_both_of_its_phases() {
        for reason in ["ErrImagePull", "ImagePullBackOff"] {
            let waiting = json!({"state": {"waiting": {"reason": reason, "message": reason}}});
            assert_eq!(seen(&waiting).as_deref(), Some("ImagePullBackOff: a/b:1"));
        }
    }

    #[test]
    fn a_pod_on_its_way_is_in_no_trouble() {
        assert_eq!(
            seen(&json!({"state": {"waiting": {"reason": "ContainerCreating"}}})),
            None
        );
        assert_eq!(seen(&json!({"state": {"running": {}}})), None);
    }

    #[test]
    fn settings_are_found_by_the_name_of_their_volume() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [], "volumes": [
            {"name": "injected", "configMap": {"name": "root-ca"}},
            {"name": "settings", "configMap": {"name": "jm-settings-1"}},
        ]}});
        let view = PodView::of(&serde_json::from_value(pod).unwrap());
        assert_eq!(view.settings.as_deref(), Some("jm-settings-1"));
    }
}
