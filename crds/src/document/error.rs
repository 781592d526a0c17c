//! What can be wrong with a document, and the proof that it was said.

use std::cell::RefCell;
use std::fmt;

use super::MAX_DOCUMENT_BYTES;

/// What is wrong with a settings file or a live object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Longer than [`MAX_DOCUMENT_BYTES`].
    #[error("the document has {bytes} bytes, must have at most {MAX_DOCUMENT_BYTES}")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// Not YAML.
    #[error("not readable as YAML: {0}")]
    Syntax(String),
    /// YAML that goes beyond text, numbers, lists and mappings.
    #[error(
        "{path} (line {line}): must be plain YAML: text, numbers, lists, and mappings with text as keys; no tags"
    )]
    NotPlain {
        /// Where it stands.
        path: String,
        /// The line, counted from 1.
        line: usize,
    },
    /// More values or text than a document needs; aliases can multiply a short one without end.
    #[error(
        "holds too much, aliases written out: must have at most {values} values and {bytes} bytes of text"
    )]
    Expands {
        /// Most values.
        values: usize,
        /// Most bytes of text.
        bytes: usize,
    },
    /// YAML, but fields break their rules: all of them, in the order of reading.
    #[error("{}", listed(.0))]
    Invalid(Vec<Violation>),
}

impl SettingsError {
    /// The error of a text that stands at `path` of a larger document; empty for the whole document.
    pub(super) fn below(self, path: &str) -> Self {
        match self {
            Self::NotPlain { path: inner, line } if !path.is_empty() => Self::NotPlain {
                path: match inner.as_str() {
                    WHOLE => path.to_owned(),
                    inner if inner.starts_with('[') => format!("{path}{inner}"),
                    inner => format!("{path}.{inner}"),
                },
                line,
            },
            other => other,
        }
    }
}

/// How the top level of a document is named.
pub(super) const WHOLE: &str = "document";

/// One field that breaks its rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    path: String,
    rule: String,
}

impl Violation {
    /// The field, for example `export.headers[1].name`; `document` for the top level.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What must hold.
    pub fn rule(&self) -> &str {
        &self.rule
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.rule)
    }
}

/// Violations written out; a log line must stay readable.
const MOST_LISTED: usize = 10;

fn listed(violations: &[Violation]) -> String {
    let mut parts: Vec<String> = violations
        .iter()
        .take(MOST_LISTED)
        .map(Violation::to_string)
        .collect();
    if violations.len() > MOST_LISTED {
        parts.push(format!("and {} more", violations.len() - MOST_LISTED));
    }
    parts.join("; ")
}

/// A value, or the proof that a violation was noted in its place.
pub(crate) type Read<T> = Result<T, Refused>;

/// Only [`Problems::refuse`] makes one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refused(());

/// The violations found so far in one document.
#[derive(Debug, Default)]
pub(crate) struct Problems(RefCell<Vec<Violation>>);

impl Problems {
    /// Notes that the field at `path` breaks `rule`.
    pub(crate) fn refuse(&self, path: &str, rule: impl Into<String>) -> Refused {
        let path = if path.is_empty() { WHOLE } else { path };
        self.0.borrow_mut().push(Violation {
            path: path.to_owned(),
            rule: rule.into(),
        });
        Refused(())
    }

    /// The value, if nothing at all was noted.
    pub(crate) fn conclude<T>(self, read: Read<T>) -> Result<T, SettingsError> {
        let violations = self.0.into_inner();
        match read {
            Ok(value) if violations.is_empty() => Ok(value),
            Ok(_) | Err(Refused(())) => Err(SettingsError::Invalid(violations)),
        }
    }
}

/// A name as it may be shown: whatever does not look like a field name is not echoed.
pub(crate) fn shown_name(name: &str) -> &str {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !name.is_empty() && name.len() <= 40 && name.bytes().all(plain) {
        name
    } else {
        "(an odd name)"
    }
}
