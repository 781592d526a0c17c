//! What the sink is told to answer, as JSON.
//!
//! ```json
//! {
//!   "clear": true,
//!   "queue": [
//!     {"times": 3, "answer": {"refuse": {"code": 14, "status": 503, "message": "later", "retry_after_milliseconds": 200}}},
//!     {"answer": {"delay": {"milliseconds": 300, "then": "accept"}}},
//!     {"answer": {"partial": {"rejected": 2, "message": "odd"}}},
//!     {"answer": {"accept_then": "close"}},
//!     {"answer": "hang"}
//!   ],
//!   "always": "accept"
//! }
//! ```

use std::time::Duration;

use http::StatusCode;
use jevmetrics_testkit::script;
use jevmetrics_testkit::sink::{self, Refusal, RefusalBody};
use serde::Deserialize;
use tonic::Code;

/// First `clear`, then `queue`, then `always`; what is left out changes nothing.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Script {
    /// Whether to forget what is queued.
    #[serde(default)]
    clear: bool,
    /// For the next requests, in order.
    #[serde(default)]
    queue: Vec<Entry>,
    /// For all requests after them.
    always: Option<Answer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default = "once")]
    times: usize,
    answer: Answer,
}

fn once() -> usize {
    1
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Answer {
    Accept,
    Partial { rejected: i64, message: String },
    Refuse(Refuse),
    AcceptThen(Box<Answer>),
    Delay { milliseconds: u64, then: Box<Answer> },
    Hang,
    Close,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refuse {
    /// Over gRPC: a code, from 1 to 16.
    code: i32,
    /// Over HTTP.
    status: u16,
    message: String,
    retry_after_milliseconds: Option<u64>,
    /// Over HTTP: some proxy's page in place of OTLP's own status; an empty one is nothing.
    html: Option<String>,
}

/// What is wrong with a script.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ScriptError {
    #[error("code {0} must be from 1 to 16")]
    Code(i32),
    #[error("status {0} must be from 400 to 599")]
    Status(u16),
}

impl Script {
    /// Changes `script` as a whole, or not at all.
    pub(crate) fn play(&self, script: &script::Script<sink::Answer>) -> Result<(), ScriptError> {
        let queue = self.queue.iter();
        let queue = queue
            .map(|entry| Ok((entry.times, entry.answer.clone().parse()?)))
            .collect::<Result<Vec<_>, ScriptError>>()?;
        let always = self.always.clone().map(Answer::parse).transpose()?;
        if self.clear {
            script.clear();
        }
        for (times, answer) in &queue {
            script.times(*times, answer);
        }
        if let Some(answer) = always {
            script.always(answer);
        }
        Ok(())
    }
}

impl Answer {
    fn parse(self) -> Result<sink::Answer, ScriptError> {
        Ok(match self {
            Self::Accept => sink::Answer::Accept,
            Self::Partial { rejected, message } => sink::Answer::Partial { rejected, message },
            Self::Refuse(refuse) => sink::Answer::Refuse(refuse.parse()?),
            Self::AcceptThen(then) => sink::Answer::AcceptThen(Box::new(then.parse()?)),
            Self::Delay { milliseconds, then } => {
                sink::Answer::Delay(Duration::from_millis(milliseconds), Box::new(then.parse()?))
            }
            Self::Hang => sink::Answer::Hang,
            Self::Close => sink::Answer::Close,
        })
    }
}

impl Refuse {
    fn parse(self) -> Result<Refusal, ScriptError> {
        if !(1..=16).contains(&self.code) {
            return Err(ScriptError::Code(self.code));
        }
        let status = StatusCode::from_u16(self.status)
            .ok()
            .filter(|status| status.is_client_error() || status.is_server_error())
            .ok_or(ScriptError::Status(self.status))?;
        let mut refusal = Refusal::new(Code::from(self.code), status, &self.message);
        refusal.retry_after = self.retry_after_milliseconds.map(Duration::from_millis);
        refusal.body = match self.html {
            None => RefusalBody::RpcStatus,
            Some(page) if page.is_empty() => RefusalBody::Empty,
            Some(page) => RefusalBody::Html(page),
        };
        Ok(refusal)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Script, ScriptError, script, sink};

    /// The example in this module's head.
    fn example() -> String {
        let head = include_str!("answers.rs").split("//! ```").nth(1).unwrap();
        let lines = head.lines().skip(1);
        lines.map(|line| line.trim_start_matches("//!")).collect()
    }

    fn play(text: &str, onto: &script::Script<sink::Answer>) -> Result<(), ScriptError> {
        serde_json::from_str::<Script>(text).unwrap().play(onto)
    }

    #[test]
    fn the_example_is_played() {
        let target = script::Script::new(sink::Answer::Close);
        target.once(sink::Answer::Hang);
        play(&example(), &target).unwrap();
        assert_eq!(target.queued(), 3 + 4);
    }

    #[test]
    fn a_script_with_a_fault_changes_nothing() {
        let target = script::Script::new(sink::Answer::Accept);
        target.once(sink::Answer::Hang);
        let refuse = |code: i32, status: u16| {
            format!(
                r#"{{"clear":true,"queue":[{{"times":2,"answer":"accept"}}],
                "always":{{"delay":{{"milliseconds":1,"then":{{"refuse":{{"code":{code},"status":{status},"message":"x"}}}}}}}}}}"#
            )
        };
        assert_eq!(play(&refuse(0, 503), &target), Err(ScriptError::Code(0)));
        assert_eq!(play(&refuse(14, 200), &target), Err(ScriptError::Status(200)));
        assert_eq!(target.queued(), 1);
        play(&refuse(14, 503), &target).unwrap();
        assert_eq!(target.queued(), 2);
        for text in [
            r#"{"allways":"accept"}"#,
            r#"{"queue":[{"answer":"x"}]}"#,
            r#"{"queue":[{"time":1,"answer":"hang"}]}"#,
        ] {
            assert!(serde_json::from_str::<Script>(text).is_err(), "{text}");
        }
    }
}
