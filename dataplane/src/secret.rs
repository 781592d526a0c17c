//! Secrets: read from where the settings say, read again when their file changes, never shown.
//!
//! Invariants: no error, log line or `Debug` holds a value; a value that was good once stays in use
//! until another good one is read.

use std::env;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jevmetrics_api::settings::SecretSource;
use tokio_util::sync::CancellationToken;

pub use crate::follow::ReadError;
use crate::follow::{Follower, POLL, read_file};

/// Longest secret.
const MAX_BYTES: usize = 64 * 1024;

/// A secret: 1 byte to 64 KiB of printable ASCII, fit for an HTTP header and gRPC metadata.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Reads the secret now.
    ///
    /// # Errors
    /// Unreadable, or not a secret as defined above. The error names the source and what must hold.
    pub fn read(source: &SecretSource) -> Result<Self, SecretError> {
        let read = match source {
            // Room for line breaks at the end.
            SecretSource::File(path) => read_file(path, MAX_BYTES + 16).map_err(SecretProblem::Unreadable),
            SecretSource::Env(name) => env::var_os(name)
                .map(std::ffi::OsString::into_encoded_bytes)
                .ok_or(SecretProblem::NotSet),
        };
        read.and_then(Self::from_bytes).map_err(|problem| SecretError {
            place: source.clone(),
            problem,
        })
    }

    fn from_bytes(bytes: Vec<u8>) -> Result<Self, SecretProblem> {
        // The bytes are dropped with the error: `FromUtf8Error` would hold them.
        let text = String::from_utf8(bytes).map_err(|_| SecretProblem::NotPrintable)?;
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            return Err(SecretProblem::Empty);
        }
        if text.len() > MAX_BYTES {
            return Err(SecretProblem::TooLong);
        }
        if !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(SecretProblem::NotPrintable);
        }
        if text.starts_with(' ') || text.ends_with(' ') {
            return Err(SecretProblem::OuterSpace);
        }
        Ok(Self(text.into()))
    }

    /// The value. For headers only: mark them as sensitive.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(hidden)")
    }
}

/// A secret that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct SecretError {
    place: SecretSource,
    problem: SecretProblem,
}

impl SecretError {
    /// Where the secret was looked for.
    pub fn place(&self) -> &SecretSource {
        &self.place
    }

    /// What is wrong with it.
    pub fn problem(&self) -> &SecretProblem {
        &self.problem
    }
}

/// What is wrong with a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretProblem {
    /// The file could not be read.
    #[error(transparent)]
    Unreadable(ReadError),
    /// The environment variable is not set.
    #[error("not set")]
    NotSet,
    /// Nothing in it.
    #[error("must not be empty")]
    Empty,
    /// Longer than 64 KiB.
    #[error("must have at most {MAX_BYTES} bytes")]
    TooLong,
    /// Not fit for a header.
    #[error("must be printable ASCII in one line")]
    NotPrintable,
    /// Would lose its ends in a header.
    #[error("must not begin or end with a space")]
    OuterSpace,
}

type Reading = Result<Arc<Secret>, SecretError>;

/// What is in use, and the last reading.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Current {
    value: Option<Arc<Secret>>,
    reading: Reading,
}

/// What a reading changed, worth a line in the log.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    NewValue,
    ReadableAgain,
    Failed,
}

impl Current {
    fn first(reading: Reading) -> Self {
        Self {
            value: reading.as_ref().ok().cloned(),
            reading,
        }
    }

    /// The state after `reading`: a failed one leaves the value in use.
    fn after(&self, reading: &Reading) -> (Self, Change) {
        let value = reading.as_ref().ok().or(self.value.as_ref()).cloned();
        let change = match reading {
            _ if *reading == self.reading => Change::Nothing,
            Ok(_) if value == self.value => Change::ReadableAgain,
            Ok(_) => Change::NewValue,
            Err(_) => Change::Failed,
        };
        (
            Self {
                value,
                reading: reading.clone(),
            },
            change,
        )
    }
}

/// A secret in use that follows its file.
#[derive(Debug)]
pub struct WatchedSecret {
    source: SecretSource,
    current: ArcSwap<Current>,
}

impl WatchedSecret {
    /// Reads a secret without which the process cannot work.
    ///
    /// # Errors
    /// As [`Secret::read`].
    pub fn load_required(source: SecretSource) -> Result<Self, SecretError> {
        let secret = Secret::read(&source)?;
        Ok(Self {
            source,
            current: ArcSwap::from_pointee(Current::first(Ok(Arc::new(secret)))),
        })
    }

    /// Reads a secret that may come later. A failure is logged, shown by [`Self::problem`], and ends
    /// when [`Self::follow`] finds the secret.
    pub fn load(source: SecretSource) -> Self {
        let reading = Secret::read(&source).map(Arc::new);
        if let Err(error) = &reading {
            tracing::warn!(%error, "there is no secret to use");
        }
        Self {
            source,
            current: ArcSwap::from_pointee(Current::first(reading)),
        }
    }

    /// The last good value, if there was one.
    pub fn get(&self) -> Option<Arc<Secret>> {
        self.current.load().value.clone()
    }

    /// What was wrong with the last reading, for people to read; a value may be in use all the same.
    pub fn problem(&self) -> Option<String> {
        self.current
            .load()
            .reading
            .as_ref()
            .err()
            .map(SecretError::to_string)
    }

    /// Looks at the file every second until `stop`; returns at once for an environment variable,
    /// which cannot change.
    ///
    /// # Guarantees
    /// One log line per change of state.
    pub async fn follow(&self, stop: CancellationToken) {
        self.follow_every(POLL, stop).await;
    }

    async fn follow_every(&self, poll: Duration, stop: CancellationToken) {
        if let SecretSource::Env(_) = self.source {
            // The environment of a process does not change.
            return stop.cancelled().await;
        }
        let source = self.source.clone();
        let read = move || Secret::read(&source).map(Arc::new);
        let known = self.current.load().reading.clone();
        let mut follower = Follower::new(known, read, poll, stop);
        while let Some(reading) = follower.changed().await {
            self.take_over(reading);
        }
    }

    fn take_over(&self, reading: &Reading) {
        let (next, change) = self.current.load().after(reading);
        let source = &self.source;
        match (&change, reading) {
            (Change::Failed, Err(error)) if next.value.is_some() => {
                tracing::warn!(%error, "the last good secret stays in use");
            }
            (Change::Failed, Err(error)) => tracing::warn!(%error, "there is no secret to use"),
            (Change::NewValue, _) => tracing::info!(%source, "a new secret is in use"),
            (Change::ReadableAgain, _) => {
                tracing::info!(%source, "the secret is readable again and unchanged");
            }
            (Change::Nothing | Change::Failed, _) => {}
        }
        self.current.store(Arc::new(next));
    }
}

#[cfg(test)]
mod tests;
