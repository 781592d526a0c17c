//! Admissions whose answer never came: each may have become a lease that nobody knows of.
//!
//! ```text
//! admit sent --answer--> settled
//!      '--timeout, broken connection, dropped--> noted --> given back by the next call that may
//! ```
//! Bounded, and forgotten when the lease would be over anyhow.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use jevmetrics_otlp::identity::Identity;

/// More at once than leases that any budget of sense allows.
const MOST: usize = 64;

/// An admission that may have been given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Perhaps {
    pub(super) identity: Identity,
    pub(super) token: String,
    /// When a lease that was given would be over.
    pub(super) ends: Instant,
}

/// See the head of the module.
#[derive(Debug, Default)]
pub(super) struct Unclear(Mutex<VecDeque<Perhaps>>);

/// Notes its admission unless [`Pending::settle`] is called.
pub(super) struct Pending<'a> {
    unclear: &'a Unclear,
    admission: Option<Perhaps>,
}

impl Unclear {
    /// An admission is asked for.
    pub(super) fn begin(&self, admission: Perhaps) -> Pending<'_> {
        Pending {
            unclear: self,
            admission: Some(admission),
        }
    }

    /// One that is still worth giving back. Whoever takes it and fails notes it again.
    pub(super) fn take(&self, now: Instant) -> Option<Perhaps> {
        let mut admissions = self.lock();
        while let Some(admission) = admissions.pop_front() {
            if now < admission.ends {
                return Some(admission);
            }
        }
        None
    }

    fn note(&self, admission: Perhaps) {
        let mut admissions = self.lock();
        if admissions.len() == MOST {
            admissions.pop_front();
        }
        admissions.push_back(admission);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Perhaps>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending<'_> {
    /// The answer came.
    pub(super) fn settle(mut self) {
        self.admission = None;
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(admission) = self.admission.take() {
            self.unclear.note(admission);
        }
    }
}
