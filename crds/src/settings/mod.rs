//! The settings file of the data plane: what it needs at start and what takes a restart to change.
//!
//! Read once. Secrets are never in it, only where they are found. Names, units and defaults are those
//! of the policy resource; `docs/reference/settings.md` lists them.

mod coordination;
mod export;
mod inference;
mod ingest;
mod listen;
mod live_source;
mod peer;
mod secret;
mod tls;
mod url;

pub use self::coordination::Coordination;
pub use self::export::{Compression, Endpoint, Export, ExportHeader, Protocol};
pub use self::inference::{Identity, Inference};
pub use self::ingest::Ingest;
pub use self::listen::Listen;
pub use self::live_source::{LiveObject, LiveSource};
pub use self::peer::Peer;
pub use self::secret::SecretSource;
pub use self::tls::{ClientTls, KeyPair, PeerTls, ServerTls};
use crate::document::{self, Fields, Read, SettingsError};

/// The only schema number there is.
pub(crate) const SCHEMA: u32 = 1;

/// Validated settings of one data plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataPlaneSettings {
    revision: String,
    listen: Listen,
    live: LiveSource,
    peer: Peer,
    ingest: Ingest,
    export: Export,
    inference: Inference,
    coordination: Option<Coordination>,
}

impl DataPlaneSettings {
    /// Reads a settings file; the error names every field that breaks its rule.
    pub fn from_yaml(yaml: &str) -> Result<Self, SettingsError> {
        document::read(yaml, |fields| {
            let schema = fields.required_integer("schema", SCHEMA..=SCHEMA);
            let revision = read_revision(fields);
            let listen = fields.section("listen", Listen::read);
            let live = fields.section("live", LiveSource::read);
            let peer = fields.section("peer", Peer::read);
            let ingest = fields.section("ingest", Ingest::read);
            let export = fields.section("export", Export::read);
            let inference = fields.section("inference", Inference::read);
            let coordination = fields.optional_section("coordination", Coordination::read);
            schema?;
            Ok(Self {
                revision: revision?,
                listen: listen?,
                live: live?,
                peer: peer?,
                ingest: ingest?,
                export: export?,
                inference: inference?,
                coordination: coordination?,
            })
        })
    }

    /// Names this generation of settings; a label value.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The addresses to listen on.
    pub fn listen(&self) -> &Listen {
        &self.listen
    }

    /// Where the live object is found.
    pub fn live(&self) -> &LiveSource {
        &self.live
    }

    /// How other pods and the operator are spoken with.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Limits on what is received.
    pub fn ingest(&self) -> &Ingest {
        &self.ingest
    }

    /// Where kept metrics go.
    pub fn export(&self) -> &Export {
        &self.export
    }

    /// How Jev is asked.
    pub fn inference(&self) -> &Inference {
        &self.inference
    }

    /// How replicas share assessments and a budget, if they do.
    pub fn coordination(&self) -> Option<&Coordination> {
        self.coordination.as_ref()
    }
}

fn read_revision(fields: &mut Fields<'_>) -> Read<String> {
    let Some(revision) = fields.text("revision")? else {
        return Ok("1".to_owned());
    };
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let bytes = revision.as_bytes();
    let ends = bytes.first().zip(bytes.last());
    let ends_well =
        ends.is_some_and(|(first, last)| first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric());
    if bytes.len() <= 63 && bytes.iter().copied().all(inside) && ends_well {
        return Ok(revision);
    }
    let rule = "must have 1 to 63 characters of A-Z a-z 0-9 . _ - and begin and end with a letter or digit";
    Err(fields.refuse("revision", rule))
}

/// Names the content of a settings file: the first 16 hex digits of BLAKE3 over its text.
pub fn settings_digest(text: &str) -> String {
    let mut digest = blake3::hash(text.as_bytes()).to_hex().to_string();
    digest.truncate(16);
    digest
}

#[cfg(test)]
mod tests;
