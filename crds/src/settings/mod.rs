//! The settings file of the data plane: what it needs at start and what takes a restart to change.
//!
//! Read once. Secrets are never in it, only where they are found. Names, units and defaults are those
//! of the policy resource; `docs/reference/settings.md` lists them.

mod export;
mod inference;
mod ingest;
mod listen;
mod secret;
mod url;

use std::path::{Path, PathBuf};

pub use self::export::{Compression, Endpoint, Export, ExportHeader, Protocol};
pub use self::inference::{Identity, Inference};
pub use self::ingest::Ingest;
pub use self::listen::Listen;
pub use self::secret::SecretSource;
use crate::document::{self, Fields, Read, SettingsError};

/// The only schema number there is.
pub(crate) const SCHEMA: u32 = 1;

/// Validated settings of one data plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataPlaneSettings {
    revision: String,
    listen: Listen,
    live_file: PathBuf,
    ingest: Ingest,
    export: Export,
    inference: Inference,
}

impl DataPlaneSettings {
    /// Reads a settings file; the error names every field that breaks its rule.
    pub fn from_yaml(yaml: &str) -> Result<Self, SettingsError> {
        document::read(yaml, |fields| {
            let schema = fields.required_integer("schema", SCHEMA..=SCHEMA);
            let revision = read_revision(fields);
            let listen = fields.section("listen", Listen::read);
            let live_file = fields.section("live", |live| {
                let path = live.required_text("file")?;
                secret::absolute(&path).map_err(|rule| live.refuse("file", rule))
            });
            let ingest = fields.section("ingest", Ingest::read);
            let export = fields.section("export", Export::read);
            let inference = fields.section("inference", Inference::read);
            schema?;
            Ok(Self {
                revision: revision?,
                listen: listen?,
                live_file: live_file?,
                ingest: ingest?,
                export: export?,
                inference: inference?,
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

    /// The file that holds the live object, an absolute path.
    pub fn live_file(&self) -> &Path {
        &self.live_file
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

#[cfg(test)]
mod tests;
