//! May this process write now? A deadline, not a flag: it closes by itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Closes by itself when the last renewal is too old. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Fence(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    renewed: Option<Instant>,
    open_until: Option<Instant>,
}

impl Fence {
    /// Opens it for `length` from `began`, the moment before the request of a renewal.
    pub fn renewed(&self, began: Instant, length: Duration) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.renewed = Some(began);
        state.open_until = Some(began + length);
    }

    /// Closes it now.
    pub fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).open_until = None;
    }

    /// Whether it is open.
    pub fn is_open(&self, now: Instant) -> bool {
        self.left(now).is_some()
    }

    /// How long it stays open; none if it is closed.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let until = self.open_until()?;
        until.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// When it closes; none if it is closed.
    pub fn open_until(&self) -> Option<Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).open_until
    }

    /// How long ago the last renewal was, if there was one.
    pub fn renewed_ago(&self, now: Instant) -> Option<Duration> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state
            .renewed
            .map(|renewed| now.saturating_duration_since(renewed))
    }
}
