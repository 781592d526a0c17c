//! Everything that the endpoint, or something in front of it, has been seen to do in place of answering well.

use std::time::{Duration, SystemTime};

use http::StatusCode;
use serde_json::{Value, json};

/// What happens to one request for an evaluation.
#[derive(Debug, Clone)]
pub enum Behaviour {
    /// Checks the request and answers it.
    Answer,
    /// Checks the request and answers with a reply that is wrong in one way.
    Distorted(Distortion),
    /// Answers with this, whatever was asked.
    Reply(Reply),
    /// 422 with an array that echoes the request.
    Unprocessable,
    /// A good answer whose body ends in the middle of what was announced.
    Truncated,
    /// The connection ends without an answer.
    Closed,
    /// Nothing, until the client goes away.
    Silent,
    /// Waits first.
    Slow(Duration, Box<Behaviour>),
}

/// One way in which a reply with status 200 is wrong or odd. Question ids that were not asked change nothing.
#[derive(Debug, Clone)]
pub enum Distortion {
    /// The answer to this question is missing.
    Missing(String),
    /// An answer to a question nobody asked: harmless.
    Extra(String),
    /// The answer to this question is of another type.
    WrongType(String),
    /// This noul has this value: out of range, a text, null.
    Noul(String, Value),
    /// This noul is a bare `NaN`, which is not JSON though some encoders write it.
    BareNan(String),
    /// This choice is an option nobody offered.
    UnknownChoice(String),
    /// Fields nobody knows, on every level: harmless.
    UnknownFields,
    /// `answers` is missing.
    NoAnswers,
    /// `model` is missing.
    NoModel,
    /// `usage` is missing.
    NoUsage,
    /// A well-formed reply with this many bytes of padding.
    Huge(usize),
}

/// A hint when to come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryHint {
    /// `retry-after` in seconds.
    Seconds(u64),
    /// `retry-after` as an HTTP date, this far from now.
    DateIn(Duration),
    /// `retry-after-ms`.
    Milliseconds(u64),
}

/// A complete answer.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) content_type: &'static str,
    pub(super) body: String,
}

impl Reply {
    /// A JSON body.
    pub fn json(status: StatusCode, body: &Value) -> Self {
        Self::text(status, "application/json", body.to_string())
    }

    /// Any body; an empty one has no content type.
    pub fn text(status: StatusCode, content_type: &'static str, body: impl Into<String>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            content_type,
            body: body.into(),
        }
    }

    /// With a header more.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn hint(self, hint: RetryHint) -> Self {
        match hint {
            RetryHint::Seconds(seconds) => self.header("retry-after", seconds.to_string()),
            RetryHint::DateIn(wait) => {
                self.header("retry-after", httpdate::fmt_http_date(SystemTime::now() + wait))
            }
            RetryHint::Milliseconds(wait) => self.header("retry-after-ms", wait.to_string()),
        }
    }
}

impl Behaviour {
    /// Waits, then answers well: the cold start if queued once, a slow service if standing.
    pub fn slow(delay: Duration) -> Self {
        Self::Slow(delay, Box::new(Self::Answer))
    }

    /// 401, as for a wrong key.
    pub fn unauthorized() -> Self {
        detail(StatusCode::UNAUTHORIZED, &json!("Unauthorized"))
    }

    /// 403, as for a missing header.
    pub fn forbidden() -> Self {
        detail(StatusCode::FORBIDDEN, &json!("Not authenticated"))
    }

    /// 400 with an object.
    pub fn bad_request_object() -> Self {
        detail(
            StatusCode::BAD_REQUEST,
            &json!({"error_type": "api_usage_error", "message": "Invalid request."}),
        )
    }

    /// 400 with a text.
    pub fn bad_request_text() -> Self {
        detail(
            StatusCode::BAD_REQUEST,
            &json!("Too many score levels. Must have at most 10 levels."),
        )
    }

    /// 400: over a token limit; the object has no message.
    pub fn too_many_tokens() -> Self {
        detail(
            StatusCode::BAD_REQUEST,
            &json!({"error_type": "max_tokens_exceeded"}),
        )
    }

    /// 402: no credit.
    pub fn payment_required() -> Self {
        detail(
            StatusCode::PAYMENT_REQUIRED,
            &json!({"error_type": "billing_error", "message": "Insufficient credit."}),
        )
    }

    /// 404: wrong path.
    pub fn not_found() -> Self {
        detail(StatusCode::NOT_FOUND, &json!("Not Found"))
    }

    /// 413 as Laya says it.
    pub fn too_large() -> Self {
        detail(
            StatusCode::PAYLOAD_TOO_LARGE,
            &json!("state too long: at most 50000 characters"),
        )
    }

    /// 422 with a text.
    pub fn unprocessable_text() -> Self {
        detail(
            StatusCode::UNPROCESSABLE_ENTITY,
            &json!("state is longer than the model can read"),
        )
    }

    /// 429, with or without a hint.
    pub fn rate_limited(hint: Option<RetryHint>) -> Self {
        hinted(StatusCode::TOO_MANY_REQUESTS, &json!("Rate limit exceeded"), hint)
    }

