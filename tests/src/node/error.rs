//! What can go wrong with a node.

use std::process::ExitStatus;
use std::time::Duration;

use super::Daemon;
use crate::cluster::ClusterError;
use crate::poll::TimedOut;

/// Why there is no node, or no answer from it.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A node is not to be let loose on the machine.
    #[error("a real node runs in a sandbox only, and {0} is not set: `make e2e` and `make cluster` make one")]
    NoSandbox(&'static str),
    /// The sandbox has told something that cannot be.
    #[error("{variable} must be an IPv4 address, not {value:?}")]
    NoAddress {
        /// The variable.
        variable: &'static str,
        /// What it holds.
        value: String,
    },
    /// The control plane, a file or a process.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A daemon ended.
    #[error("{daemon} ended with {status}; it printed:\n{printed}")]
    Ended {
        /// Which.
        daemon: Daemon,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it printed.
        printed: String,
    },
    /// The daemons run, but what they should do did not happen.
    #[error("{what} did not happen within {within:?}; last seen: {seen}; {daemon} printed:\n{printed}")]
    NotReady {
        /// What was waited for.
        what: String,
        /// How long it had.
        within: Duration,
        /// What was seen instead.
        seen: String,
        /// Who was waited for.
        daemon: Daemon,
        /// The end of what it printed.
        printed: String,
    },
    /// It was not started, or it has ended.
    #[error("{0} is not running")]
    NotRunning(Daemon),
    /// A command of the node failed.
    #[error("{command} ended with {status}: {printed}")]
    Command {
        /// What was run.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// Its standard error.
        printed: String,
    },
    /// There is no such container, or it does not run.
    #[error("container {container} of pod {namespace}/{pod} does not run")]
    NoContainer {
        /// The namespace.
        namespace: String,
        /// The pod.
        pod: String,
        /// The container.
        container: String,
    },
    /// A page of a pod could not be read.
    #[error("cannot read a page of a pod: {0}")]
    Page(#[from] reqwest::Error),
    /// A condition did not come true.
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
}
