//! What went wrong with a question, and whom it concerns.
//!
//! Bodies of errors may echo our input, so nothing of them is shown but a code of a narrow form.
//! Pure: `now` is an argument.

use std::fmt;
use std::time::{Duration, SystemTime};

use http::header::{DATE, HeaderMap, RETRY_AFTER};
use http::{HeaderName, StatusCode};
use serde_json::Value;

use super::cooldown::Trouble;
use super::reply::BadReply;

/// Longest wait that a server can ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Longest error code that is shown, in bytes.
const CODE_BYTES: usize = 64;
/// Longest request id that is shown, in bytes.
const REQUEST_ID_BYTES: usize = 128;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-typesafe-request-id");
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

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
    pub(super) fn trouble(self) -> Trouble {
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
            request_id: request_id(headers),
            reason: Some(bad.to_string()),
            ..Self::new(Cause::BadAnswer)
        }
    }

    /// A reply with any status but 200. `body` may be cut short or empty; the status decides.
    pub(super) fn response(status: StatusCode, headers: &HeaderMap, body: &[u8], now: SystemTime) -> Self {
        let body = serde_json::from_slice(body).unwrap_or(Value::Null);
        Self {
            cause: cause(status, &body),
            wait: wait(headers, now),
            status: Some(status.as_u16()),
            code: code(&body),
            request_id: request_id(headers),
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

fn cause(status: StatusCode, body: &Value) -> Cause {
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

/// The error code of one of the known bodies: TypeSafe's object, its list of schema errors, and what gateways
/// and local servers send. `detail` and `error` may as well be plain text, which is never shown.
fn code(body: &Value) -> Option<String> {
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

fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let narrow = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    ((1..=REQUEST_ID_BYTES).contains(&id.len()) && id.bytes().all(narrow)).then(|| id.to_owned())
}

/// The finer header wins. A date is read against the server's own clock if it sent it, else against ours.
fn wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
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
            assert_eq!(failure.code.as_deref(), code, "{body}");
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
        let table: [(&[(&'static str, &str)], Option<Duration>); 15] = [
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
