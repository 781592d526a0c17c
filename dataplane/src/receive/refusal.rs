//! Why a request is refused before anybody looked at its metrics, and what that means on the wire. Pure.

use std::time::Duration;

use http::StatusCode;
use tonic::Code;

use super::framing::FramingError;
use super::stats::Cause;
use crate::grpc_timeout::MalformedTimeout;

/// What a sender is asked to wait for before it comes again, for want of room: answers come within seconds, and what it
/// sends meanwhile is its own to hold.
pub(crate) const WAIT_FOR_ROOM: Duration = Duration::from_secs(1);

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// Larger than allowed on the wire.
    #[error("request is larger than maxRequestBytes ({limit})")]
    TooLarge { limit: usize },
    /// Larger than allowed once unpacked.
    #[error("request is larger than maxUnpackedBytes ({limit}) once unpacked")]
    UnpackedTooLarge { limit: usize },
    /// Not one gRPC message.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// Announced as gzip but it is not, or not to its end.
    #[error("body is not valid gzip")]
    BrokenGzip,
    /// A coding that we do not unpack.
    #[error("unsupported compression: identity and gzip are supported")]
    UnsupportedEncoding,
    /// A content type that we do not read, over HTTP.
    #[error("unsupported content-type: application/x-protobuf is supported")]
    UnsupportedMediaType,
    /// A content type that we do not read, over gRPC.
    #[error("unsupported content-type: application/grpc and application/grpc+proto are supported")]
    UnsupportedGrpcType,
    /// No such path or method.
    #[error("no such service here: metrics go to {path}")]
    NotFound { path: &'static str },
    /// Not POST.
    #[error("only POST is allowed here")]
    WrongMethod,
    /// gRPC over HTTP/1.1.
    #[error("gRPC needs HTTP/2")]
    NeedsHttp2,
    /// See the source.
    #[error(transparent)]
    Timeout(#[from] MalformedTimeout),
    /// The body did not arrive in time.
    #[error("body did not arrive in time")]
    TooSlow,
    /// Other requests take all the memory that there is for them.
    #[error("too many bytes of requests are in flight here")]
    NoRoom,
    /// The sender went away, or its stream broke.
    #[error("body ended early")]
    Aborted,
}

impl Refusal {
    /// The code for gRPC senders. For content types, methods and versions the HTTP status says it all.
    pub(super) fn code(&self) -> Code {
        match self {
            Self::Framing(FramingError::FlagWithoutEncoding) => Code::Internal,
            Self::TooLarge { .. }
            | Self::UnpackedTooLarge { .. }
            | Self::Framing(_)
            | Self::BrokenGzip
            | Self::Timeout(_) => Code::InvalidArgument,
            Self::UnsupportedEncoding
            | Self::UnsupportedMediaType
            | Self::UnsupportedGrpcType
            | Self::NotFound { .. }
            | Self::WrongMethod
            | Self::NeedsHttp2 => Code::Unimplemented,
            Self::TooSlow => Code::DeadlineExceeded,
            Self::NoRoom | Self::Aborted => Code::Unavailable,
        }
    }

    /// The status for HTTP senders.
    pub(super) fn http_status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } | Self::UnpackedTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Framing(_) | Self::BrokenGzip | Self::Timeout(_) => StatusCode::BAD_REQUEST,
            Self::UnsupportedEncoding | Self::UnsupportedMediaType | Self::UnsupportedGrpcType => {
                StatusCode::UNSUPPORTED_MEDIA_TYPE
            }
            Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::NeedsHttp2 => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            // 408 would be the word, but OTLP senders give up on it.
            Self::TooSlow | Self::NoRoom | Self::Aborted => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// How long the sender is asked to wait.
    pub(super) fn wait(&self) -> Option<Duration> {
        (*self == Self::NoRoom).then_some(WAIT_FOR_ROOM)
    }

    /// Under what it is counted.
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::TooLarge { .. } | Self::Framing(FramingError::TooLarge { .. }) => Cause::TooLarge,
            Self::UnpackedTooLarge { .. } => Cause::UnpackedTooLarge,
            Self::Framing(_) => Cause::MalformedFraming,
            Self::BrokenGzip => Cause::MalformedCompression,
            Self::UnsupportedEncoding => Cause::BadEncoding,
            Self::UnsupportedMediaType | Self::UnsupportedGrpcType => Cause::UnsupportedMediaType,
            Self::NotFound { .. } => Cause::NotFound,
            Self::WrongMethod => Cause::WrongMethod,
            Self::NeedsHttp2 => Cause::NeedsHttp2,
            Self::Timeout(_) => Cause::MalformedTimeout,
            Self::TooSlow => Cause::TooSlow,
            Self::NoRoom => Cause::NoRoom,
            Self::Aborted => Cause::Aborted,
        }
    }
}
