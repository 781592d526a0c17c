//! When something was last alive.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When something was last alive. Clones share it.
#[derive(Debug, Clone)]
pub struct Heartbeat(Arc<Mutex<Instant>>);

impl Heartbeat {
    /// Alive at `now`.
    pub fn new(now: Instant) -> Self {
        Self(Arc::new(Mutex::new(now)))
    }

    /// Alive at `now` again.
    pub fn beat(&self, now: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// How long ago it was alive.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(*self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
