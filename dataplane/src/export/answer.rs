//! Reads the answer to a unary gRPC call: message, status, details.

use std::time::Duration;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use prost::Message;
use tonic::Code;

use super::translate;
use crate::verdict::Verdict;
use crate::wire_messages::{ExportMetricsServiceResponse, PREFIX_LEN, Status};

/// As much of an answer as is looked at; a partial success needs a few hundred bytes.
pub(super) const USED_BYTES: usize = 64 * 1024;

/// gRPC senders leave out the padding, some do not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Reads to the trailers. What comes after [`USED_BYTES`] of message is thrown away.
pub(super) async fn read<B>(response: Response<B>) -> Result<Verdict, B::Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (head, mut body) = response.into_parts();
    if let Some(verdict) = failure(&head.headers) {
        return Ok(verdict);
    }
    if head.status != StatusCode::OK {
        let code = translate::grpc_code_of(head.status);
        return Ok(translate::grpc_status(
            code,
            &format!("HTTP {}", head.status),
            None,
        ));
    }
    let mut message = BytesMut::new();
    let mut trailers = None;
    while let Some(frame) = body.frame().await {
        match frame?.into_data() {
            Ok(data) => message.extend_from_slice(&data[..data.len().min(USED_BYTES - message.len())]),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    // An OK without message or a status in the headers: both are legal ends.
    let ok = is_ok(&head.headers) || trailers.as_ref().is_some_and(is_ok);
    if ok {
        return Ok(success(&message));
    }
    let missing = || translate::grpc_status(Code::Unknown, "answer without grpc-status", None);
    Ok(trailers.as_ref().and_then(failure).unwrap_or_else(missing))
}

fn is_ok(headers: &HeaderMap) -> bool {
    headers.get("grpc-status").is_some_and(|status| status == "0")
}

/// The verdict on a status other than OK; `None` if there is none or it is OK.
fn failure(headers: &HeaderMap) -> Option<Verdict> {
    let code = Code::from_bytes(headers.get("grpc-status")?.as_bytes());
    if code == Code::Ok {
        return None;
    }
    let message = headers
        .get("grpc-message")
        .map(|value| percent_decoded(value.as_bytes()));
    let wait = headers
        .get("grpc-status-details-bin")
        .and_then(|value| wait(value.as_bytes()));
    Some(translate::grpc_status(code, &message.unwrap_or_default(), wait))
}

fn wait(details: &[u8]) -> Option<Duration> {
    Status::decode(BASE64.decode(details).ok()?.as_slice())
        .ok()?
        .wait()
}

/// Downstream said OK; a message that cannot be read does not change that.
fn success(framed: &[u8]) -> Verdict {
    let message = framed.get(PREFIX_LEN..).filter(|_| framed.first() == Some(&0));
    let response = message.and_then(|message| ExportMetricsServiceResponse::decode(message).ok());
    translate::success(response.unwrap_or_default())
}

/// Wrong escapes stay as they are, as gRPC asks.
fn percent_decoded(mut text: &[u8]) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    while let Some((&byte, rest)) = text.split_first() {
        let escaped = rest
            .first_chunk::<2>()
            .and_then(|digits| Some((hex(digits[0])? << 4) | hex(digits[1])?));
        let (byte, rest) = match escaped {
            Some(escaped) if byte == b'%' => (escaped, &rest[2..]),
            _ => (byte, rest),
        };
        decoded.push(byte);
        text = rest;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn escapes_are_decoded_and_broken_ones_kept() {
        assert_eq!(percent_decoded(b"gr%C3%BCn %25 100%"), "grün % 100%");
        assert_eq!(percent_decoded(b"%zz%4"), "%zz%4");
        assert_eq!(percent_decoded(b"%ff"), "\u{fffd}");
    }

    #[test]
    fn broken_details_do_not_change_the_status() {
        for details in ["!!!", "A", "AAAA", "////"] {
            let verdict = failure(&headers(&[
                ("grpc-status", "14"),
                ("grpc-status-details-bin", details),
            ]));
            assert!(
                matches!(verdict, Some(Verdict::Temporary { wait: None, .. })),
                "{details}"
            );
        }
    }

    #[test]
    fn details_are_read_with_and_without_padding() {
        let expected = Some(Duration::from_secs(3));
        let bytes = Status::new(8, "full", expected).encode_to_vec();
        let padded = base64::engine::general_purpose::STANDARD.encode(&bytes);
        assert_eq!(wait(padded.as_bytes()), expected);
        assert_eq!(wait(padded.trim_end_matches('=').as_bytes()), expected);
    }

    #[test]
    fn an_unreadable_message_does_not_undo_a_success() {
        for framed in [&b""[..], &[0, 0], &[1, 0, 0, 0, 1, 9], &[0, 0, 0, 0, 1, 0xff]] {
            assert_eq!(success(framed), Verdict::Accepted);
        }
    }
}
