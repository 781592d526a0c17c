//! What can go wrong with a data plane as a child.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use super::prepare::{BINARY, BINARY_VARIABLE};

/// Why there is no running data plane, or no answer from it.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// No binary.
    #[error("no binary {BINARY} at {looked:?}: build it, or name it in {BINARY_VARIABLE}")]
    NoBinary {
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// A file or the process could not be handled.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// A settings file could not be written as YAML.
    #[error("settings cannot be written as YAML: {0}")]
    Yaml(#[from] serde_yaml::Error),
    /// It ended before it was ready.
    #[error("data plane ended with {status} before it was ready; it printed:\n{printed}")]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// What it printed.
        printed: String,
    },
    /// It runs but is not ready.
    #[error("data plane was not ready within {within:?}; it printed:\n{printed}")]
    NotReady {
        /// How long it had.
        within: Duration,
        /// What it printed.
        printed: String,
    },
    /// It did not end.
    #[error("data plane did not end within {0:?}")]
    StillRunning(Duration),
    /// No answer from its metrics port.
    #[error("data plane did not answer: {0}")]
    Http(#[from] reqwest::Error),
    /// No heartbeat from its peer port.
    #[error(transparent)]
    Peer(#[from] crate::peer::AskError),
}

pub(super) fn io_error(what: &'static str) -> impl Fn(io::Error) -> ProcessError {
    move |source| ProcessError::Io { what, source }
}
