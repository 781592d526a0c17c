//! Files of TLS: PEM, absolute paths, read again when they change.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::live_source::is_label;
use super::secret::absolute;
use crate::document::{Fields, Read};

/// A certificate with its chain, and its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPair {
    certificate_file: PathBuf,
    key_file: PathBuf,
}

/// TLS of a port that senders connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTls {
    key_pair: KeyPair,
    client_ca_file: Option<PathBuf>,
}

/// TLS towards a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientTls {
    ca_file: Option<PathBuf>,
    key_pair: Option<KeyPair>,
    server_name: Option<String>,
}

/// Mutual TLS between pods: one pair for both directions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerTls {
    key_pair: KeyPair,
    ca_file: PathBuf,
}

impl KeyPair {
    fn read(fields: &mut Fields<'_>) -> Read<Self> {
        let certificate_file = required_path(fields, "certificateFile");
        let key_file = required_path(fields, "keyFile");
        Ok(Self {
            certificate_file: certificate_file?,
            key_file: key_file?,
        })
    }

    /// The certificate, then those between it and the root, in PEM.
    pub fn certificate_file(&self) -> &Path {
        &self.certificate_file
    }

    /// The private key in PEM.
    pub fn key_file(&self) -> &Path {
        &self.key_file
    }
}

impl ServerTls {
    pub(super) fn read(fields: &mut Fields<'_>) -> Read<Self> {
        let key_pair = KeyPair::read(fields);
        let client_ca_file = path(fields, "clientCAFile");
        Ok(Self {
            key_pair: key_pair?,
            client_ca_file: client_ca_file?,
        })
    }

    /// What the port shows.
    pub fn key_pair(&self) -> &KeyPair {
        &self.key_pair
    }

    /// Roots that a client's certificate must come from, in PEM; without them clients need none.
    pub fn client_ca_file(&self) -> Option<&Path> {
        self.client_ca_file.as_deref()
    }
}

impl ClientTls {
    pub(super) fn read(fields: &mut Fields<'_>) -> Read<Self> {
        let ca_file = path(fields, "caFile");
        let certificate_file = path(fields, "certificateFile");
        let key_file = path(fields, "keyFile");
        let server_name = read_server_name(fields);
        let key_pair = match (certificate_file?, key_file?) {
            (None, None) => None,
            (Some(certificate_file), Some(key_file)) => Some(KeyPair {
                certificate_file,
                key_file,
            }),
            (Some(_), None) => return Err(fields.refuse("keyFile", "must be given beside certificateFile")),
            (None, Some(_)) => return Err(fields.refuse("certificateFile", "must be given beside keyFile")),
        };
        Ok(Self {
            ca_file: ca_file?,
            key_pair,
            server_name: server_name?,
        })
    }

    /// Reads the form that has the roots alone.
    pub(super) fn read_roots(fields: &mut Fields<'_>) -> Read<Self> {
        Ok(Self {
            ca_file: Some(required_path(fields, "caFile")?),
            ..Self::default()
        })
    }

    /// Roots that the server's certificate must come from, in PEM; without them, those of the system.
    pub fn ca_file(&self) -> Option<&Path> {
        self.ca_file.as_deref()
    }

    /// What this side shows, if the server asks.
    pub fn key_pair(&self) -> Option<&KeyPair> {
        self.key_pair.as_ref()
    }

    /// The DNS name that the server's certificate must hold, if not the host of the URL; in lower case.
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }
}

impl PeerTls {
    pub(super) fn read(fields: &mut Fields<'_>) -> Read<Self> {
        let key_pair = KeyPair::read(fields);
        let ca_file = required_path(fields, "caFile");
        Ok(Self {
            key_pair: key_pair?,
            ca_file: ca_file?,
        })
    }

    /// What this pod shows to either side.
    pub fn key_pair(&self) -> &KeyPair {
        &self.key_pair
    }

    /// Roots that the other side's certificate must come from, in PEM.
    pub fn ca_file(&self) -> &Path {
        &self.ca_file
    }
}

fn path(fields: &mut Fields<'_>, name: &'static str) -> Read<Option<PathBuf>> {
    match fields.text(name)? {
        None => Ok(None),
        Some(path) => match absolute(&path) {
            Ok(path) => Ok(Some(path)),
            Err(rule) => Err(fields.refuse(name, rule)),
        },
    }
}

fn required_path(fields: &mut Fields<'_>, name: &'static str) -> Read<PathBuf> {
    path(fields, name)?.ok_or_else(|| fields.refuse(name, "must be given"))
}

fn read_server_name(fields: &mut Fields<'_>) -> Read<Option<String>> {
    let Some(name) = fields.text("serverName")? else {
        return Ok(None);
    };
    let name = name.to_ascii_lowercase();
    let is_address = name.parse::<IpAddr>().is_ok();
    if name.len() <= 253 && name.split('.').all(|label| label.len() <= 63 && is_label(label)) && !is_address {
        return Ok(Some(name));
    }
    Err(fields.refuse(
        "serverName",
        "must be a DNS name of at most 253 bytes, not an address",
    ))
}
