//! How Jev is asked.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::SecretKeyRef;

/// How Jev is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.tls) || !has(self.baseURL) || self.baseURL.lowerAscii().startsWith('https://')"
).message("spec.inference.tls: must not be given with an http:// baseURL: it would not be used"))]
pub struct Inference {
    /// URL below which the API lives. By default `https://api.typesafe.ai`.
    #[serde(rename = "baseURL", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2_048))]
    #[x_kube(validation = Rule::new(
        "self.matches(r'^[Hh][Tt][Tt][Pp][Ss]?://(\\[[0-9A-Fa-f:.]+\\]|[^/@?#:\\[\\]]+)(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?(/[^?#]*)?$') && isURL(self)"
    ).message(
        "spec.inference.baseURL: must be a URL of the form http://host:port/path, without user, query and fragment"
    ))]
    pub base_url: Option<String>,

    /// The model that is asked. By default `jev-latest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[!-~]+$"))]
    pub model: Option<String>,

    /// The API key; read again when it changes. While it is missing everything is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_secret_ref: Option<SecretKeyRef>,

    /// What makes two instruments one. `Complete`: all resource attributes count. `Context`: only those of
    /// contextAttributes, so that the instances of a service share an assessment.
    #[serde(default)]
    pub identity: Identity,

    /// Longest time that one question may take, in milliseconds. By default 3000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout_milliseconds: Option<i32>,

    /// Questions in flight at a time. By default 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub workers: Option<i32>,

    /// Instruments that wait to be asked about. By default 256.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_536))]
    pub queue_size: Option<i32>,

    /// Assessments that a pod holds. By default 10000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_000_000))]
    pub cache_size: Option<i32>,

    /// How long an assessment counts, in seconds. By default 900.
    #[serde(rename = "scoreTTLSeconds", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 86_400))]
    pub score_ttl_seconds: Option<i32>,

    /// Questions that a pod may ask in a second. By default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub requests_per_second_per_replica: Option<i32>,

    /// Questions that a pod may ask at once. By default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub burst: Option<i32>,

    /// Resource attributes that the model may see. By default `service.name`, `service.namespace`,
    /// `deployment.environment.name`, `cloud.region`, `k8s.namespace.name`; an empty list shows none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "set"))]
    pub context_attributes: Option<Vec<String>>,

    /// How an https base URL is verified. Without it, by the certificate authorities of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<InferenceTls>,
}

/// What makes two instruments one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Identity {
    /// All resource attributes count.
    #[default]
    Complete,
    /// Of the resource only the context attributes count.
    Context,
}

/// How an https base URL is verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InferenceTls {
    /// Certificates of the authorities that may have signed the server's, in PEM.
    pub ca_secret_ref: SecretKeyRef,
}
