//! The leases that this process holds, for people to see.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jevmetrics_otlp::identity::Identity;

/// See the head of the module.
#[derive(Debug, Default)]
pub(super) struct Held(Mutex<BTreeSet<String>>);

/// One lease, for as long as this lives.
#[derive(Debug)]
pub(super) struct Holding {
    held: Arc<Held>,
    identity: String,
}

impl Held {
    /// Notes a lease.
    pub(super) fn hold(self: &Arc<Self>, identity: &Identity) -> Holding {
        let identity = identity.to_string();
        self.lock().insert(identity.clone());
        Holding {
            held: Arc::clone(self),
            identity,
        }
    }

    /// Hashes of the identities.
    pub(super) fn list(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.held.lock().remove(&self.identity);
    }
}
