//! The API server's audit log: who asked for what, and what that changed.
//!
//! ```text
//! kube-apiserver ──a line before each answer──▶ audit.log ──▶ event ──▶ request with its effect
//! ```
//!
//! Invariants: a request whose answer somebody has is in the log; each request is told once, in the order of the
//! answers; Secrets' values and tokens are never written.
//!
//! *Caveat*: who watches an object sees a change before the one who made it has an answer, so before its line is there.
//! What is asked for "since a moment" therefore goes by when a request came in.

mod effect;
mod event;
mod log;
mod policy;
mod request;

use std::path::PathBuf;

use jiff::Timestamp;

use super::ControlPlane;
use super::error::ClusterError;

pub(super) use log::Log;
pub(super) use policy::policy;
pub use request::{Effect, Request};

/// A moment in the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    at: Timestamp,
    /// How many requests had been answered: none of them came in later.
    answered: usize,
}

impl ControlPlane {
    /// The present moment. Whatever came in before is before it, answered or not.
    ///
    /// # Errors
    /// The log could not be read.
    pub fn audit_mark(&self) -> Result<Mark, ClusterError> {
        let answered = self.audit().read()?.len();
        Ok(Mark {
            at: Timestamp::now(),
            answered,
        })
    }

    /// All requests of everybody that came in since `mark` and were answered.
    ///
    /// # Errors
    /// The log could not be read.
    pub fn requests_since(&self, mark: Mark) -> Result<Vec<Request>, ClusterError> {
        self.since(mark, |_| true)
    }

    /// The requests of one user that came in since `mark` and were answered, watches that have begun included.
    ///
    /// A service account's user is `system:serviceaccount:NAMESPACE:NAME`. Who is impersonated counts as the user.
    ///
    /// # Errors
    /// The log could not be read.
    pub fn requests_of(&self, user: &str, mark: Mark) -> Result<Vec<Request>, ClusterError> {
        self.since(mark, |request| request.user == user)
    }

    fn since(&self, mark: Mark, wanted: impl Fn(&Request) -> bool) -> Result<Vec<Request>, ClusterError> {
        let mut audit = self.audit();
        let requests = audit.read()?.iter().skip(mark.answered);
        let since = requests.filter(|request| request.received >= mark.at && wanted(request));
        Ok(since.cloned().collect())
    }

    /// The file of the audit log.
    pub fn audit_log(&self) -> PathBuf {
        self.layout.file("audit.log")
    }
}
