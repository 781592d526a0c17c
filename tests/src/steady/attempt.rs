//! One attempt to export, and what its answer means to an exporter that keeps to OTLP.

use std::time::Duration;

use bytes::Bytes;
use tonic::Code;

use super::Protocol;
use crate::source::{
    GrpcOptions, GrpcOutcome, GrpcSender, HttpError, HttpOptions, HttpOutcome, HttpSender, PartialSuccess,
};

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Taken, but for so many points.
    Accepted { rejected: u64 },
    /// Not taken, or nobody knows: to be sent again, not before the wait is over.
    Temporary { cause: Cause, wait: Option<Duration> },
    /// Never to be sent again.
    Permanent { cause: Cause },
}

/// Why an attempt was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cause {
    /// One of a few words.
    pub(super) code: String,
    /// What was said.
    pub(super) message: String,
}

impl Cause {
    fn no_answer(message: &str) -> Self {
        Self {
            code: "no answer".to_owned(),
            message: message.to_owned(),
        }
    }
}

/// A connection, of either protocol.
#[derive(Debug, Clone)]
pub(super) enum Sender {
    Grpc(GrpcSender),
    Http(HttpSender),
}

/// The endpoint is no URL.
#[derive(Debug, thiserror::Error)]
#[error("cannot send to {endpoint}: {reason}")]
pub struct EndpointError {
    endpoint: String,
    reason: String,
}

impl Sender {
    pub(super) fn new(protocol: Protocol, endpoint: &str) -> Result<Self, EndpointError> {
        let wrong = |reason: String| EndpointError {
            endpoint: endpoint.to_owned(),
            reason,
        };
        let uri: http::Uri = endpoint.parse().map_err(|error| wrong(format!("{error}")))?;
        if uri.scheme_str() != Some("http") || uri.authority().is_none() {
            return Err(wrong("it must be http://HOST:PORT".to_owned()));
        }
        Ok(match protocol {
            Protocol::Grpc => {
                Self::Grpc(GrpcSender::lazy(endpoint).map_err(|error| wrong(error.to_string()))?)
            }
            Protocol::Http => {
                Self::Http(HttpSender::new(endpoint).map_err(|error| wrong(error.to_string()))?)
            }
        })
    }

    pub(super) async fn attempt(&self, body: Bytes, deadline: Duration) -> Outcome {
        match self {
            Self::Grpc(sender) => {
                let options = GrpcOptions {
                    deadline: Some(deadline),
                    ..GrpcOptions::default()
                };
                // The channel waits for its connection before the deadline of the call begins.
                match tokio::time::timeout(deadline, sender.send(body, &options)).await {
                    Ok(outcome) => of_grpc(&outcome),
                    Err(_) => Outcome::Temporary {
                        cause: Cause::no_answer("the deadline has passed"),
                        wait: None,
                    },
                }
            }
            Self::Http(sender) => {
                let options = HttpOptions {
                    timeout: Some(deadline),
                    ..HttpOptions::default()
                };
                of_http(&sender.send(body, &options).await)
            }
        }
    }
}

fn of_grpc(outcome: &GrpcOutcome) -> Outcome {
    let cause = if outcome.is_answered {
        Cause {
            code: format!("{:?}", outcome.code),
            message: outcome.message.clone(),
        }
    } else {
        Cause::no_answer(&outcome.message)
    };
    match outcome.code {
        Code::Ok => accepted(outcome.partial_success.as_ref()),
        // Exporters of all languages call a broken connection UNAVAILABLE; this client has other words.
        _ if !outcome.is_answered => Outcome::Temporary { cause, wait: None },
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => Outcome::Temporary {
            cause,
            wait: outcome.retry_after,
        },
        Code::ResourceExhausted if outcome.retry_after.is_some() => Outcome::Temporary {
            cause,
            wait: outcome.retry_after,
        },
        _ => Outcome::Permanent { cause },
    }
}

fn of_http(answer: &Result<HttpOutcome, HttpError>) -> Outcome {
    let outcome = match answer {
        Ok(outcome) => outcome,
        Err(error) => {
            return Outcome::Temporary {
                cause: Cause::no_answer(&error.to_string()),
                wait: None,
            };
        }
    };
    let said = outcome.rpc_status.as_ref().map(|status| status.message.clone());
    let cause = Cause {
        code: outcome.status.to_string(),
        message: said.unwrap_or_default(),
    };
    match outcome.status {
        200 => accepted(outcome.partial_success.as_ref()),
        429 | 502 | 503 | 504 => Outcome::Temporary {
            cause,
            wait: outcome.retry_after,
        },
        _ => Outcome::Permanent { cause },
    }
}

