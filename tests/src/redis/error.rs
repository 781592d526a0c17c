//! What can go wrong with a Redis of tests.

use std::io;

use crate::certificates::CertificateError;
use crate::poll::TimedOut;

/// Why there is no Redis, or no answer from it.
#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    /// The program is not there.
    #[error("no redis-server: install Debian's package of that name, or name a server in {variable}: {source}", variable = super::ADDRESS_VARIABLE)]
    NoProgram {
        /// What the system says.
        source: io::Error,
    },
    /// A file, a port or the process could not be handled.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It ended, or was never up.
    #[error("redis-server is not up: {source}; it printed:\n{printed}")]
    NotUp {
        /// What was waited for.
        source: TimedOut,
        /// What it printed.
        printed: String,
    },
    /// It refused a command, or did not answer.
    #[error("redis: {0}")]
    Refused(#[from] redis::RedisError),
    /// No certificate for TLS.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// `MONITOR` was refused.
    #[error("redis does not let itself be watched: {0}")]
    Unwatchable(String),
    /// What it has run can no more be told.
    #[error("the watch has ended with the server")]
    WatchEnded,
    /// What should have come has not.
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
    /// The variable that names a server does not.
    #[error("{variable} must be HOST:PORT, is {0:?}", variable = super::ADDRESS_VARIABLE)]
    Address(String),
    /// Not with a server that was there before.
    #[error("this is only done to a server of the test's own")]
    NotOwn,
}
