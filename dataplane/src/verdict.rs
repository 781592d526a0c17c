//! The verdict on one request, in the terms of the OTLP specification.

use std::time::Duration;

use tonic::Code;

use crate::receive::refusal::{Refusal, WAIT_FOR_ROOM};

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

/// How every message about unreadable input starts; `receive` counts such verdicts by it.
const MALFORMED: &str = "malformed protobuf: ";

impl Verdict {
    /// Not accepted now, for a reason of the transport or of downstream.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::Temporary {
            code: Code::Unavailable,
            message: message.into(),
            wait: None,
        }
    }

    /// The deadline passed; what downstream did with the request is unknown.
    pub fn deadline_exceeded(message: impl Into<String>) -> Self {
        Self::Temporary {
            code: Code::DeadlineExceeded,
            message: message.into(),
            wait: None,
        }
    }

    /// Not sent, for want of memory.
    pub(crate) fn no_room() -> Self {
        Self::Temporary {
            code: Code::Unavailable,
            message: Refusal::NoRoom.to_string(),
            wait: Some(WAIT_FOR_ROOM),
        }
    }

    /// The structure of the request cannot be read. `place` says where and why, without quoting input.
    pub fn malformed(place: impl std::fmt::Display) -> Self {
        Self::Permanent {
            code: Code::InvalidArgument,
            message: format!("{MALFORMED}{place}"),
        }
    }

    /// Was it made by [`Verdict::malformed`]? Downstream's own words cannot look like it: they carry
    /// a prefix of their own.
    pub fn is_malformed(&self) -> bool {
        matches!(self, Self::Permanent { code: Code::InvalidArgument, message } if message.starts_with(MALFORMED))
    }
}
