//! Where kept metrics go.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::SecretKeyRef;
use super::tls::ClientTls;

/// Where kept metrics go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "self.protocol == 'HTTP' || !isURL(self.endpoint) || url(self.endpoint).getEscapedPath() in ['', '/']"
    ).message("spec.export.endpoint: must have no path with protocol GRPC"),
    validation = Rule::new("!has(self.tls) || self.endpoint.lowerAscii().startsWith('https://')").message(
        "spec.export.tls: must not be given with an http:// endpoint: it would not be used"
    ),
)]
pub struct Export {
    /// Where kept metrics are sent: `http://host:port`, `https://host:port`; with protocol HTTP and a path, by
    /// default `/v1/metrics`.
    #[schemars(length(min = 1, max = 2_048))]
    #[x_kube(validation = Rule::new(
        "self.matches(r'^[Hh][Tt][Tt][Pp][Ss]?://(\\[[0-9A-Fa-f:.]+\\]|[^/@?#:\\[\\]]+)(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?(/[^?#]*)?$') && isURL(self)"
    ).message(
        "spec.export.endpoint: must be a URL of the form http://host:port/path, without user, query and fragment"
    ))]
    pub endpoint: String,

    /// OTLP over gRPC or over HTTP.
    #[serde(default)]
    pub protocol: Protocol,

    /// Compression of what is sent.
    #[serde(default)]
    pub compression: Compression,

    /// Longest time that a request may take downstream, in milliseconds. By default 8000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout_milliseconds: Option<i32>,

    /// Largest request, in bytes before compression, to which companions are added. By default 4194304.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1_024, max = 268_435_456))]
    pub max_request_bytes: Option<i64>,

    /// Headers of every request downstream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub headers: Vec<ExportHeader>,

    /// How an https endpoint is verified. Without it, by the certificate authorities of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTls>,
}

/// The protocol towards downstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Protocol {
    /// OTLP over gRPC.
    #[default]
    #[serde(rename = "GRPC")]
    Grpc,
    /// OTLP over HTTP with protobuf bodies.
    #[serde(rename = "HTTP")]
    Http,
}

/// Compression of what is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Compression {
    /// None.
    #[default]
    None,
    /// Gzip.
    Gzip,
}

/// A header of every request downstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportHeader {
    /// Name of the header, in lower case.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(
        validation = Rule::new("self.matches('^[a-z0-9!#$%&\\'*+.^_`|~-]+$')").message(
            "spec.export.headers.name: must be an HTTP header name in lower case"
        ),
        validation = Rule::new(
            "!(self in ['accept-encoding', 'connection', 'content-encoding', 'content-length', 'content-type', 'date', \
             'expect', 'host', 'http2-settings', 'keep-alive', 'proxy-connection', 'te', 'trailer', \
             'transfer-encoding', 'upgrade', 'user-agent']) && !self.startsWith('grpc-')"
        ).message("spec.export.headers.name: must not be a header that OTLP, gRPC or HTTP sets itself"),
        validation = Rule::new("!self.endsWith('-bin')").message(
            "spec.export.headers.name: must not end in -bin: gRPC takes such headers as binary"
        ),
    )]
    pub name: String,

    /// Where its value is; read again when it changes.
    pub secret_key_ref: SecretKeyRef,
}
