//! The live object: policy and routing table, followed in a file or through the Kubernetes API.
//!
//! ```text
//! file | object (get, watch) -> parse -> Publisher -> LiveState -> engine, /readyz, heartbeat
//!                                              '---> Routing   -> the same
//! ```
//! Invariants: the policy is `None` only until it was read well once; what is broken, missing or out of reach changes
//! nothing but the error that is shown; neither part holds up the other. Nobody who delivers waits for any of it.

mod api;
mod file;
mod lines;
mod object;
mod steps;

use std::sync::Arc;

use jevmetrics_api::live::LivePolicy;
use jevmetrics_api::settings::LiveSource;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::file::LiveFile;
pub use self::object::LiveObjectFollower;
use crate::routing::{Routing, Said};

/// What is known of the live object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LiveState {
    /// The last good policy. While there is none, everything is kept and no companions are written.
    pub policy: Option<Arc<LivePolicy>>,
    /// What is wrong with the file or object as it is now, with its name.
    pub error: Option<String>,
}

/// The live object of the settings, open for following.
pub enum Live {
    /// Read once already.
    File(LiveFile),
    /// Not read yet: the API server may be away, and nobody waits for it.
    Object(Box<LiveObjectFollower>),
}

impl Live {
    /// Opens what the settings name; `routing` is told of tables.
    pub fn open(source: &LiveSource, routing: Arc<Routing>) -> Self {
        match source {
            LiveSource::File(path) => Self::File(LiveFile::open(path.clone(), routing)),
            LiveSource::Object(object) => {
                Self::Object(Box::new(LiveObjectFollower::new(object.clone(), routing)))
            }
        }
    }

    /// The state now and its changes.
    pub fn subscribe(&self) -> watch::Receiver<LiveState> {
        match self {
            Self::File(file) => file.subscribe(),
            Self::Object(object) => object.subscribe(),
        }
    }

    /// Follows it until `stop`.
    pub async fn follow(self, stop: CancellationToken) {
        match self {
            Self::File(file) => file.follow(stop).await,
            Self::Object(object) => object.follow(stop).await,
        }
    }
}

/// What is wrong, and which lines of the log would say the same.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Problem {
    /// Equal kinds are one state: the words of a network error may change from try to try.
    kind: String,
    text: String,
}

impl Problem {
    /// Whose every text is a state of its own.
    fn of_content(text: String) -> Self {
        Self {
            kind: text.clone(),
            text,
        }
    }
}

/// What a reading changed, worth a line in the log.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    NewPolicy,
    ReadableAgain,
    Failed,
}

/// Tells subscribers and the log of changes.
#[derive(Debug)]
struct Publisher {
    /// "live file …" or "live object …".
    name: String,
    sender: watch::Sender<LiveState>,
    routing: Arc<Routing>,
    /// Kind of the problem that was logged last.
    logged: Option<String>,
}

impl Publisher {
    fn new(name: String, routing: Arc<Routing>) -> Self {
        Self {
            name,
            sender: watch::Sender::new(LiveState::default()),
            routing,
            logged: None,
        }
    }

    /// Passes on what the object, or its absence, says of the routing table.
    fn say(&self, said: Said) {
        self.routing.take_in(&self.name, said);
    }

    /// Takes over a good policy, if one was read, and what is wrong now.
    ///
    /// # Guarantees
    /// Subscribers hear of changes only; one log line per change of state.
    fn publish(&mut self, policy: Option<LivePolicy>, problem: Option<&Problem>) {
        let (next, change) = {
            let former = self.sender.borrow();
            after(&former, self.logged.as_deref(), policy, problem)
        };
        self.logged = problem.map(|problem| problem.kind.clone());
        self.log(&next, &change);
        if *self.sender.borrow() != next {
            self.sender.send_replace(next);
        }
    }

    fn log(&self, state: &LiveState, change: &Change) {
        let source = &self.name;
        match (change, &state.policy, &state.error) {
            (Change::NewPolicy, Some(policy), error) => tracing::info!(
                %source,
                mode = ?policy.mode(),
                keep_threshold_percent = policy.keep_threshold_percent(),
                drop_threshold_percent = policy.drop_threshold_percent(),
                protected_metrics = policy.protected_metrics().len(),
                protected_prefixes = policy.protected_prefixes().len(),
                error,
                "a new policy is in force"
            ),
            (Change::ReadableAgain, Some(_), _) => {
                tracing::info!(%source, "the live object is good again, the policy is unchanged");
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
}

/// The state after a reading: a failed one leaves the policy in force.
fn after(
    former: &LiveState,
    logged: Option<&str>,
    policy: Option<LivePolicy>,
    problem: Option<&Problem>,
) -> (LiveState, Change) {
    let is_new = policy.is_some() && policy.as_ref() != former.policy.as_deref();
    let change = match problem {
        _ if is_new => Change::NewPolicy,
        Some(problem) if logged != Some(problem.kind.as_str()) => Change::Failed,
        None if logged.is_some() => Change::ReadableAgain,
        _ => Change::Nothing,
    };
    let next = LiveState {
        policy: match policy {
            Some(policy) if is_new => Some(Arc::new(policy)),
            _ => former.policy.clone(),
        },
        error: problem.map(|problem| problem.text.clone()),
    };
    (next, change)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_change_of_state_is_news_once() {
        let policy = |mode: &str| LivePolicy::from_policy_yaml(&format!("schema: 1\nmode: {mode}\n")).ok();
        let content = |text: &str| Some(Problem::of_content(text.to_owned()));
        let away = |text: &str| {
            Some(Problem {
                kind: "away".to_owned(),
                text: text.to_owned(),
            })
        };
        let mut state = LiveState::default();
        let mut logged = None;
        for (read, problem, change) in [
            (None, content("not found"), Change::Failed),
            (None, content("not found"), Change::Nothing),
            (policy("Annotate"), None, Change::NewPolicy),
            (policy("Annotate"), None, Change::Nothing),
            (None, content("broken"), Change::Failed),
            (None, content("broken otherwise"), Change::Failed),
            (None, away("refused"), Change::Failed),
            (None, away("timed out"), Change::Nothing),
            (None, None, Change::ReadableAgain),
            (None, away("refused"), Change::Failed),
            (policy("Reduce"), away("refused"), Change::NewPolicy),
            (policy("Reduce"), None, Change::ReadableAgain),
        ] {
            let (next, seen) = after(&state, logged.as_deref(), read, problem.as_ref());
            assert_eq!(seen, change, "{next:?}");
            assert_eq!(next.error, problem.as_ref().map(|problem| problem.text.clone()));
            logged = problem.map(|problem| problem.kind);
            state = next;
        }
    }
}
