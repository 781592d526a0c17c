//! What is received, and the Service in front of it.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is received, and the Service in front of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.maxUnpackedBytes) ? self.maxUnpackedBytes : 33554432) \
     >= (has(self.maxRequestBytes) ? self.maxRequestBytes : 16777216)"
).message(
    "spec.ingest.maxUnpackedBytes: must be at least maxRequestBytes (by default 33554432 and 16777216)"
))]
pub struct Ingest {
    /// Longest request as it comes over the wire, in bytes. By default 16777216.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1_024, max = 268_435_456))]
    pub max_request_bytes: Option<i64>,

    /// Longest request after decompression, in bytes. By default 33554432.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1_024, max = 1_073_741_824))]
    pub max_unpacked_bytes: Option<i64>,

    /// Connections to a pod at a time. By default 128.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_536))]
    pub max_connections: Option<i32>,

    /// How long a connection lives before its client is asked to make a new one, in seconds. By default 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub connection_age_seconds: Option<i32>,

    /// TLS for senders. Without it both ports speak plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<IngestTls>,

    /// The Service that senders use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<OtlpService>,
}

/// TLS for senders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngestTls {
    /// Secret of type `kubernetes.io/tls` with the certificate of the data plane; read again when it changes.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
    )]
    pub secret_name: String,

    /// Whether senders must show a certificate. `Require` takes those that the Secret's `ca.crt` has signed.
    #[serde(default)]
    pub client_authentication: ClientAuthentication,
}

/// Whether senders must show a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClientAuthentication {
    /// Anybody may send.
    #[default]
    None,
    /// Only who shows a certificate of the Secret's `ca.crt` may send.
    Require,
}

/// The Service that senders use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct OtlpService {
    /// Type of the Service.
    #[serde(default, rename = "type")]
    pub type_: ServiceType,

    /// Annotations of the Service, such as those that a load balancer wants.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(validation = Rule::new("self.all(key, !key.contains('jevmetrics.io/'))").message(
        "spec.ingest.service.annotations: must have no key of jevmetrics.io/"
    ))]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Type of the Service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// Reachable in the cluster.
    #[default]
    ClusterIP,
    /// Reachable through every node.
    NodePort,
    /// Reachable through a load balancer.
    LoadBalancer,
}
