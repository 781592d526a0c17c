//! What the mock was asked: every request in order, without the key, and counters.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;
use serde_json::Value;

/// What the `authorization` header said. The key itself is never recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authorization {
    /// No header, or not `Bearer`.
    Missing,
    /// Another key.
    Wrong,
    /// The key.
    Right,
}

/// One request for an evaluation.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// When it had arrived completely.
    pub at: Instant,
    /// Whether the key was right.
    pub authorization: Authorization,
    /// All headers but `authorization`, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; `None` if it was not JSON.
    pub body: Option<Value>,
    /// The metric asked about, if its name was found.
    pub metric: Option<String>,
    /// What is wrong with the request: the body of the answer it would get. Also filled when a script
    /// decided the answer.
    pub rejection: Option<Value>,
}

/// Totals since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Requests for evaluations that arrived.
    pub received: u64,
    /// Answers by status; what got none (closed, silent) is missing here.
    pub by_status: BTreeMap<u16, u64>,
    /// Tokens of evaluations answered well.
    pub input_tokens: u64,
    /// Requests being worked on.
    pub in_flight: usize,
    /// The most that were worked on at once.
    pub most_in_flight: usize,
}

#[derive(Debug, Default)]
pub(super) struct Journal {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<Recorded>,
    counters: Counters,
}

/// Counts a request as in flight until dropped, also when the client goes away.
pub(super) struct InFlight<'a>(&'a Journal);

impl Journal {
    pub(super) fn arrived(&self, request: Recorded) -> InFlight<'_> {
        self.with(|state| {
            state.requests.push(request);
            let counters = &mut state.counters;
            counters.received += 1;
            counters.in_flight += 1;
            counters.most_in_flight = counters.most_in_flight.max(counters.in_flight);
        });
        InFlight(self)
    }

    pub(super) fn answered(&self, status: u16) {
        self.with(|state| *state.counters.by_status.entry(status).or_default() += 1);
    }

    pub(super) fn spent(&self, tokens: u64) {
        self.with(|state| state.counters.input_tokens += tokens);
    }

    pub(super) fn requests(&self) -> Vec<Recorded> {
        self.with(|state| state.requests.clone())
    }

    pub(super) fn counters(&self) -> Counters {
        self.with(|state| state.counters.clone())
    }

    pub(super) fn forget(&self) {
        self.with(|state| state.requests.clear());
    }

    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.with(|state| state.counters.in_flight -= 1);
    }
}
