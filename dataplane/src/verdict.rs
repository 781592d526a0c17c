//! The verdict on one request, in the terms of the OTLP specification.

use std::time::Duration;

use tonic::Code;

/// What downstream, or this process in its place, says of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Everything was accepted.
    Accepted,
    /// Accepted but for `rejected` data points; never sent again.
    Partial {
        /// Data points that were not accepted. 0 with a message is a warning.
        rejected: u64,
        /// Downstream's own words.
        message: String,
    },
    /// Not accepted now; the sender may try again.
    Temporary {
        /// gRPC code for the sender.
        code: Code,
        /// What happened, without secrets.
        message: String,
        /// Downstream's wish how long to wait, if it gave one.
        wait: Option<Duration>,
    },
    /// Will never be accepted; the sender must not try again.
    Permanent {
        /// gRPC code for the sender.
        code: Code,
        /// What happened, without secrets.
        message: String,
    },
}
