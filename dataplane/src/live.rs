//! The live file: the policy in force, read again when the file changes.
//!
//! Invariants: the policy is `None` only until the file was read well once; broken, unreadable or
//! missing content changes nothing but the error that is shown. A file half written at the very start
//! can be taken for whole, but then there are no assessments yet, and without them everything is kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jevmetrics_api::MAX_DOCUMENT_BYTES;
use jevmetrics_api::live::LivePolicy;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::follow::{Follower, POLL, ReadError, read_file};

/// What is known of the live object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LiveState {
    /// The last good policy. While there is none, everything is kept and no companions are written.
    pub policy: Option<Arc<LivePolicy>>,
    /// What is wrong with the file as it is now, with its path.
    pub error: Option<String>,
}

/// What a reading changed, worth a line in the log.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    NewPolicy,
    ReadableAgain,
    Failed,
}

type Reading = Result<Vec<u8>, ReadError>;

/// The live file, open for following.
#[derive(Debug)]
pub struct LiveFile {
    path: PathBuf,
    reading: Reading,
    sender: watch::Sender<LiveState>,
}

impl LiveFile {
    /// Reads the file for the first time, before it returns. A failure is logged and shown in the
    /// state; it ends when [`Self::follow`] finds good content.
    pub fn open(path: PathBuf) -> Self {
        let reading = read_file(&path, MAX_DOCUMENT_BYTES);
        let file = Self {
            path,
            reading,
            sender: watch::Sender::new(LiveState::default()),
        };
        file.take_over(parse(&file.path, &file.reading));
        file
    }

    /// The state now and its changes.
    pub fn subscribe(&self) -> watch::Receiver<LiveState> {
        self.sender.subscribe()
    }

    /// Looks at the file every second until `stop`.
    ///
    /// # Guarantees
    /// Subscribers hear of changes only; one log line per change of state.
    pub async fn follow(self, stop: CancellationToken) {
        self.follow_every(POLL, stop).await;
    }

    async fn follow_every(self, poll: Duration, stop: CancellationToken) {
        let path = self.path.clone();
        let read = move || read_file(&path, MAX_DOCUMENT_BYTES);
        let mut follower = Follower::new(self.reading.clone(), read, poll, stop);
        while let Some(reading) = follower.changed().await {
            let (path, reading) = (self.path.clone(), reading.clone());
            // A large document takes milliseconds to parse: not on a thread that serves requests.
            let Ok(parsed) = tokio::task::spawn_blocking(move || parse(&path, &reading)).await else {
                return;
            };
            self.take_over(parsed);
        }
    }

    fn take_over(&self, parsed: Result<LivePolicy, String>) {
        let (next, change) = self.sender.borrow().after(parsed);
        if change != Change::Nothing {
            self.sender.send_replace(next.clone());
            log(&self.path, &next, &change);
        }
    }
}

impl LiveState {
    /// The state after a reading: a failed one leaves the policy in force.
    fn after(&self, parsed: Result<LivePolicy, String>) -> (Self, Change) {
        match parsed {
            Ok(policy) => {
                let change = if self.policy.as_deref() != Some(&policy) {
                    Change::NewPolicy
                } else if self.error.is_some() {
                    Change::ReadableAgain
                } else {
                    Change::Nothing
                };
                (
                    Self {
                        policy: Some(Arc::new(policy)),
                        error: None,
                    },
                    change,
                )
            }
            Err(error) => {
                let change = if self.error.as_ref() == Some(&error) {
                    Change::Nothing
                } else {
                    Change::Failed
                };
                (
                    Self {
                        policy: self.policy.clone(),
                        error: Some(error),
                    },
                    change,
                )
            }
        }
    }
}

fn parse(path: &Path, reading: &Reading) -> Result<LivePolicy, String> {
    let named = |problem: &dyn std::fmt::Display| format!("live file {}: {problem}", path.display());
    let bytes = reading.as_ref().map_err(|error| named(error))?;
    let text = std::str::from_utf8(bytes).map_err(|error| named(&format_args!("must be UTF-8: {error}")))?;
    LivePolicy::from_yaml(text).map_err(|error| named(&error))
}

fn log(path: &Path, state: &LiveState, change: &Change) {
    let path = path.display();
    match (change, &state.policy, &state.error) {
        (Change::NewPolicy, Some(policy), _) => tracing::info!(
            %path,
            mode = ?policy.mode(),
            keep_threshold_percent = policy.keep_threshold_percent(),
            drop_threshold_percent = policy.drop_threshold_percent(),
            protected_metrics = policy.protected_metrics().len(),
            protected_prefixes = policy.protected_prefixes().len(),
            "a new policy is in force"
        ),
        (Change::ReadableAgain, ..) => {
            tracing::info!(%path, "the live file is good again, the policy is unchanged");
        }
        (Change::Failed, Some(_), Some(error)) => {
            tracing::warn!(%error, "the last good policy stays in force");
        }
        (Change::Failed, None, Some(error)) => {
            tracing::warn!(%error, "there is no policy yet: everything is kept, no companions are written");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
