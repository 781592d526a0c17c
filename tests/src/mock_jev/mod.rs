//! A mock of `TypeSafe`'s System One API: judges metrics by name, checks requests as strictly as the real one,
//! and can be told to fail in every way that has been seen.
//!
//! ```text
//! POST {prefix}/v1/systemone ─▶ key ─▶ journal ─▶ script ─▶ Answer: check ─▶ judge ─▶ 200
//!                                                   └─────▶ anything else that was scripted
//! ```
//!
//! Invariants: every reply carries `x-typesafe-request-id`; the key is never recorded; with the standing
//! behaviour [`Behaviour::Answer`] the same request gets the same answers.

mod answer;
mod behaviour;
mod distort;
mod journal;
mod judge;
mod question;
mod request;
mod serve;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use crate::listener::Listener;
use crate::ports::LOOPBACK;
use crate::script::Script;

pub use behaviour::{Behaviour, Distortion, Reply, RetryHint};
use journal::Journal;
pub use journal::{Authorization, Counters, Recorded};
pub use judge::{Action, DOUBT_MARKER, DROP_MARKERS, Judge, Opinion};

/// The key that is right by default.
pub const KEY: &str = "test-key";

/// How to set up a mock.
#[derive(Debug, Clone)]
pub struct Options {
    /// Path before `/v1/…`: empty, or starting with a slash and not ending in one.
    pub prefix: String,
    /// The right key.
    pub key: String,
    /// Model names that are accepted, and the versioned id that answers.
    pub models: BTreeMap<String, String>,
    /// Where it listens; port 0 for a free one.
    pub listen: SocketAddr,
}

impl Default for Options {
    fn default() -> Self {
        let models = [
            ("jev-latest", "jev-1.13.0"),
            ("jev-preview", "jev-1.13.0"),
            ("jev-1.13", "jev-1.13.0"),
            ("jev-1.12.0", "jev-1.12.0"),
            ("jev-1.13.0", "jev-1.13.0"),
            ("jev-1.14.0", "jev-1.14.0"),
        ];
        let models = models
            .iter()
            .map(|(name, id)| ((*name).to_owned(), (*id).to_owned()))
            .collect();
        Self {
            prefix: String::new(),
            key: KEY.to_owned(),
            models,
            listen: LOOPBACK,
        }
    }
}

/// A running mock. Dropping it stops it.
#[derive(Debug)]
pub struct MockJev {
    shared: Arc<Shared>,
    listener: Listener,
}

#[derive(Debug)]
struct Shared {
    prefix: String,
    key: Mutex<String>,
    models: Mutex<BTreeMap<String, String>>,
    judge: Judge,
    script: Script<Behaviour>,
    journal: Journal,
    request_ids: AtomicU64,
}

impl MockJev {
    /// With default options.
    ///
    /// # Errors
    /// No port could be bound.
    pub async fn start() -> io::Result<Self> {
        Self::start_with(Options::default()).await
    }

    /// With these options.
    ///
    /// # Errors
    /// The port could not be bound.
    pub async fn start_with(options: Options) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            prefix: options.prefix,
            key: Mutex::new(options.key),
            models: Mutex::new(options.models),
            judge: Judge::default(),
            script: Script::new(Behaviour::Answer),
            journal: Journal::default(),
            request_ids: AtomicU64::new(1),
        });
        let listener = Listener::start(serve::router(&shared), options.listen).await?;
        Ok(Self { shared, listener })
    }

    /// What a client is configured with: scheme, address and prefix.
    pub fn base_url(&self) -> String {
        format!("http://{}{}", self.address(), self.shared.prefix)
    }

    /// Where it listens, also while stopped.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Its opinions.
    pub fn judge(&self) -> &Judge {
        &self.shared.judge
    }

    /// What it does next.
    pub fn script(&self) -> &Script<Behaviour> {
        &self.shared.script
    }

    /// All requests for evaluations so far, in order of arrival, whatever became of them.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.journal.requests()
    }

    /// Forgets the recorded requests; the counters stay.
    pub fn forget_requests(&self) {
        self.shared.journal.forget();
    }

    /// Totals so far.
    pub fn counters(&self) -> Counters {
        self.shared.journal.counters()
    }

    /// From now on another key is right.
    pub fn set_key(&self, key: &str) {
        key.clone_into(&mut self.shared.key.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// From now on the model name `name` is accepted and answered as `id`: an alias moves.
    pub fn set_model(&self, name: &str, id: &str) {
        let mut models = self.shared.models.lock().unwrap_or_else(PoisonError::into_inner);
        models.insert(name.to_owned(), id.to_owned());
    }

    /// Closes the port and cuts all connections.
    pub async fn stop(&self) {
        self.listener.stop().await;
    }

    /// Listens again on the same port.
    ///
    /// # Errors
    /// The port was taken meanwhile.
    pub async fn restart(&self) -> io::Result<()> {
        self.listener.restart().await
    }
}
