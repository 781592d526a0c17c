//! A Redis over which pods share.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::secret::SecretKeyRef;
use super::tls::ClientTls;

/// A Redis over which pods share assessments and a budget.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.user) || has(self.passwordSecretRef)").message(
    "spec.coordination.passwordSecretRef: must be given beside user"
))]
pub struct Coordination {
    /// Name under which pods share. By default one of this policy alone. Policies that name the same one share, and
    /// must have the same budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 400), regex(pattern = r"^[A-Za-z0-9._/-]+$"))]
    pub namespace: Option<String>,

    /// The one writable primary: a DNS name or an address, IPv6 without brackets.
    #[schemars(length(min = 1, max = 253))]
    // Whether an address with colons is one, pods' own parser knows: `isIP` is too new for the oldest Kubernetes.
    #[x_kube(validation = Rule::new(
        "self.matches(r'^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)([.][A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$') \
         || self.matches(r'^[0-9A-Fa-f]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*$')"
    ).message("spec.coordination.host: must be a DNS name of at most 253 bytes or an address, without a port"))]
    pub host: String,

    /// Its port. By default 6379.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<i32>,

    /// Number of the database. By default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65_535))]
    pub database: Option<i32>,

    /// User of the ACL. Unset, the default user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[!-~]+$"))]
    pub user: Option<String>,

    /// The password; read again when it changes. While it is missing nothing is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_secret_ref: Option<SecretKeyRef>,

    /// TLS towards Redis, by default with the certificate authorities of the image. Unset, plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTls>,

    /// Longest time for connecting, and for one command, in milliseconds. By default 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 60_000))]
    pub timeout_milliseconds: Option<i32>,

    /// For how long one pod may ask about one instrument, in seconds. By default 10. Acts within seconds, without a
    /// rollout.
    #[serde(rename = "leaseTTLSeconds", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3_600))]
    pub lease_ttl_seconds: Option<i32>,

    /// Questions in flight at a time, of all pods together. By default 4. Acts within seconds, without a rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub max_in_flight: Option<i32>,

    /// Questions that all pods together may begin in a second. By default 10. Acts within seconds, without a rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub requests_per_second: Option<i32>,
}
