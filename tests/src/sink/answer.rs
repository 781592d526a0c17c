//! What the sink answers.

use std::time::Duration;

use http::StatusCode;
use tonic::Code;

/// What happens to one request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Takes all.
    Accept,
    /// Takes the request but says that some points were rejected.
    Partial {
        /// Points said to be rejected.
        rejected: i64,
        /// Text for the sender.
        message: String,
    },
    /// Takes nothing.
    Refuse(Refusal),
    /// Takes all, then answers with this: an accepted request whose answer is lost or wrong.
    AcceptThen(Box<Answer>),
    /// Waits first. A client that leaves meanwhile has sent nothing.
    Delay(Duration, Box<Answer>),
    /// Takes nothing and never answers.
    Hang,
    /// Takes nothing and ends the connection.
    Close,
}

/// A refusal in both protocols' words.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The code over gRPC, and in the body over HTTP.
    pub code: Code,
    /// The status over HTTP.
    pub status: StatusCode,
    /// Text for the sender.
    pub message: String,
    /// `RetryInfo` over gRPC and in the body over HTTP; `Retry-After`, rounded up, over HTTP.
    pub retry_after: Option<Duration>,
    /// The body over HTTP.
    pub body: RefusalBody,
}

/// The body of a refusal over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalBody {
    /// `google.rpc.Status` as protobuf, as OTLP asks.
    RpcStatus,
    /// Some proxy's page.
    Html(String),
    /// Nothing.
    Empty,
}

impl Refusal {
    /// Over gRPC with `code`, over HTTP with `status`.
    pub fn new(code: Code, status: StatusCode, message: &str) -> Self {
        Self {
            code,
            status,
            message: message.to_owned(),
            retry_after: None,
            body: RefusalBody::RpcStatus,
        }
    }

    /// Temporary: `UNAVAILABLE`, 503.
    pub fn temporary(message: &str) -> Self {
        Self::new(Code::Unavailable, StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// Overloaded: `RESOURCE_EXHAUSTED`, 429. Over gRPC temporary only with a wait.
    pub fn overloaded(message: &str) -> Self {
        Self::new(Code::ResourceExhausted, StatusCode::TOO_MANY_REQUESTS, message)
    }

    /// Permanent: `INVALID_ARGUMENT`, 400.
    pub fn permanent(message: &str) -> Self {
        Self::new(Code::InvalidArgument, StatusCode::BAD_REQUEST, message)
    }

    /// With a wait.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// With another body over HTTP.
    #[must_use]
    pub fn body(mut self, body: RefusalBody) -> Self {
        self.body = body;
        self
    }
}
