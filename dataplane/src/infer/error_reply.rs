//! Reading the status, headers and body of a reply that is an error.
//!
//! `detail` may be text, an object or a list, and gateways have forms of their own. Any of it may echo our input, so
//! nothing is taken from a body but a code of a narrow form. Pure: `now` is an argument.

use std::time::{Duration, SystemTime};

use http::header::{DATE, HeaderMap, RETRY_AFTER};
use http::{HeaderName, StatusCode};
use serde_json::Value;

use super::failure::Cause;

/// Longest wait that a server can ask for.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// Longest error code that is shown, in bytes.
const CODE_BYTES: usize = 64;
/// Longest request id that is shown, in bytes.
const REQUEST_ID_BYTES: usize = 128;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-typesafe-request-id");
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// What a status other than 200 says, with the help of its body.
pub(super) fn cause(status: StatusCode, body: &Value) -> Cause {
    match status.as_u16() {
        200..=299 => Cause::BadAnswer,
        300..=399 => Cause::Redirect,
        400 if names_the_model(body) => Cause::UnknownModel,
        400 | 413 | 422 => Cause::Refused,
        401 => Cause::Unauthorized,
        402 => Cause::PaymentRequired,
        403 => Cause::Forbidden,
        404 => Cause::NotFound,
        408 => Cause::Timeout,
        429 => Cause::RateLimited,
        529 => Cause::Overloaded,
        500..=599 => Cause::ServerError,
        _ => Cause::UnexpectedStatus,
    }
}

/// `{"detail":{"error_type":"api_usage_error","message":"Unknown model: ..."}}`: no instrument is to blame.
fn names_the_model(body: &Value) -> bool {
    let text = |pointer| body.pointer(pointer).and_then(Value::as_str);
    text("/detail/error_type") == Some("api_usage_error")
        && text("/detail/message").is_some_and(|message| message.starts_with("Unknown model"))
}

/// The error code of one of the known bodies: an object with `error_type`, its list of schema errors, and what gateways
/// and local servers send. `detail` and `error` may as well be plain text, which is never shown.
pub(super) fn code(body: &Value) -> Option<String> {
    const PLACES: [&str; 6] = [
        "/detail/error_type",
        "/detail/0/type",
        "/detail/error/code",
        "/error/error_type",
        "/error/type",
        "/error/code",
    ];
    PLACES
        .iter()
        .filter_map(|place| body.pointer(place)?.as_str())
        .find(|code| {
            let narrow = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
            (1..=CODE_BYTES).contains(&code.len()) && code.bytes().all(narrow)
        })
        .map(str::to_owned)
}

/// The server's name for the request, if it has a narrow form.
pub(super) fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let narrow = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    ((1..=REQUEST_ID_BYTES).contains(&id.len()) && id.bytes().all(narrow)).then(|| id.to_owned())
}

/// The finer header wins. A date is read against the server's own clock if it sent it, else against ours.
pub(super) fn wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let date = |text: &str| httpdate::parse_http_date(text).ok();
    let now = text(&DATE).and_then(date).unwrap_or(now);
    let until = |text: &str| {
        Some(
            date(text)?
                .duration_since(now)
                .unwrap_or_default()
                .min(LONGEST_WAIT),
        )
    };
    let milliseconds = text(&RETRY_AFTER_MS).and_then(|text| capped(text, 0.001));
    milliseconds.or_else(|| {
        let text = text(&RETRY_AFTER)?;
        capped(text, 1.0).or_else(|| until(text))
    })
}

