//! What downstream said becomes a verdict. Pure tables, after the OTLP specification.

use std::time::{Duration, SystemTime};

use http::{HeaderValue, StatusCode};
use tonic::Code;

use crate::verdict::Verdict;
use crate::wire_messages::ExportMetricsServiceResponse;

/// Downstream's words are passed on up to this length.
const MESSAGE_BYTES: usize = 1024;

/// A gRPC status other than OK. `wait` is from `RetryInfo`.
pub(super) fn grpc_status(code: Code, message: &str, wait: Option<Duration>) -> Verdict {
    let message = words(message, code.description());
    match code {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => Verdict::Temporary { code, message, wait },
        // Only with a wait is it a request to come back; without, the message itself is too large.
        Code::ResourceExhausted if wait.is_some() => Verdict::Temporary { code, message, wait },
        _ => Verdict::Permanent { code, message },
    }
}

/// The gRPC code for an answer that never reached a gRPC server, by gRPC's own table.
pub(super) fn grpc_code_of(status: StatusCode) -> Code {
    match status.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502 | 503 | 504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}

/// An OTLP/HTTP status other than 2xx. `wait` is from `Retry-After`.
pub(super) fn http_status(status: StatusCode, message: &str, wait: Option<Duration>) -> Verdict {
    let message = words(message, &format!("HTTP {status}"));
    let code = match status.as_u16() {
        429 if wait.is_some() => Code::ResourceExhausted,
        429 | 502 | 503 | 504 => Code::Unavailable,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 | 405 => Code::Unimplemented,
        // Redirects are not followed: a request with secrets in its headers goes where it was sent.
        300..=399 => Code::FailedPrecondition,
        500.. => Code::Internal,
        _ => Code::InvalidArgument,
    };
    match status.as_u16() {
        429 | 502 | 503 | 504 => Verdict::Temporary { code, message, wait },
        _ => Verdict::Permanent { code, message },
    }
}

/// A success, with what it says about single points.
pub(super) fn success(response: ExportMetricsServiceResponse) -> Verdict {
    match response.partial_success {
        Some(partial) if partial.rejected_data_points > 0 || !partial.error_message.is_empty() => {
            Verdict::Partial {
                rejected: u64::try_from(partial.rejected_data_points).unwrap_or(0),
                message: words(&partial.error_message, "points rejected"),
            }
        }
        _ => Verdict::Accepted,
    }
}

/// No answer: it is not known what downstream did.
pub(super) fn transport(reason: &str) -> Verdict {
    Verdict::unavailable(words(reason, "no answer"))
}

/// The deadline passed without an answer.
pub(super) fn deadline() -> Verdict {
    Verdict::deadline_exceeded("downstream: no answer within the deadline")
}

/// `Retry-After` in seconds or as a date; a date in the past is no wait.
pub(super) fn retry_after(value: &HeaderValue, now: SystemTime) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or(Duration::ZERO))
}

/// Foreign words, bounded, without control characters, marked as foreign.
fn words(message: &str, otherwise: &str) -> String {
    let mut text = String::from("downstream: ");
    let message = if message.trim().is_empty() {
        otherwise
    } else {
        message
    };
    for character in message.chars().filter(|character| !character.is_control()) {
        if text.len() + character.len_utf8() > MESSAGE_BYTES {
            break;
        }
        text.push(character);
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::wire_messages::ExportMetricsPartialSuccess;

    fn is_temporary(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Temporary { .. })
    }

    #[test]
    fn exactly_the_codes_of_the_specification_are_retried() {
        for number in 1..=16 {
            let code = Code::from_i32(number);
            let verdict = grpc_status(code, "words", None);
            assert_eq!(
                is_temporary(&verdict),
                [1, 4, 10, 11, 14, 15].contains(&number),
                "{code:?}"
            );
        }
        assert!(is_temporary(&grpc_status(
            Code::ResourceExhausted,
            "",
            Some(Duration::ZERO)
        )));
    }

    #[test]
    fn exactly_the_statuses_of_the_specification_are_retried() {
        for number in (300..600).filter_map(|number| StatusCode::from_u16(number).ok()) {
            let verdict = http_status(number, "", None);
            assert_eq!(
                is_temporary(&verdict),
                [429, 502, 503, 504].contains(&number.as_u16()),
                "{number}"
            );
        }
    }

    #[test]
    fn statuses_before_a_grpc_server_follow_grpcs_table() {
        for (status, code) in [
            (400, Code::Internal),
            (401, Code::Unauthenticated),
            (403, Code::PermissionDenied),
            (404, Code::Unimplemented),
            (429, Code::Unavailable),
            (502, Code::Unavailable),
            (503, Code::Unavailable),
            (504, Code::Unavailable),
            (500, Code::Unknown),
            (302, Code::Unknown),
        ] {
            assert_eq!(
                grpc_code_of(StatusCode::from_u16(status).unwrap()),
                code,
                "{status}"
            );
        }
    }

    #[test]
    fn an_empty_partial_success_is_a_success_and_a_message_alone_a_warning() {
        let answer = |rejected_data_points, message: &str| {
            let error_message = message.to_owned();
            let partial_success = Some(ExportMetricsPartialSuccess {
                rejected_data_points,
                error_message,
            });
            success(ExportMetricsServiceResponse { partial_success })
        };
        assert_eq!(
            success(ExportMetricsServiceResponse {
                partial_success: None
            }),
            Verdict::Accepted
        );
        assert_eq!(answer(0, ""), Verdict::Accepted);
        assert_eq!(answer(-3, ""), Verdict::Accepted);
        let message = "downstream: old".to_owned();
        assert_eq!(
            answer(0, "old"),
            Verdict::Partial {
                rejected: 0,
                message: message.clone()
            }
        );
        assert_eq!(answer(5, "old"), Verdict::Partial { rejected: 5, message });
    }

    #[test]
    fn a_wait_is_read_as_seconds_or_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (text, wait) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("Sun, 06 Nov 1994 08:50:00 GMT", Some(23)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
        ] {
            let value = HeaderValue::from_str(text).unwrap();
            assert_eq!(retry_after(&value, now), wait.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn foreign_words_are_bounded_and_free_of_control_characters() {
        assert_eq!(words("a\r\nb\u{1b}[0m", ""), "downstream: ab[0m");
        let long = words(&"ü".repeat(2_000), "");
        assert!(long.len() <= MESSAGE_BYTES && long.len() > MESSAGE_BYTES - 2);
        assert!(long.starts_with("downstream: ü"));
    }
}
