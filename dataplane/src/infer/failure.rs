//! What went wrong with a question, and whom it concerns.
//!
//! A failure holds nothing of what was asked, nothing of the key and no free text of a server: it can be logged.

use std::fmt;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::error_reply;
use super::outage::Trouble;
use super::reply::BadReply;

/// Whom a failure concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The server or the way to it, for now.
    Passing,
    /// Everything, until somebody changes the configuration.
    Configuration,
    /// This instrument only.
    Instrument,
}

/// What went wrong, as a stable word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// No complete reply in time, or the server says so (408).
    Timeout,
    /// No connection: name, address or TLS.
    Connect,
    /// The connection broke before the reply was complete.
    Interrupted,
    /// 429.
    RateLimited,
    /// 529.
    Overloaded,
    /// Any other 5xx.
    ServerError,
    /// A status that the protocol does not know.
    UnexpectedStatus,
    /// A reply that is not what was asked for.
    BadAnswer,
    /// 401.
    Unauthorized,
    /// 402.
    PaymentRequired,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 3xx: never followed, for the key would go along.
    Redirect,
    /// 400 that names the model.
    UnknownModel,
    /// A key is configured but there is none at present.
    KeyMissing,
    /// 400, 413, 422.
    Refused,
    /// Another replica's question failed, so nobody asks for a while.
    GroupPause,
    /// Answered after the lease was over: the answer was thrown away.
    LeaseOver,
    /// Answered, and the answer could not be shared: it was thrown away.
    Unpublished,
    /// Gave its place to an instrument that needs its answer more.
    Displaced,
    /// Given up before there was an answer, as at a stop.
    Cancelled,
    /// A fault in this process.
    Internal,
}

impl Cause {
    /// The word used in metrics, logs and pages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Connect => "connect",
            Self::Interrupted => "interrupted",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::ServerError => "server_error",
            Self::UnexpectedStatus => "unexpected_status",
            Self::BadAnswer => "bad_answer",
            Self::Unauthorized => "unauthorized",
            Self::PaymentRequired => "payment_required",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Redirect => "redirect",
            Self::UnknownModel => "unknown_model",
            Self::KeyMissing => "key_missing",
            Self::Refused => "refused",
            Self::GroupPause => "group_pause",
            Self::LeaseOver => "lease_over",
            Self::Unpublished => "unpublished",
            Self::Displaced => "displaced",
            Self::Cancelled => "cancelled",
            Self::Internal => "internal",
        }
    }

    /// Whom it concerns.
    pub fn scope(self) -> Scope {
        match self {
            Self::Timeout
            | Self::Connect
            | Self::Interrupted
            | Self::RateLimited
            | Self::Overloaded
            | Self::ServerError
            | Self::UnexpectedStatus
            | Self::BadAnswer
            | Self::GroupPause
            | Self::LeaseOver
            | Self::Unpublished
            | Self::Displaced
            | Self::Cancelled
            | Self::Internal => Scope::Passing,
            Self::Unauthorized
            | Self::PaymentRequired
            | Self::Forbidden
            | Self::NotFound
            | Self::Redirect
            | Self::UnknownModel
            | Self::KeyMissing => Scope::Configuration,
            Self::Refused => Scope::Instrument,
        }
    }

    /// As a trouble of the whole process.
    pub(crate) fn trouble(self) -> Trouble {
        Trouble {
            cause: self,
            configuration: self.scope() == Scope::Configuration,
        }
    }
}

/// One question that was not answered. Holds nothing of what was asked or of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    cause: Cause,
    wait: Option<Duration>,
    status: Option<u16>,
    code: Option<String>,
    request_id: Option<String>,
    reason: Option<String>,
}

impl Failure {
    /// A failure of which nothing but the cause is known.
    pub(super) fn new(cause: Cause) -> Self {
        Self {
            cause,
            wait: None,
            status: None,
            code: None,
            request_id: None,
            reason: None,
        }
    }

    /// No connection; `reason` is from our own network and TLS code, never from a body.
    pub(super) fn connect(reason: Option<String>) -> Self {
        Self {
            reason,
            ..Self::new(Cause::Connect)
        }
    }

    /// A reply with status 200 that cannot be believed.
    pub(super) fn bad_reply(headers: &HeaderMap, bad: BadReply) -> Self {
        Self {
            status: Some(StatusCode::OK.as_u16()),
            request_id: error_reply::request_id(headers),
            reason: Some(bad.to_string()),
            ..Self::new(Cause::BadAnswer)
        }
    }

    /// A reply with any status but 200. `body` may be cut short or empty; the status decides.
    pub(super) fn response(status: StatusCode, headers: &HeaderMap, body: &[u8], now: SystemTime) -> Self {
        let body = serde_json::from_slice(body).unwrap_or(Value::Null);
        Self {
            cause: error_reply::cause(status, &body),
            wait: error_reply::wait(headers, now),
            status: Some(status.as_u16()),
            code: error_reply::code(&body),
            request_id: error_reply::request_id(headers),
            reason: None,
        }
    }

    /// What went wrong.
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// How long the server wants to be left alone; at most 60 s.
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cause.as_str())?;
        if let Some(status) = self.status {
            write!(f, ", status {status}")?;
        }
        if let Some(code) = &self.code {
            write!(f, ", code {code}")?;
        }
        if let Some(reason) = &self.reason {
            write!(f, ", {reason}")?;
        }
        if let Some(id) = &self.request_id {
            write!(f, ", request id {id}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
