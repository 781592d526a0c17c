//! Where the live object is found: a file, or a `ConfigMap` read through the Kubernetes API.

use std::fmt;
use std::path::PathBuf;

use super::secret::absolute;
use crate::document::{Fields, Read};

/// Where the live object is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveSource {
    /// A file, an absolute path: a mapping with the key `policy`.
    File(PathBuf),
    /// A `ConfigMap` whose `data.policy` is the text of what stands under `policy` in the file.
    Object(LiveObject),
}

/// Names one `ConfigMap`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveObject {
    namespace: String,
    name: String,
}

impl LiveSource {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Read<Self> {
        let file = fields.text("file");
        let object = fields.optional_section("object", LiveObject::read);
        match (file?, object?) {
            (Some(path), None) => match absolute(&path) {
                Ok(path) => Ok(Self::File(path)),
                Err(rule) => Err(fields.refuse("file", rule)),
            },
            (None, Some(object)) => Ok(Self::Object(object)),
            (None, None) => Err(fields.refuse("file", "must be given, or else live.object")),
            (Some(_), Some(_)) => Err(fields.refuse("object", "must not be given beside live.file")),
        }
    }
}

impl LiveObject {
    fn read(fields: &mut Fields<'_>) -> Read<Self> {
        let namespace = fields.required_text("namespace").and_then(|namespace| {
            if namespace.len() <= 63 && is_label(&namespace) {
                return Ok(namespace);
            }
            let rule =
                "must be the name of a namespace: 1 to 63 of a-z 0-9 -, a letter or digit at both ends";
            Err(fields.refuse("namespace", rule))
        });
        let name = fields.required_text("name").and_then(|name| {
            if name.len() <= 253 && name.split('.').all(is_label) {
                return Ok(name);
            }
            let rule =
                "must be the name of a ConfigMap: 1 to 253 of a-z 0-9 - ., a letter or digit at both ends";
            Err(fields.refuse("name", rule))
        });
        Ok(Self {
            namespace: namespace?,
            name: name?,
        })
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for LiveObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "live object {}/{}", self.namespace, self.name)
    }
}

/// What Kubernetes takes between two dots of a name. Such a text is safe in a path, a selector and a log line.
pub(super) fn is_label(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inside) && !text.starts_with('-') && !text.ends_with('-')
}
