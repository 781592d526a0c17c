//! `JevMetricsPolicy`: one resource, one data plane.
//!
//! ```text
//! YAML -> JevMetricsPolicy -> [`ValidPolicy`] -> everything that the operator renders
//! ```
//! The comments on fields are what `kubectl explain` shows and what `docs/reference/policy.md` is made of.
//! Names, units and defaults are those of the data plane's settings. What is left out stays left out: the
//! data plane knows the default.

#![allow(
    unreachable_pub,
    reason = "KubeSchema derives a second struct of each, which nobody reaches"
)]

mod coordination;
mod definition;
mod export;
mod inference;
mod ingest;
mod reference;
mod retention;
mod routing;
mod secret;
mod status;
mod template;
mod tls;
mod valid;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

pub use self::coordination::Coordination;
pub use self::definition::{definition, definition_yaml};
pub use self::export::{Compression, Export, ExportHeader, Protocol};
pub use self::inference::{Identity, Inference, InferenceTls};
pub use self::ingest::{ClientAuthentication, Ingest, IngestTls, OtlpService, ServiceType};
pub use self::reference::reference;
pub use self::retention::{Mode, Retention};
pub use self::routing::{Routing, RoutingAffinity, RoutingTls};
pub use self::secret::SecretKeyRef;
pub use self::status::{
    CoordinationStatus, EpochReached, HeartbeatAge, InferenceStatus, JevMetricsPolicyStatus, MemberStatus,
    MembershipState, RevisionStatus, RoutingStatus,
};
pub use self::template::{ImagePullSecret, PodTemplate};
pub use self::tls::ClientTls;
pub use self::valid::{
    MAX_NAME_LENGTH, Membership, PolicyError, QuestionBudget, SecretUse, Sharing, ValidPolicy, live_name,
};

/// A data plane that receives OTLP metrics, has their instruments judged, and annotates or drops them.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "jevmetrics.io",
    version = "v1alpha1",
    kind = "JevMetricsPolicy",
    plural = "jevmetricspolicies",
    shortname = "jmp",
    namespaced,
    derive = "PartialEq",
    status = "JevMetricsPolicyStatus",
    doc = "A data plane that receives OTLP metrics, has their instruments judged, and annotates or drops them.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "Revision", type_ = "string", json_path = ".spec.revision"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.ready"),
    printcolumn(name = "Members", type_ = "integer", json_path = ".status.routing.members"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Epoch",
        type_ = "integer",
        json_path = ".status.routing.epoch",
        priority = "1"
    ),
    printcolumn(
        name = "Converged",
        type_ = "string",
        json_path = ".status.routing.converged",
        priority = "1"
    ),
    printcolumn(
        name = "Model",
        type_ = "string",
        json_path = ".status.inference.model",
        priority = "1"
    ),
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".spec.export.endpoint",
        priority = "1"
    ),
    validation = Rule::new(
        "self.metadata.name.size() <= 36 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')"
    )
    .message("metadata.name: must have at most 36 characters of a-z 0-9 -, begin with a letter and end with a letter or digit"),
    // A lease must outlast a question, with time to be admitted before it and to publish the answer after it.
    validation = Rule::new(
        "!has(self.spec.coordination) || \
         1000 * (has(self.spec.coordination.leaseTTLSeconds) ? self.spec.coordination.leaseTTLSeconds : 10) > \
         (has(self.spec.inference) && has(self.spec.inference.timeoutMilliseconds) \
         ? self.spec.inference.timeoutMilliseconds : 3000) + \
         2 * (has(self.spec.coordination.timeoutMilliseconds) ? self.spec.coordination.timeoutMilliseconds : 1000)"
    )
    .message("spec.coordination.leaseTTLSeconds: must be more than inference.timeoutMilliseconds and twice coordination.timeoutMilliseconds together (by default 10 s, 3000 ms and 1000 ms)")
)]
#[serde(rename_all = "camelCase")]
pub struct JevMetricsPolicySpec {
    /// What happens to an instrument that the policy drops. `Annotate` passes everything on and shows what
    /// `Reduce` would do; `Reduce` removes it. Acts within seconds, without a rollout.
    #[serde(default)]
    pub mode: Mode,

    /// Names this generation of settings. A new one rolls all pods and asks about every instrument anew.
    #[serde(default = "first_revision")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$')").message(
        "spec.revision: must have characters of A-Z a-z 0-9 . _ - only, and begin and end with a letter or digit"
    ))]
    pub revision: String,

    /// Number of pods. Unset, somebody else scales the Deployment, which starts at 1; an autoscaler that
    /// targets the scale of this resource needs it set once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 500))]
    pub replicas: Option<i32>,

    /// What is received, and the Service in front of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingest: Option<Ingest>,

    /// Where kept metrics go.
    pub export: Export,

    /// How Jev is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inference: Option<Inference>,

    /// Which instruments are kept. Acts within seconds, without a rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,

    /// A Redis over which pods share assessments and a budget. Unset, each pod asks by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordination: Option<Coordination>,

    /// Who owns which resources, and how pods speak to each other and the operator to them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing>,

    /// The pods of the data plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<PodTemplate>,
}

fn first_revision() -> String {
    "1".to_owned()
}
