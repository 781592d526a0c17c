//! Where a secret is found. The secret itself is never in the settings.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::document::{Node, Problems, Read};

/// Where a secret is found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SecretSource {
    /// In a file of its own, an absolute path. It is read again when it changes.
    File(PathBuf),
    /// In an environment variable.
    Env(String),
}

impl fmt::Display for SecretSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(formatter, "secret file {}", path.display()),
            Self::Env(name) => write!(formatter, "secret environment variable {name}"),
        }
    }
}

impl SecretSource {
    /// Reads `{file: /path}` or `{env: NAME}`. Neither values nor names that were found are shown:
    /// this is where a secret gets pasted.
    pub(crate) fn read(problems: &Problems, path: &str, node: Node) -> Read<Self> {
        let refuse = || {
            problems.refuse(
                path,
                "must be {file: /path} or {env: NAME}, one of the two; a secret itself never stands in the settings",
            )
        };
        let Node::Mapping(entries) = node else {
            return Err(refuse());
        };
        let Ok([(name, Node::Text(text))]) = <[_; 1]>::try_from(entries) else {
            return Err(refuse());
        };
        match name.as_str() {
            "file" => absolute(&text)
                .map(Self::File)
                .map_err(|rule| problems.refuse(&format!("{path}.file"), rule)),
            "env" if is_variable_name(&text) => Ok(Self::Env(text)),
            "env" => Err(problems.refuse(
                &format!("{path}.env"),
                "must be the name of an environment variable: 1 to 255 characters of A-Z a-z 0-9 _, no digit first",
            )),
            _ => Err(refuse()),
        }
    }
}

/// An absolute path, or the rule that it breaks.
pub(crate) fn absolute(path: &str) -> Result<PathBuf, &'static str> {
    // 4,095 bytes is PATH_MAX of Linux without its final zero.
    if Path::new(path).is_absolute() && path.len() <= 4095 && !path.contains('\0') {
        return Ok(PathBuf::from(path));
    }
    Err("must be an absolute path of at most 4095 bytes")
}

fn is_variable_name(name: &str) -> bool {
    name.len() <= 255
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
