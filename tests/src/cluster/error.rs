//! What can go wrong with a control plane for tests.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use super::Component;
use crate::poll::TimedOut;

/// Why there is no control plane, or no answer from it.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A file, a socket or a process could not be handled.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// There are no binaries, and they could not be built.
    #[error("{script} ended with {status}; it printed:\n{printed}")]
    NotBuilt {
        /// What builds them.
        script: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// What it printed.
        printed: String,
    },
    /// Every range of loopback addresses is claimed.
    #[error(
        "no range of loopback addresses is free: port {port} of {last} and of its like is taken everywhere"
    )]
    NoAddresses {
        /// The port by which a range is claimed.
        port: u16,
        /// The last address tried.
        last: Ipv4Addr,
    },
    /// A key or a certificate could not be made.
    #[error("cannot make a certificate for {subject}: {source}")]
    Certificate {
        /// Whom it was for.
        subject: String,
        /// Why not.
        source: rcgen::Error,
    },
    /// A process ended before it was ready.
    #[error("{component} ended with {status} before it was ready; it printed:\n{printed}")]
    Ended {
        /// Which.
        component: Component,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it printed.
        printed: String,
    },
    /// The processes run but are not ready.
    #[error("{what} did not happen within {within:?}; last seen: {seen}; {component} printed:\n{printed}")]
    NotReady {
        /// What was waited for.
        what: &'static str,
        /// How long it had.
        within: Duration,
        /// What was seen instead.
        seen: String,
        /// Who was waited for.
        component: Component,
        /// The end of what it printed.
        printed: String,
    },
    /// It does not run, so it cannot be signalled.
    #[error("{0} is not running")]
    NotRunning(Component),
    /// It runs already.
    #[error("{0} is running already")]
    Running(Component),
    /// It did not end.
    #[error("{component} did not end within {within:?}")]
    StillRunning {
        /// Which.
        component: Component,
        /// How long it had.
        within: Duration,
    },
    /// The API server refused, or did not answer.
    #[error("cannot {what}: {source}")]
    Api {
        /// What was asked.
        what: String,
        /// What it said.
        source: Box<kube::Error>,
    },
    /// A kubeconfig could not be used.
    #[error("cannot use the kubeconfig of {user}: {source}")]
    Kubeconfig {
        /// Whose.
        user: String,
        /// Why not.
        source: Box<kube::config::KubeconfigError>,
    },
    /// kubectl failed.
    #[error("kubectl {arguments:?} ended with {status}: {printed}")]
    Kubectl {
        /// What it was asked.
        arguments: Vec<String>,
        /// How it ended.
        status: ExitStatus,
        /// Its standard error.
        printed: String,
    },
    /// The audit log holds something else than events.
    #[error("line {line} of the audit log is not an event: {source}")]
    Audit {
        /// Counted from 1.
        line: usize,
        /// Why not.
        source: serde_json::Error,
    },
    /// There is no such pod on a hollow node, or it went.
    #[error("no hollow pod {namespace}/{name}")]
    NoPod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A condition did not come true.
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
}

pub(crate) fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> ClusterError {
    move |source| ClusterError::Io {
        what: what.into(),
        source,
    }
}

pub(crate) fn api_error(what: impl Into<String>) -> impl FnOnce(kube::Error) -> ClusterError {
    move |source| ClusterError::Api {
        what: what.into(),
        source: Box::new(source),
    }
}
