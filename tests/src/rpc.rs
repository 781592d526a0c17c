//! `google.rpc.Status` and `RetryInfo`: how OTLP says over gRPC and HTTP what went wrong and when to retry.

use std::time::Duration;

use prost::Message as _;

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Status {
    /// A gRPC code.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// Text for a developer.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Typed details.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Any {
    /// Names the type of `value`.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// An encoded message.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct RetryInfo {
    /// How long to wait.
    #[prost(message, optional, tag = "1")]
    pub retry_delay: Option<Delay>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Delay {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// The rest, 0..1e9.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

impl Status {
    /// A status, with `RetryInfo` if there is a wait.
    pub fn new(code: tonic::Code, message: &str, retry_after: Option<Duration>) -> Self {
        let details = retry_after.map(|wait| Any {
            type_url: RETRY_INFO.to_owned(),
            value: RetryInfo {
                retry_delay: Some(wait.into()),
            }
            .encode_to_vec(),
        });
        Self {
            code: code.into(),
            message: message.to_owned(),
            details: details.into_iter().collect(),
        }
    }

    /// The wait of the first readable `RetryInfo`.
    pub fn retry_after(&self) -> Option<Duration> {
        self.details
            .iter()
            .filter(|detail| detail.type_url == RETRY_INFO)
            .find_map(|detail| {
                RetryInfo::decode(detail.value.as_slice())
                    .ok()?
                    .retry_delay?
                    .try_into()
                    .ok()
            })
    }
}

impl From<Duration> for Delay {
    fn from(wait: Duration) -> Self {
        Self {
            seconds: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(wait.subsec_nanos()).unwrap_or_default(),
        }
    }
}

impl TryFrom<Delay> for Duration {
    type Error = std::num::TryFromIntError;

    fn try_from(delay: Delay) -> Result<Self, Self::Error> {
        Ok(Duration::new(
            u64::try_from(delay.seconds)?,
            u32::try_from(delay.nanos)?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Status;

    #[test]
    fn the_wait_survives_the_status() {
        let wait = Duration::from_millis(2_500);
        let status = Status::new(tonic::Code::Unavailable, "later", Some(wait));
        assert_eq!(status.retry_after(), Some(wait));
        assert_eq!(
            Status::new(tonic::Code::Unavailable, "later", None).retry_after(),
            None
        );
    }
}