/// A number that is not negative, in units of `unit` seconds.
fn capped(text: &str, unit: f64) -> Option<Duration> {
    let seconds = text.parse::<f64>().ok().filter(|number| *number >= 0.0)? * unit;
    Some(Duration::from_secs_f64(seconds.min(LONGEST_WAIT.as_secs_f64())))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::infer::failure::{Failure, Scope};

    type Headers<'a> = &'a [(&'static str, &'a str)];

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    fn response(status: u16, body: &Value) -> Failure {
        let status = StatusCode::from_u16(status).unwrap();
        Failure::response(
            status,
            &HeaderMap::new(),
            body.to_string().as_bytes(),
            SystemTime::UNIX_EPOCH,
        )
    }

    #[test]
    fn each_status_has_its_cause_and_scope() {
        use Scope::{Configuration, Instrument, Passing};
        let table = [
            (204, "bad_answer", Passing),
            (301, "redirect", Configuration),
            (308, "redirect", Configuration),
            (400, "refused", Instrument),
            (401, "unauthorized", Configuration),
            (402, "payment_required", Configuration),
            (403, "forbidden", Configuration),
            (404, "not_found", Configuration),
            (405, "unexpected_status", Passing),
            (408, "timeout", Passing),
            (409, "unexpected_status", Passing),
            (413, "refused", Instrument),
            (422, "refused", Instrument),
            (429, "rate_limited", Passing),
            (500, "server_error", Passing),
            (503, "server_error", Passing),
            (529, "overloaded", Passing),
            (599, "server_error", Passing),
            (799, "unexpected_status", Passing),
        ];
        for (status, cause, scope) in table {
            let failure = response(status, &json!({"detail": "Something"}));
            assert_eq!(
                (failure.cause().as_str(), failure.cause().scope()),
                (cause, scope),
                "{status}"
            );
        }
    }

    #[test]
    fn only_an_unknown_model_makes_a_400_a_configuration_fault() {
        let detail = |error_type: &str, message: &str| json!({"detail": {"error_type": error_type, "message": message}});
        let table = [
            (
                400,
                detail("api_usage_error", "Unknown model: jev-9"),
                Cause::UnknownModel,
            ),
            (400, detail("api_usage_error", "Invalid request."), Cause::Refused),
            (
                400,
                detail("max_tokens_exceeded", "Unknown model"),
                Cause::Refused,
            ),
            (400, json!({"detail": "Unknown model: jev-9"}), Cause::Refused),
            (
                422,
                detail("api_usage_error", "Unknown model: jev-9"),
                Cause::Refused,
            ),
        ];
        for (status, body, cause) in table {
            assert_eq!(response(status, &body).cause(), cause, "{body}");
        }
    }

    #[test]
    fn codes_are_found_in_every_known_body_and_free_text_in_none() {
        let table = [
            (
                json!({"detail": {"error_type": "max_tokens_exceeded"}}),
                Some("max_tokens_exceeded"),
            ),
            (
                json!({"detail": [{"loc": ["body"], "msg": "s3cret", "type": "too_short"}]}),
                Some("too_short"),
            ),
            (
                json!({"detail": {"error": {"code": "bad_input"}}}),
                Some("bad_input"),
            ),
            (
                json!({"error": {"message": "s3cret", "type": "invalid_request"}}),
                Some("invalid_request"),
            ),
            (json!({"error": {"code": 402, "message": "s3cret"}}), None),
            (json!({"detail": "s3cret"}), None),
            (json!({"error": "s3cret"}), None),
            (json!({"detail": {"error_type": "S3cret text"}}), None),
            (json!({"detail": {"error_type": "x".repeat(65)}}), None),
            (json!({"detail": {"error_type": ""}}), None),
            (json!({"detail": []}), None),
            (json!("s3cret"), None),
        ];
        for (body, code) in table {
            let failure = response(422, &body);
            assert_eq!(super::code(&body).as_deref(), code, "{body}");
            assert!(
                !format!("{failure} {failure:?}").to_lowercase().contains("s3cret"),
                "{body}"
            );
        }
    }

    #[test]
    fn a_body_that_is_not_json_leaves_the_status_to_decide() {
        let now = SystemTime::UNIX_EPOCH;
        let failure = Failure::response(StatusCode::BAD_GATEWAY, &HeaderMap::new(), b"<html>s3cret", now);
        assert_eq!(failure.to_string(), "server_error, status 502");
    }

    #[test]
    fn waits_are_read_in_every_form_and_capped() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let ms = Duration::from_millis;
        let table: [(Headers<'_>, Option<Duration>); 15] = [
            (&[], None),
            (&[("retry-after", "7")], Some(ms(7000))),
            (&[("retry-after", " 1.5 ")], Some(ms(1500))),
            (&[("retry-after", "0")], Some(ms(0))),
            (&[("retry-after", "3600")], Some(ms(60_000))),
            (&[("retry-after", "1e300")], Some(ms(60_000))),
            (&[("retry-after", "inf")], Some(ms(60_000))),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "NaN")], None),
            (&[("retry-after", "soon")], None),
            (&[("retry-after-ms", "250"), ("retry-after", "7")], Some(ms(250))),
            (
                &[("retry-after-ms", "soon"), ("retry-after", "7")],
                Some(ms(7000)),
            ),
            (
                &[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")],
                Some(ms(10_000)),
            ),
            (&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")], Some(ms(0))),
            (
                &[
                    ("retry-after", "Sun, 06 Nov 1994 09:00:05 GMT"),
                    ("date", "Sun, 06 Nov 1994 09:00:00 GMT"),
                ],
                Some(ms(5000)),
            ),
        ];
        for (pairs, expected) in table {
            assert_eq!(wait(&headers(pairs), now), expected, "{pairs:?}");
        }
    }

    #[test]
    fn request_ids_are_shown_only_in_a_narrow_form() {
        let long = "a".repeat(129);
        let table = [
            ("req_01-A.b:c", true),
            ("", false),
            ("a b", false),
            ("\"x\"", false),
            (&long, false),
        ];
        for (id, shown) in table {
            let found = request_id(&headers(&[("x-typesafe-request-id", id)]));
            assert_eq!(found.as_deref(), shown.then_some(id));
        }
    }
}
