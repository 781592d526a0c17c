//! Why the process does not start, or does not end well: each names the setting, the file or the port.

use std::io;

use jevmetrics_api::SettingsError;

use crate::export_headers::HeaderError;
use crate::receive::serve::BindError;
use crate::tls::TlsError;

/// Why the process does not start, or does not end well.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings file cannot be read.
    #[error("settings file {path}: {source}")]
    ReadSettings {
        /// Its path.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// The settings file says something that must not be.
    #[error("settings file {path}: {source}")]
    Settings {
        /// Its path.
        path: String,
        /// What, and where.
        source: SettingsError,
    },
    /// The operating system gives no randomness.
    #[error("no randomness from the operating system: {0}")]
    Randomness(getrandom::Error),
    /// A port cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A header of exports cannot be used.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// Files of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Exports cannot be set up.
    #[error("export.endpoint: {0}")]
    Export(String),
    /// Asking cannot be set up.
    #[error("inference.baseURL: {0}")]
    Inference(#[from] crate::infer::client::ClientError),
    /// Sharing cannot be set up.
    #[error("coordination: {0}")]
    Coordination(String),
    /// A second signal came before everything was finished.
    #[error("second signal: stopped at once, what was not finished was abandoned")]
    Aborted,
    /// The runtime or its signals cannot be set up.
    #[error("cannot start the runtime: {0}")]
    Runtime(io::Error),
}
