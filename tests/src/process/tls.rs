//! The sections of the settings that are about TLS.

use std::path::PathBuf;

use serde::Serialize;

/// `peer`.
#[derive(Debug, Clone, Serialize)]
pub struct Peer {
    /// Mutual TLS.
    pub tls: PeerTls,
}

/// `peer.tls`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerTls {
    /// Certificate with its chain.
    pub certificate_file: PathBuf,
    /// Its key.
    pub key_file: PathBuf,
    /// Roots that clients must come from.
    pub ca_file: PathBuf,
}

/// `ingest.tls`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerTls {
    /// Certificate with its chain.
    pub certificate_file: PathBuf,
    /// Its key.
    pub key_file: PathBuf,
    /// Roots that clients must come from.
    #[serde(rename = "clientCAFile", skip_serializing_if = "Option::is_none")]
    pub client_ca_file: Option<PathBuf>,
}

/// `export.tls` and `inference.tls`.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientTls {
    /// Roots of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// Certificate shown to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_file: Option<PathBuf>,
    /// Its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Name in its certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
}
