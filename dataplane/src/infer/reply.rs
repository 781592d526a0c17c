//! From the body of a reply to answers that can be trusted.
//!
//! All or nothing: an answer that is missing, of another type or out of range makes the whole reply a [`BadReply`].
//! Fields that nobody reads are ignored, whatever they hold. Errors name the place and never echo the body:
//! it may hold our own input.

use serde_json::Value;

use super::questions::{ACTION, KEEP, REDUNDANCY, RELEVANCE};
use crate::retain::answers::{Action, Answers, Percent};

/// Longest name of a model, in bytes: it becomes a label.
const MODEL_BYTES: usize = 128;

/// A validated reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The four answers.
    pub answers: Answers,
    /// The model that answered; never empty, at most 128 bytes, without control characters.
    pub model: String,
    /// Tokens used, if the server tells.
    pub usage: Option<Usage>,
}

/// Tokens that one request used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Billed.
    pub input_tokens: u64,
    /// Free.
    pub output_tokens: u64,
}

/// Why a reply is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadReply {
    /// Not JSON, cut short, or nested too deeply.
    #[error("the reply is not JSON")]
    NotJson,
    /// Longer than the limit of the client.
    #[error("the reply is longer than {limit} bytes")]
    TooLong {
        /// In bytes.
        limit: usize,
    },
    /// An envelope of some gateway, or something else entirely.
    #[error("`answers` must be an object")]
    NoAnswers,
    /// Empty, too long, with control characters, or no string.
    #[error("`model` must be a string of 1 to {MODEL_BYTES} bytes without control characters")]
    Model,
    /// A question went unanswered.
    #[error("`answers.{question}` is missing")]
    Missing {
        /// Its id.
        question: &'static str,
    },
    /// An answer to another type of question.
    #[error("`answers.{question}.type` must be `{expected}`")]
    Type {
        /// Its id.
        question: &'static str,
        /// The type that was asked.
        expected: &'static str,
    },
    /// Not a probability.
    #[error("`answers.{question}.noul` must be a number from 0 to 1")]
    Probability {
        /// Its id.
        question: &'static str,
    },
    /// Not one of the offered actions.
    #[error("`answers.action.choice` must be `keep`, `reduce` or `drop`")]
    UnknownAction,
}

/// Reads the body of a reply with status 200.
pub(super) fn parse(body: &[u8]) -> Result<Reply, BadReply> {
    let body: Value = serde_json::from_slice(body).map_err(|_| BadReply::NotJson)?;
    let answers = body
        .get("answers")
        .filter(|answers| answers.is_object())
        .ok_or(BadReply::NoAnswers)?;
    let answers = Answers {
        relevance: noul(answers, RELEVANCE, Percent::from_probability)?,
        redundancy: noul(answers, REDUNDANCY, Percent::from_probability)?,
        // The one that decides: servers with finer steps than Jev's must not be rounded into a drop.
        keep: noul(answers, KEEP, Percent::from_probability_upwards)?,
        action: action(answers)?,
    };
    Ok(Reply {
        answers,
        model: model(&body)?,
        usage: usage(&body),
    })
}

fn noul(
    answers: &Value,
    question: &'static str,
    round: fn(f64) -> Option<Percent>,
) -> Result<Percent, BadReply> {
    answer(answers, question, "noul")?
        .get("noul")
        .and_then(Value::as_f64)
        .and_then(round)
        .ok_or(BadReply::Probability { question })
}

fn action(answers: &Value) -> Result<Action, BadReply> {
    let choice = answer(answers, ACTION, "choice")?
        .get("choice")
        .and_then(Value::as_str);
    [Action::Keep, Action::Reduce, Action::Drop]
        .into_iter()
        .find(|action| choice == Some(action.as_str()))
        .ok_or(BadReply::UnknownAction)
}

fn answer<'a>(
    answers: &'a Value,
    question: &'static str,
    expected: &'static str,
) -> Result<&'a Value, BadReply> {
    let answer = answers.get(question).ok_or(BadReply::Missing { question })?;
    if answer.get("type").and_then(Value::as_str) != Some(expected) {
        return Err(BadReply::Type { question, expected });
    }
    Ok(answer)
}

fn model(body: &Value) -> Result<String, BadReply> {
    body.get("model")
        .and_then(Value::as_str)
        .filter(|model| {
            !model.is_empty() && model.len() <= MODEL_BYTES && !model.chars().any(char::is_control)
        })
        .map(str::to_owned)
        .ok_or(BadReply::Model)
}

