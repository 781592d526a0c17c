//! What a Deployment says, as far as it speaks of the spec that it has.

use k8s_openapi::api::apps::v1::Deployment;
use kube::core::DynamicObject;

#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
/// What a Deployment says. All zero if there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workload {
    /// Whether it is there.
    pub exists: bool,
    /// Whether its status speaks of its present spec.
    pub is_current: bool,
    /// Whether somebody has paused it.
    pub is_paused: bool,
    /// Wanted pods.
    pub wanted: i32,
    /// Pods that there are.
    pub replicas: i32,
    /// Those that are ready.
    pub ready: i32,
    /// Those of the present template.
    pub updated: i32,
    /// Why no pod can be made.
    pub failure: Option<String>,
    /// Whether a rollout takes longer than it may.
    pub is_late: bool,
}

impl Workload {
    /// Reads a Deployment.
    pub fn of(deployment: Option<&DynamicObject>) -> Self {
        let typed = deployment.and_then(|object| object.clone().try_parse::<Deployment>().ok());
        let Some(deployment) = typed else {
            return Self::default();
        };
        let spec = deployment.spec.unwrap_or_default();
        let status = deployment.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let holds = |type_: &str, value: &str| {
            let mut found = conditions.iter();
            found.find(|condition| condition.type_ == type_ && condition.status == value)
        };
        let is_late = holds("Progressing", "False")
            .is_some_and(|condition| condition.reason.as_deref() == Some("ProgressDeadlineExceeded"));
        Self {
            exists: true,
            is_current: status.observed_generation >= deployment.metadata.generation,
            is_paused: spec.paused.unwrap_or(false),
            wanted: spec.replicas.unwrap_or(1),
            replicas: status.replicas.unwrap_or(0),
            ready: status.ready_replicas.unwrap_or(0),
            updated: status.updated_replicas.unwrap_or(0),
            failure: holds("ReplicaFailure", "True").and_then(|condition| condition.message.clone()),
            is_late,
        }
    }
}
