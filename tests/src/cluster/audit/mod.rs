//! The API server's audit log: who asked for what, and what that changed.
//!
//! ```text
//! kube-apiserver ──a line before each answer──▶ audit.log ──▶ event ──▶ request with its effect
//! ```
//!
//! Invariants: a request whose answer somebody has is in the log; each request is told once, in the order of the
//! answers; Secrets' values and tokens are never written.

mod effect;
mod event;
mod log;
mod policy;
mod request;

use std::path::PathBuf;

use super::ControlPlane;
use super::error::ClusterError;

pub(super) use log::Log;
pub(super) use policy::policy;
pub use request::{Effect, Request};

/// A moment in the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(usize);

impl ControlPlane {
    /// The present end of the audit log. Whatever was answered before is before it.
    ///
    /// # Errors
    /// The log could not be read.
    pub fn audit_mark(&self) -> Result<Mark, ClusterError> {
        Ok(Mark(self.audit().read()?.len()))
    }

    /// All requests of everybody that were answered since `mark`.
    ///
    /// # Errors
    /// The log could not be read.
    pub fn requests_since(&self, mark: Mark) -> Result<Vec<Request>, ClusterError> {
        let mut audit = self.audit();
        let requests = audit.read()?;
        Ok(requests.get(mark.0..).unwrap_or_default().to_vec())
    }

    /// The requests of one user that were answered since `mark`, watches that have begun included.
    ///
    /// A service account's user is `system:serviceaccount:NAMESPACE:NAME`. Who is impersonated counts as the user.
    ///
    /// # Errors
    /// The log could not be read.
    pub fn requests_of(&self, user: &str, mark: Mark) -> Result<Vec<Request>, ClusterError> {
        let mut audit = self.audit();
        let requests = audit.read()?.iter().skip(mark.0);
        Ok(requests.filter(|request| request.user == user).cloned().collect())
    }

    /// The file of the audit log.
    pub fn audit_log(&self) -> PathBuf {
        self.layout.file("audit.log")
    }
}
