//! The few protobuf messages that the transports write and read themselves.
//!
//! Metrics are never among them: requests travel as bytes. Field numbers are those of
//! `opentelemetry/proto/collector/metrics/v1/metrics_service.proto` and `google/rpc/*.proto`.

use std::time::Duration;

use prost::Message;

/// The one gRPC method of the metrics signal.
pub(crate) const EXPORT_PATH: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// Length of what stands before each gRPC message: a flag and the length.
pub(crate) const PREFIX_LEN: usize = 5;

/// Prefix of an uncompressed or compressed message.
#[allow(
    clippy::cast_possible_truncation,
    reason = "messages are bounded far below 4 GiB"
)]
pub(crate) fn prefix(compressed: bool, length: usize) -> [u8; PREFIX_LEN] {
    let [a, b, c, d] = (length as u32).to_be_bytes();
    [u8::from(compressed), a, b, c, d]
}

/// Type URL under which [`RetryInfo`] travels in [`Status::details`].
const RETRY_INFO_URL: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// Answer to an export.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExportMetricsServiceResponse {
    /// Absent: everything was accepted.
    #[prost(message, optional, tag = "1")]
    pub(crate) partial_success: Option<ExportMetricsPartialSuccess>,
}

/// What was not accepted. With 0 points and a message it is a warning.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExportMetricsPartialSuccess {
    #[prost(int64, tag = "1")]
    pub(crate) rejected_data_points: i64,
    #[prost(string, tag = "2")]
    pub(crate) error_message: String,
}

/// `google.rpc.Status`: `grpc-status-details-bin`, and the body of refusals over HTTP.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Any {
    #[prost(string, tag = "1")]
    pub(crate) type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    pub(crate) retry_delay: Option<ProtobufDuration>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ProtobufDuration {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(crate) nanos: i32,
}

impl Status {
    /// A status that tells the sender how long to wait, if anything is known about that.
    pub(crate) fn new(code: i32, message: &str, wait: Option<Duration>) -> Self {
        let details = wait.map(|wait| Any {
            type_url: RETRY_INFO_URL.to_owned(),
            value: RetryInfo {
                retry_delay: Some(wait.into()),
            }
            .encode_to_vec(),
        });
        Self {
            code,
            message: message.to_owned(),
            details: details.into_iter().collect(),
        }
    }

    /// The wait that the first readable `RetryInfo` asks for. A negative one is none.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.details
            .iter()
            .filter(|any| any.type_url == RETRY_INFO_URL)
            .find_map(|any| {
                RetryInfo::decode(any.value.as_slice())
                    .ok()?
                    .retry_delay?
                    .to_std()
            })
    }
}

impl From<Duration> for ProtobufDuration {
    fn from(duration: Duration) -> Self {
        Self {
            seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
        }
    }
}

impl ProtobufDuration {
    fn to_std(self) -> Option<Duration> {
        let seconds = u64::try_from(self.seconds).ok()?;
        let nanos = u32::try_from(self.nanos)
            .ok()
            .filter(|nanos| *nanos < 1_000_000_000)?;
        Some(Duration::new(seconds, nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_survives_the_wire() {
        let wait = Duration::from_millis(2_500);
        let bytes = Status::new(14, "busy", Some(wait)).encode_to_vec();
        assert_eq!(
            Status::decode(bytes.as_slice())
                .ok()
                .and_then(|status| status.wait()),
            Some(wait)
        );
    }

    #[test]
    fn a_wait_that_is_negative_or_out_of_range_is_none() {
        for (seconds, nanos) in [(-1, 0), (1, -1), (1, 1_000_000_000)] {
            let value = RetryInfo {
                retry_delay: Some(ProtobufDuration { seconds, nanos }),
            }
            .encode_to_vec();
            let any = Any {
                type_url: RETRY_INFO_URL.to_owned(),
                value,
            };
            assert_eq!(
                Status {
                    code: 14,
                    message: String::new(),
                    details: vec![any]
                }
                .wait(),
                None
            );
        }
    }
}