fn accepted(partial: Option<&PartialSuccess>) -> Outcome {
    let rejected = partial.map_or(0, |partial| partial.rejected);
    Outcome::Accepted {
        rejected: u64::try_from(rejected).unwrap_or(0),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::poll;
    use crate::sink::{Answer, Refusal, Sink};

    const DEADLINE: Duration = Duration::from_secs(30);

    /// What an attempt over `protocol` comes to if the backend answers so.
    async fn attempt(protocol: Protocol, answer: Answer) -> Outcome {
        let sink = Sink::start().await.unwrap();
        sink.script().once(answer);
        let sender = Sender::new(protocol, &sink.endpoint()).unwrap();
        sender.attempt(Bytes::new(), DEADLINE).await
    }

    fn code(outcome: &Outcome) -> (bool, &str) {
        match outcome {
            Outcome::Accepted { .. } => panic!("accepted"),
            Outcome::Temporary { cause, .. } => (true, &cause.code),
            Outcome::Permanent { cause } => (false, &cause.code),
        }
    }

    #[tokio::test]
    async fn codes_and_statuses_are_temporary_as_otlp_says() {
        for number in 1..=16 {
            let refusal = Refusal::new(Code::from(number), StatusCode::BAD_REQUEST, "x");
            let outcome = attempt(Protocol::Grpc, Answer::Refuse(refusal.clone())).await;
            let is_temporary = matches!(number, 1 | 4 | 10 | 11 | 14 | 15);
            let name = format!("{:?}", Code::from(number));
            assert_eq!(code(&outcome), (is_temporary, name.as_str()));
            // With a wait, a full backend is one that will have room.
            let outcome = attempt(Protocol::Grpc, Answer::Refuse(refusal.after(DEADLINE))).await;
            assert_eq!(code(&outcome), (is_temporary || number == 8, name.as_str()));
            if let Outcome::Temporary { wait, .. } = outcome {
                assert_eq!(wait, Some(DEADLINE));
            }
        }
        for status in [400, 401, 403, 404, 413, 429, 500, 502, 503, 504] {
            let refusal = Refusal::new(Code::Unknown, StatusCode::from_u16(status).unwrap(), "x");
            let outcome = attempt(Protocol::Http, Answer::Refuse(refusal.after(DEADLINE))).await;
            let is_temporary = matches!(status, 429 | 502..=504);
            assert_eq!(code(&outcome), (is_temporary, status.to_string().as_str()));
            if let Outcome::Temporary { wait, .. } = outcome {
                assert_eq!(wait, Some(DEADLINE));
            }
        }
    }

    #[tokio::test]
    async fn without_an_answer_an_attempt_is_temporary() {
        for protocol in [Protocol::Grpc, Protocol::Http] {
            let outcome = attempt(protocol, Answer::Close).await;
            assert_eq!(code(&outcome), (true, "no answer"), "{outcome:?}");

            let sink = Sink::start().await.unwrap();
            let sender = Sender::new(protocol, &sink.endpoint()).unwrap();
            sink.script().once(Answer::Hang);
            let outcome = sender.attempt(Bytes::new(), Duration::from_millis(50)).await;
            assert_eq!(code(&outcome), (true, "no answer"), "{outcome:?}");
            sink.stop().await;
            poll::until_some("a refused connection", DEADLINE, async || {
                let outcome = sender.attempt(Bytes::new(), DEADLINE).await;
                (code(&outcome) == (true, "no answer")).then_some(())
            })
            .await
            .unwrap();
        }
    }

    #[tokio::test]
    async fn an_accepting_answer_says_how_much_it_took() {
        for protocol in [Protocol::Grpc, Protocol::Http] {
            let partial = Answer::Partial {
                rejected: 3,
                message: "odd".to_owned(),
            };
            assert_eq!(
                attempt(protocol, partial).await,
                Outcome::Accepted { rejected: 3 }
            );
            assert_eq!(
                attempt(protocol, Answer::Accept).await,
                Outcome::Accepted { rejected: 0 }
            );
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused_at_once() {
        for endpoint in ["", "host:4317", "https://host:4317", "http://", "http:// x"] {
            for protocol in [Protocol::Grpc, Protocol::Http] {
                assert!(Sender::new(protocol, endpoint).is_err(), "{endpoint}");
            }
        }
    }
}
