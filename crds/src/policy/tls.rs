//! TLS towards a server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::SecretKeyRef;

/// How a server is verified, and what is shown to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientTls {
    /// Certificates of the authorities that may have signed the server's, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<SecretKeyRef>,

    /// Secret of type `kubernetes.io/tls` with the certificate that the data plane shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
    )]
    pub client_secret_name: Option<String>,

    /// Name that the server's certificate must have, if not the host that is connected to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$")
    )]
    pub server_name: Option<String>,
}
