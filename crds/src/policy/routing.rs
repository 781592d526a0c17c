//! Who owns which resources, and how pods speak to each other and the operator to them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who owns which resources, and how pods speak to each other and the operator to them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Routing {
    /// Where data is worked on.
    // In the definition the text of the type stands here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<RoutingAffinity>,

    /// Resource attributes that say who owns a resource; one that has none of them is known by all it has. By default
    /// `service.namespace`, `service.name` and the first of `service.instance.id`, `k8s.pod.uid`, `k8s.pod.name`,
    /// `host.id`, `host.name`; with the identity `Context` the context attributes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "set"))]
    pub key_attributes: Option<Vec<String>>,

    /// A pod owns resources after it was ready for so long without a break, in seconds. By default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 300))]
    pub settle_seconds: Option<i32>,

    /// What a pod owns is kept for it for so long while it is not ready, in seconds. By default 15.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 300))]
    pub hold_seconds: Option<i32>,

    /// Pods that must have settled before anybody owns anything; never more than there are to be. By default half of
    /// the replicas, rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub minimum_members: Option<i32>,

    /// Mutual TLS on the peer port. Without it that port speaks plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<RoutingTls>,
}

/// Where data is worked on. `Forward`: each resource goes to the pod that owns it, in one hop at most. `Upstream`: where it
/// arrives, for a tier in front routes. `None`: where it arrives. By default `Forward` without coordination and `None` with
/// it. Acts within seconds, without a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RoutingAffinity {
    /// Each resource goes to the pod that owns it.
    Forward,
    /// Where it arrives; a tier in front routes.
    Upstream,
    /// Where it arrives.
    None,
}

impl From<RoutingAffinity> for crate::routing::Affinity {
    fn from(affinity: RoutingAffinity) -> Self {
        match affinity {
            RoutingAffinity::Forward => Self::Forward,
            RoutingAffinity::Upstream => Self::Upstream,
            RoutingAffinity::None => Self::None,
        }
    }
}

impl From<crate::routing::Affinity> for RoutingAffinity {
    fn from(affinity: crate::routing::Affinity) -> Self {
        match affinity {
            crate::routing::Affinity::Forward => Self::Forward,
            crate::routing::Affinity::Upstream => Self::Upstream,
            crate::routing::Affinity::None => Self::None,
        }
    }
}

/// Mutual TLS on the peer port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoutingTls {
    /// Secret with `tls.crt`, `tls.key` and `ca.crt`, for both ends: the certificate must be signed by that
    /// authority, be good for server and client, and have the name `peer.jevmetrics.internal`.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
    )]
    pub secret_name: String,
}
