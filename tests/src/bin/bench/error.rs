//! What can keep a benchmark from being run.

use std::io;
use std::path::PathBuf;

use jevmetrics_api::SettingsError;
use jevmetrics_otlp::Malformed;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// Not a way to call this program.
    #[error("arguments {0:?} are not known: give none, or `instructions --rules N --iterations K`")]
    Arguments(String),
    /// Generated policies and requests are valid, unless the generator or the rules changed.
    #[error("the policy of the benchmark is refused: {0}")]
    Policy(#[from] SettingsError),
    /// As above.
    #[error("a request of the benchmark is refused: {0}")]
    Malformed(#[from] Malformed),
    /// As above.
    #[error("a request or an output of the benchmark cannot be decoded: {0}")]
    Decode(#[from] prost::DecodeError),
    /// What is measured must be what is claimed.
    #[error("the measurement would not show what it claims: {0}")]
    Claim(String),
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Valgrind ran and failed, or said something else than a count.
    #[error("valgrind gave no instruction count: {0}")]
    Valgrind(String),
}
