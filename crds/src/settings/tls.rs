//! Files of TLS: PEM, absolute paths, read again when they change.

use std::path::{Path, PathBuf};

use super::secret::absolute;
use crate::document::{Fields, Read};

/// A certificate with its chain, and its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPair {
    certificate_file: PathBuf,
    key_file: PathBuf,
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