/// Decides nothing, so an odd form is no reason to throw answers away.
fn usage(body: &Value) -> Option<Usage> {
    let usage = body.get("usage")?;
    Some(Usage {
        input_tokens: usage.get("input_tokens")?.as_u64()?,
        output_tokens: usage.get("output_tokens")?.as_u64()?,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::infer::fixtures;

    /// A good reply in which the value at `pointer` is replaced.
    fn with(pointer: &str, value: Value) -> Vec<u8> {
        let mut body = fixtures::reply();
        *body.pointer_mut(pointer).unwrap() = value;
        body.to_string().into_bytes()
    }

    /// A good reply without the field `field` of the object at `pointer`.
    fn without(pointer: &str, field: &str) -> Vec<u8> {
        let mut body = fixtures::reply();
        body.pointer_mut(pointer)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove(field)
            .unwrap();
        body.to_string().into_bytes()
    }

    #[test]
    fn a_complete_reply_becomes_whole_percents() {
        let reply = parse(fixtures::reply().to_string().as_bytes()).unwrap();
        assert_eq!(reply.answers.relevance.get(), 91);
        assert_eq!(reply.answers.redundancy.get(), 7);
        assert_eq!(reply.answers.keep.get(), 81);
        assert_eq!(reply.answers.action, Action::Keep);
        assert_eq!(reply.model, "jev-1.13.0");
        assert_eq!(
            reply.usage,
            Some(Usage {
                input_tokens: 402,
                output_tokens: 74
            })
        );
    }

    #[test]
    fn the_bounds_and_integers_are_probabilities() {
        for (value, percent) in [
            (json!(0), 0),
            (json!(1), 100),
            (json!(0.29), 29),
            (json!(0.294), 30),
        ] {
            let reply = parse(&with("/answers/keep/noul", value)).unwrap();
            assert_eq!(
                reply.answers.keep.get(),
                percent,
                "what decides is never rounded down"
            );
        }
        for (value, percent) in [(json!(0.294), 29), (json!(0.295), 30)] {
            let reply = parse(&with("/answers/relevance/noul", value)).unwrap();
            assert_eq!(
                reply.answers.relevance.get(),
                percent,
                "what is shown goes to the nearest"
            );
        }
    }

    #[test]
    fn unknown_fields_and_odd_usage_are_ignored() {
        let mut body = fixtures::reply();
        body["routing"] = json!({"deep": [1, {"x": null}]});
        body["answers"]["keep"]["confidence"] = json!("odd");
        body["answers"]["another"] = json!(7);
        body["usage"] = json!({"input_tokens": -1, "output_tokens": "many"});
        let reply = parse(body.to_string().as_bytes()).unwrap();
        assert_eq!((reply.answers.keep.get(), reply.usage), (81, None));
    }

    #[test]
    fn usage_may_be_missing() {
        assert_eq!(parse(&without("", "usage")).unwrap().usage, None);
    }

    #[test]
    fn anything_else_is_a_named_failure() {
        let missing = |question| BadReply::Missing { question };
        let probability = |question| BadReply::Probability { question };
        let noul = |question| BadReply::Type {
            question,
            expected: "noul",
        };
        let choice = BadReply::Type {
            question: "action",
            expected: "choice",
        };
        let cases = [
            (b"".to_vec(), BadReply::NotJson),
            (b"<html>502</html>".to_vec(), BadReply::NotJson),
            (
                fixtures::reply().to_string().into_bytes()[..40].to_vec(),
                BadReply::NotJson,
            ),
            (b"\xff\xfe".to_vec(), BadReply::NotJson),
            ("[".repeat(100_000).into_bytes(), BadReply::NotJson),
            (b"[]".to_vec(), BadReply::NoAnswers),
            (b"null".to_vec(), BadReply::NoAnswers),
            (
                br#"{"result":{"answers":{}},"success":true}"#.to_vec(),
                BadReply::NoAnswers,
            ),
            (with("/answers", json!([])), BadReply::NoAnswers),
            (without("/answers", "relevance"), missing("relevance")),
            (without("/answers", "redundancy"), missing("redundancy")),
            (without("/answers", "keep"), missing("keep")),
            (without("/answers", "action"), missing("action")),
            (with("/answers/keep", json!(0.5)), noul("keep")),
            (with("/answers/keep/type", json!("boolean")), noul("keep")),
            (without("/answers/relevance", "type"), noul("relevance")),
            (with("/answers/action/type", json!("noul")), choice),
            (with("/answers/keep/noul", json!(1.01)), probability("keep")),
            (with("/answers/keep/noul", json!(-0.01)), probability("keep")),
            (with("/answers/keep/noul", json!("0.5")), probability("keep")),
            (
                with("/answers/redundancy/noul", json!(null)),
                probability("redundancy"),
            ),
            (without("/answers/relevance", "noul"), probability("relevance")),
            (
                with("/answers/action/choice", json!("unsure")),
                BadReply::UnknownAction,
            ),
            (
                with("/answers/action/choice", json!("Keep")),
                BadReply::UnknownAction,
            ),
            (
                with("/answers/action/choice", json!(["keep"])),
                BadReply::UnknownAction,
            ),
            (without("", "model"), BadReply::Model),
            (with("/model", json!("")), BadReply::Model),
            (with("/model", json!(13)), BadReply::Model),
            (with("/model", json!("jev\n1")), BadReply::Model),
            (with("/model", json!("m".repeat(129))), BadReply::Model),
        ];
        for (body, expected) in cases {
            assert_eq!(
                parse(&body),
                Err(expected),
                "{}",
                String::from_utf8_lossy(&body[..body.len().min(300)])
            );
        }
    }

    #[test]
    fn numbers_beyond_any_float_are_refused() {
        let body = fixtures::reply().to_string().replace("0.81", "1e999");
        assert!(parse(body.as_bytes()).is_err());
    }

    #[test]
    fn errors_do_not_echo_the_body() {
        let error = parse(&with("/answers/action/choice", json!("s3cret"))).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("s3cret"));
    }
}