    /// 500.
    pub fn internal_error() -> Self {
        detail(StatusCode::INTERNAL_SERVER_ERROR, &json!("Internal Server Error"))
    }

    /// 502 with a proxy's HTML page.
    pub fn bad_gateway_html() -> Self {
        let page = "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>";
        Self::Reply(Reply::text(StatusCode::BAD_GATEWAY, "text/html", page))
    }

    /// 502 with no body.
    pub fn bad_gateway_empty() -> Self {
        Self::Reply(Reply::text(StatusCode::BAD_GATEWAY, "", ""))
    }

    /// 503, with or without a hint.
    pub fn unavailable(hint: Option<RetryHint>) -> Self {
        hinted(
            StatusCode::SERVICE_UNAVAILABLE,
            &json!("Service Unavailable"),
            hint,
        )
    }

    /// 529: overloaded.
    pub fn overloaded() -> Self {
        let status = StatusCode::from_u16(529).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        detail(
            status,
            &json!({"error_type": "system_overloaded", "message": "The system is overloaded."}),
        )
    }

    /// 200 and a body that is not JSON.
    pub fn not_json() -> Self {
        Self::Reply(Reply::text(
            StatusCode::OK,
            "application/json",
            "the answers are: yes, no, perhaps",
        ))
    }

    /// 429 in a gateway's envelope.
    pub fn gateway_envelope() -> Self {
        let body =
            json!({"error": {"code": 429, "message": "Provider returned error", "type": "rate_limit"}});
        Self::Reply(Reply::json(StatusCode::TOO_MANY_REQUESTS, &body))
    }

    /// 200 in Cloudflare's envelope, which hides a failure.
    pub fn cloudflare_envelope() -> Self {
        let body = json!({"result": null, "success": false, "errors": [{"code": 3036, "message": "capacity"}], "messages": []});
        Self::Reply(Reply::json(StatusCode::OK, &body).header("cf-ray", "8f1e2d3c4b5a6978-FRA"))
    }

    /// 307 to the same path at another server.
    pub fn redirect(base_url: &str) -> Self {
        let location = format!("{base_url}/v1/systemone");
        Self::Reply(Reply::text(StatusCode::TEMPORARY_REDIRECT, "", "").header("location", location))
    }

    /// 200, with padding beyond 1 MiB.
    pub fn huge() -> Self {
        Self::Distorted(Distortion::Huge((1 << 20) + (1 << 19)))
    }

    /// All replies that are no usable answer for the questions `keep` (noul) and `action` (choice), each with
    /// a name for messages. Those that only end with the client's patience are not among them.
    pub fn failures() -> Vec<(&'static str, Self)> {
        let keep = || "keep".to_owned();
        let distorted = |distortion| Self::Distorted(distortion);
        vec![
            ("401", Self::unauthorized()),
            ("403", Self::forbidden()),
            ("400 object", Self::bad_request_object()),
            ("400 text", Self::bad_request_text()),
            ("400 tokens", Self::too_many_tokens()),
            ("402", Self::payment_required()),
            ("404", Self::not_found()),
            ("413", Self::too_large()),
            ("422 array", Self::Unprocessable),
            ("422 text", Self::unprocessable_text()),
            ("429", Self::rate_limited(None)),
            ("429 seconds", Self::rate_limited(Some(RetryHint::Seconds(2)))),
            (
                "429 date",
                Self::rate_limited(Some(RetryHint::DateIn(Duration::from_secs(2)))),
            ),
            (
                "429 milliseconds",
                Self::rate_limited(Some(RetryHint::Milliseconds(1_500))),
            ),
            ("429 envelope", Self::gateway_envelope()),
            ("500", Self::internal_error()),
            ("502 html", Self::bad_gateway_html()),
            ("502 empty", Self::bad_gateway_empty()),
            ("503", Self::unavailable(None)),
            ("529", Self::overloaded()),
            ("truncated", Self::Truncated),
            ("closed", Self::Closed),
            ("missing answer", distorted(Distortion::Missing(keep()))),
            ("wrong type", distorted(Distortion::WrongType(keep()))),
            ("above range", distorted(Distortion::Noul(keep(), json!(1.01)))),
            ("below range", distorted(Distortion::Noul(keep(), json!(-0.01)))),
            (
                "text for a number",
                distorted(Distortion::Noul(keep(), json!("NaN"))),
            ),
            ("null", distorted(Distortion::Noul(keep(), Value::Null))),
            ("bare NaN", distorted(Distortion::BareNan(keep()))),
            (
                "unknown action",
                distorted(Distortion::UnknownChoice("action".to_owned())),
            ),
            ("no answers", distorted(Distortion::NoAnswers)),
            ("not JSON", Self::not_json()),
            ("cloudflare envelope", Self::cloudflare_envelope()),
            ("huge", Self::huge()),
        ]
    }
}

fn detail(status: StatusCode, detail: &Value) -> Behaviour {
    hinted(status, detail, None)
}

fn hinted(status: StatusCode, detail: &Value, hint: Option<RetryHint>) -> Behaviour {
    let reply = Reply::json(status, &json!({"detail": detail}));
    Behaviour::Reply(match hint {
        Some(hint) => reply.hint(hint),
        None => reply,
    })
}
