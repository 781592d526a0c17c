//! `grpc-timeout`: at most eight digits and a unit. Pure.

use std::time::Duration;

/// The value does not follow the gRPC specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("grpc-timeout must be 1 to 8 digits and one of H, M, S, m, u, n")]
pub(crate) struct MalformedTimeout;

/// Reads a header value.
pub(crate) fn parse(value: &[u8]) -> Result<Duration, MalformedTimeout> {
    let (unit, digits) = value.split_last().ok_or(MalformedTimeout)?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(MalformedTimeout);
    }
    let number = digits
        .iter()
        .fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    Ok(match unit {
        b'H' => Duration::from_hours(number),
        b'M' => Duration::from_mins(number),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return Err(MalformedTimeout),
    })
}

/// Writes a header value, rounded down to whole milliseconds (to seconds where eight digits do not suffice):
/// downstream must not believe that it has longer than we wait.
pub(crate) fn format(timeout: Duration) -> String {
    let milliseconds = timeout.as_millis();
    if milliseconds <= 99_999_999 {
        format!("{milliseconds}m")
    } else {
        format!("{}S", timeout.as_secs().min(99_999_999))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, expected) in [
            ("2H", Duration::from_hours(2)),
            ("3M", Duration::from_mins(3)),
            ("4S", Duration::from_secs(4)),
            ("5m", Duration::from_millis(5)),
            ("6u", Duration::from_micros(6)),
            ("7n", Duration::from_nanos(7)),
            ("99999999H", Duration::from_hours(99_999_999)),
            ("0m", Duration::ZERO),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn anything_else_is_malformed() {
        for text in ["", "S", "1", "1s", "123456789S", "-1S", "1.5S", " 1S", "+1S"] {
            assert_eq!(parse(text.as_bytes()), Err(MalformedTimeout), "{text}");
        }
    }

    #[test]
    fn what_is_written_reads_back_no_longer_than_it_was() {
        for timeout in [
            Duration::ZERO,
            Duration::from_micros(1_999),
            Duration::from_secs(8),
            Duration::from_secs(100_000),
            Duration::MAX,
        ] {
            assert!(parse(format(timeout).as_bytes()).unwrap() <= timeout);
        }
    }
}
