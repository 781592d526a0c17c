//! A verdict as text in Redis, and back.
//!
//! ```text
//! 1 answers <keep> <relevance> <redundancy> <action> <model>      percents; the model is the rest of the line
//! 1 refused
//! ```
//! Numbers, words and the name of the model that answered: nothing of the instrument. What was written by anything but
//! [`encode`] is not believed.

use super::Verdict;
use crate::retain::answers::{Action, Answers, Percent};

/// First thing in a payload, and part of the assessment version: programs of another format never meet it.
pub const FORMAT: u8 = 1;
/// Longest name of a model, in bytes.
const MODEL_BYTES: usize = 128;

/// A payload that this program did not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a shared assessment is not of the agreed form")]
pub struct BadPayload;

/// The text of a verdict.
pub fn encode(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Assessed { answers, model } => {
            let Answers {
                relevance,
                redundancy,
                keep,
                action,
            } = answers;
            format!(
                "{FORMAT} answers {} {} {} {} {model}",
                keep.get(),
                relevance.get(),
                redundancy.get(),
                action.as_str()
            )
        }
        Verdict::Refused => format!("{FORMAT} refused"),
    }
}

/// Reads the text of a verdict.
pub fn decode(text: &[u8]) -> Result<Verdict, BadPayload> {
    let text = std::str::from_utf8(text).map_err(|_| BadPayload)?;
    let mut words = text.splitn(7, ' ');
    let mut word = || words.next().ok_or(BadPayload);
    if word()? != FORMAT.to_string() {
        return Err(BadPayload);
    }
    let verdict = match word()? {
        "refused" => Verdict::Refused,
        "answers" => Verdict::Assessed {
            answers: Answers {
                keep: percent(word()?)?,
                relevance: percent(word()?)?,
                redundancy: percent(word()?)?,
                action: action(word()?)?,
            },
            model: model(word()?)?,
        },
        _ => return Err(BadPayload),
    };
    // Also refuses other ways to write the same numbers, and words after the last one.
    if encode(&verdict) == text {
        Ok(verdict)
    } else {
        Err(BadPayload)
    }
}

fn percent(word: &str) -> Result<Percent, BadPayload> {
    word.parse().ok().and_then(Percent::new).ok_or(BadPayload)
}

fn action(word: &str) -> Result<Action, BadPayload> {
    [Action::Keep, Action::Reduce, Action::Drop]
        .into_iter()
        .find(|action| action.as_str() == word)
        .ok_or(BadPayload)
}

fn model(name: &str) -> Result<String, BadPayload> {
    if (1..=MODEL_BYTES).contains(&name.len()) && !name.chars().any(char::is_control) {
        Ok(name.to_owned())
    } else {
        Err(BadPayload)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn assessed(model: &str) -> Verdict {
        let percent = |value| Percent::new(value).unwrap();
        Verdict::Assessed {
            answers: Answers {
                relevance: percent(12),
                redundancy: percent(100),
                keep: percent(0),
                action: Action::Reduce,
            },
            model: model.to_owned(),
        }
    }

    #[test]
    fn a_verdict_survives_its_text() {
        assert_eq!(encode(&assessed("jev-1")), "1 answers 0 12 100 reduce jev-1");
        for verdict in [assessed("jev-1"), assessed("a model of words"), Verdict::Refused] {
            assert_eq!(decode(encode(&verdict).as_bytes()), Ok(verdict));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let long = format!("1 answers 0 12 100 keep {}", "m".repeat(129));
        for text in [
            "",
            "1",
            "2 refused",
            "1 refused ",
            "1 refused x",
            "1 answers",
            "1 answers 0 12 100 keep",
            "1 answers 0 12 100 keep ",
            "1 answers 101 12 100 keep m",
            "1 answers -1 12 100 keep m",
            "1 answers 0.5 12 100 keep m",
            "1 answers 00 12 100 keep m",
            "1 answers +1 12 100 keep m",
            "1 answers NaN 12 100 keep m",
            "1 answers 0 12 100 discard m",
            "1 answers 0 12 100 keep m\n",
            "01 answers 0 12 100 keep m",
            "1 answers  12 100 keep m",
            long.as_str(),
        ] {
            assert_eq!(decode(text.as_bytes()), Err(BadPayload), "{text:?}");
        }
        assert_eq!(decode(b"1 answers 0 12 100 keep \xff"), Err(BadPayload));
    }
}
