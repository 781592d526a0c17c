//! The live file, read again when it changes.
//!
//! A file half written at the very start can be taken for whole, but then there are no assessments yet, and without them
//! everything is kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jevmetrics_api::live::LivePolicy;
use jevmetrics_api::routing::RoutingTable;
use jevmetrics_api::{MAX_DOCUMENT_BYTES, SettingsError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{LiveState, Problem, Publisher};
use crate::follow::{Follower, POLL, ReadError, read_file};
use crate::routing::{Routing, Said};

type Reading = Result<Vec<u8>, ReadError>;
/// Policy, or what is wrong with it, and what is said of the table: each holds by itself.
type Parsed = (Result<LivePolicy, String>, Said);

/// The live file, open for following.
#[derive(Debug)]
pub struct LiveFile {
    path: PathBuf,
    reading: Reading,
    publisher: Publisher,
}

impl LiveFile {
    /// Reads the file for the first time, before it returns. A failure is logged and shown in the
    /// state; it ends when [`Self::follow`] finds good content.
    pub fn open(path: PathBuf, routing: Arc<Routing>) -> Self {
        let reading = read_file(&path, MAX_DOCUMENT_BYTES);
        let mut file = Self {
            publisher: Publisher::new(format!("live file {}", path.display()), routing),
            path,
            reading,
        };
        file.take_over(parse(&file.path, &file.reading));
        file
    }

    /// The state now and its changes.
    pub fn subscribe(&self) -> watch::Receiver<LiveState> {
        self.publisher.sender.subscribe()
    }

    /// Looks at the file every second until `stop`.
    ///
    /// # Guarantees
    /// Subscribers hear of changes only; one log line per change of state.
    pub async fn follow(self, stop: CancellationToken) {
        self.follow_every(POLL, stop).await;
    }

    async fn follow_every(mut self, poll: Duration, stop: CancellationToken) {
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

    fn take_over(&mut self, (policy, routing): Parsed) {
        self.publisher.say(routing);
        match policy {
            Ok(policy) => self.publisher.publish(Some(policy), None),
            Err(text) => self.publisher.publish(None, Some(&Problem::of_content(text))),
        }
    }
}

fn parse(path: &Path, reading: &Reading) -> Parsed {
    let named = |problem: &dyn std::fmt::Display| format!("live file {}: {problem}", path.display());
    let text = match reading.as_deref().map(std::str::from_utf8) {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => return (Err(named(&format_args!("must be UTF-8: {error}"))), Said::Nothing),
        Err(error) => return (Err(named(error)), Said::Nothing),
    };
    let policy = LivePolicy::from_yaml(text).map_err(|error| named(&error));
    let routing = match RoutingTable::from_yaml(text) {
        Ok(Some(table)) => Said::Table(table),
        Err(error) => broken(error).map_or(Said::Nothing, Said::Broken),
        Ok(None) => Said::Nothing,
    };
    (policy, routing)
}

/// What is wrong with the table. What is wrong with the rest of the document, or with all of it, is said once, of the policy.
fn broken(error: SettingsError) -> Option<String> {
    let SettingsError::Invalid(mut violations) = error else {
        return None;
    };
    let is_of_the_table = |path: &str| {
        let below = path.strip_prefix("routing");
        below.is_some_and(|below| below.is_empty() || below.starts_with(['.', '[']))
    };
    violations.retain(|violation| is_of_the_table(violation.path()));
    (!violations.is_empty()).then(|| SettingsError::Invalid(violations).to_string())
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
