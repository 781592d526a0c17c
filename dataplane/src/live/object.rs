//! Follows the live `ConfigMap` through the Kubernetes API: the shell around [`super::steps`] and [`super::api`].
//!
//! Invariants: one task, which nobody waits for; every call has a deadline; a client that could not reach the server
//! is made anew, so that a token, a CA or a KUBECONFIG that comes later is used.

use std::sync::Arc;

use jevmetrics_api::live::LivePolicy;
use jevmetrics_api::routing::RoutingTable;
use jevmetrics_api::settings::LiveObject;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::api::{Api, ApiError, ConfigMap, Event};
use super::steps::{Call, Outcome, Step, Steps, View};
use super::{LiveState, Problem, Publisher};
use crate::routing::{Routing, Said};

/// The live `ConfigMap`, not asked for yet.
pub struct LiveObjectFollower {
    object: LiveObject,
    api: Option<Api>,
    view: View,
    publisher: Publisher,
}

impl LiveObjectFollower {
    /// Knows nothing until [`Self::follow`] runs.
    pub fn new(object: LiveObject, routing: Arc<Routing>) -> Self {
        Self {
            publisher: Publisher::new(object.to_string(), routing),
            object,
            api: None,
            view: View::default(),
        }
    }

    /// The state now and its changes.
    pub fn subscribe(&self) -> watch::Receiver<LiveState> {
        self.publisher.sender.subscribe()
    }

    /// Gets and watches the object until `stop`.
    ///
    /// # Guarantees
    /// Subscribers hear of changes only; one log line per change of state.
    pub async fn follow(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.run()).await;
    }

    async fn run(mut self) {
        let mut steps = Steps::default();
        let mut step = Step::Get;
        loop {
            let outcome = match step {
                Step::Wait(time) => {
                    tokio::time::sleep(time).await;
                    Outcome::Waited
                }
                Step::Get => self.get().await,
                Step::Watch { version } => self.watch(&version).await,
            };
            step = steps.next(outcome, getrandom::u32().unwrap_or(u32::MAX / 2));
        }
    }

    async fn get(&mut self) -> Outcome {
        let got = match &self.api {
            Some(api) => api.get().await,
            None => match Api::connect(self.object.clone()).await {
                Ok(api) => self.api.insert(api).get().await,
                Err(error) => Err(error),
            },
        };
        match got {
            Ok((map, version)) => {
                self.seen(map).await;
                Outcome::Read { version }
            }
            Err(error) => {
                self.fails(Call::Get, &error);
                Outcome::NotRead
            }
        }
    }

    async fn watch(&mut self, version: &str) -> Outcome {
        let opened = match &self.api {
            Some(api) => api.watch(version).await,
            None => return Outcome::NotRead,
        };
        let mut watch = match opened {
            Ok(watch) => watch,
            Err(error) => {
                self.fails(Call::Watch, &error);
                return Outcome::NotRead;
            }
        };
        self.view.works(Call::Watch);
        self.publisher.publish(None, self.view.problem());
        let mut delivered = false;
        loop {
            match watch.next().await {
                Ok(Some(event)) => {
                    delivered = true;
                    match event {
                        Event::Changed(map) => self.seen(map).await,
                        Event::Deleted => self.missing(),
                        Event::Bookmark => {}
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    self.fails(Call::Watch, &error);
                    break;
                }
            }
        }
        let lived = watch.lived();
        Outcome::WatchEnded { lived, delivered }
    }

    async fn seen(&mut self, map: ConfigMap) {
        // A large document takes milliseconds to parse: not on a thread that serves requests.
        let parsed = tokio::task::spawn_blocking(move || parse(map)).await;
        // Else the runtime ends.
        if let Ok((policy, routing)) = parsed {
            self.publisher.say(routing);
            match policy {
                Ok(policy) => self.publish(Some(policy), None),
                Err(problem) => {
                    let problem = self.named(&problem);
                    self.publish(None, Some(problem));
                }
            }
        }
    }

    fn missing(&mut self) {
        self.publisher.say(Said::Nothing);
        let problem = self.named(&ApiError::NotFound.to_string());
        self.publish(None, Some(problem));
    }

    fn publish(&mut self, policy: Option<LivePolicy>, problem: Option<Problem>) {
        self.view.seen(problem);
        self.publisher.publish(policy, self.view.problem());
    }

    fn fails(&mut self, call: Call, error: &ApiError) {
        match error {
            // The next get begins anew; nothing is wrong.
            ApiError::Gone => return,
            ApiError::NotFound if call == Call::Get => return self.missing(),
            ApiError::NotFound | ApiError::Malformed(_) => {}
            ApiError::Configuration(_)
            | ApiError::Unusable(_)
            | ApiError::Unreachable(_)
            | ApiError::Silent
            | ApiError::Refused(_) => {
                self.api = None;
            }
        }
        let problem = Problem {
            kind: error.kind(),
            text: format!("{}: {error}", self.object),
        };
        self.view.fails(call, problem);
        self.publisher.publish(None, self.view.problem());
    }

    fn named(&self, problem: &str) -> Problem {
        Problem::of_content(format!("{}: {problem}", self.object))
    }
}

/// Policy and table: each holds by itself.
fn parse(map: ConfigMap) -> (Result<LivePolicy, String>, Said) {
    let (policy, routing) = map.into_parts();
    let policy = match policy {
        None => Err("data.policy: must be given".to_owned()),
        Some(text) => LivePolicy::from_policy_yaml(&text).map_err(|error| error.to_string()),
    };
    let routing = match routing.map(|text| RoutingTable::from_routing_yaml(&text)) {
        None => Said::Nothing,
        Some(Ok(table)) => Said::Table(table),
        Some(Err(error)) => Said::Broken(error.to_string()),
    };
    (policy, routing)
}
