//! From YAML text to validated types: text → [`tree`] → [`fields`] → the caller's type.
//!
//! Invariants: every violation is found in one pass and named by the path of its field; no message
//! contains text that was a value in the document, because any of it could be a misplaced secret
//! (numbers and field names are shown).

mod error;
mod fields;
mod tree;

pub(crate) use error::{Problems, Read, Refused};
pub use error::{SettingsError, Violation};
pub(crate) use fields::Fields;
pub(crate) use tree::Node;

/// The largest document that is read: what a Kubernetes `ConfigMap` can hold.
pub const MAX_DOCUMENT_BYTES: usize = 1 << 20;

/// Reads one YAML document whose top level is a mapping.
pub(crate) fn read<T>(
    yaml: &str,
    reader: impl FnOnce(&mut Fields<'_>) -> Read<T>,
) -> Result<T, SettingsError> {
    read_below("", yaml, reader)
}

/// As [`read`], for the text of a mapping that stands at `path` of a larger document: errors name it so.
pub(crate) fn read_below<T>(
    path: &str,
    yaml: &str,
    reader: impl FnOnce(&mut Fields<'_>) -> Read<T>,
) -> Result<T, SettingsError> {
    let node = tree::parse(yaml).map_err(|error| error.below(path))?;
    let problems = Problems::default();
    let read = Fields::read(path.to_owned(), node, &problems, reader);
    problems.conclude(read)
}

#[cfg(test)]
mod tests;
