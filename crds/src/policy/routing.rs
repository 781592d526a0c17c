//! How pods speak to each other and the operator to them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How pods speak to each other and the operator to them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Routing {
    /// Mutual TLS on the peer port. Without it that port speaks plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<RoutingTls>,
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
