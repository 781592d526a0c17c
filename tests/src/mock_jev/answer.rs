//! From opinion and questions to a well-formed reply, and from a reply to bytes.

use std::cell::RefCell;

use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::{Map, Value, json};

use super::judge::{Opinion, hash};
use super::question::Question;
use super::request::Evaluation;

/// Tokens of a small state, and of each short question [measured by others: 290 + 20 per noul].
const TOKENS_FIXED: u64 = 290;
const TOKENS_PER_NOUL: u64 = 20;
const TOKENS_PER_OTHER: u64 = 30;

/// The reply to `evaluation` by the model `model`.
pub(super) fn reply(evaluation: &Evaluation, model: &str, name: &str, opinion: &Opinion) -> Value {
    let answers: Map<String, Value> = evaluation
        .questions
        .iter()
        .map(|(id, question)| (id.clone(), answer(id, question, name, opinion)))
        .collect();
    json!({"model": model, "answers": answers, "usage": usage(evaluation)})
}

/// Tokens that `evaluation` costs.
pub(super) fn input_tokens(evaluation: &Evaluation) -> u64 {
    let question = |(_, question): &(String, Question)| match question {
        Question::Noul => TOKENS_PER_NOUL,
        Question::Choice(_) | Question::Score(_) => TOKENS_PER_OTHER,
    };
    TOKENS_FIXED + evaluation.questions.iter().map(question).sum::<u64>()
}

fn usage(evaluation: &Evaluation) -> Value {
    let output = 18 * evaluation.questions.len();
    json!({"input_tokens": input_tokens(evaluation), "output_tokens": output})
}

fn answer(id: &str, question: &Question, name: &str, opinion: &Opinion) -> Value {
    match question {
        Question::Noul => {
            let probability = match id {
                "relevance" => opinion.relevance,
                "redundancy" => opinion.redundancy,
                "keep" => opinion.keep,
                _ => hundredths(hash(&[name, id]), 101),
            };
            json!({"type": "noul", "noul": round(probability)})
        }
        Question::Choice(options) => choice(id, options, name, opinion),
        Question::Score(levels) => score(id, levels, name),
    }
}

fn choice(id: &str, options: &[String], name: &str, opinion: &Opinion) -> Value {
    let hash = hash(&[name, id]);
    let recommended = options
        .iter()
        .position(|option| option == opinion.action.as_str());
    let chosen = recommended.unwrap_or_else(|| pick(hash, options.len()));
    let (shares, confidence) = distribution(options.len(), chosen, hash);
    let probabilities: Map<String, Value> = options
        .iter()
        .zip(&shares)
        .map(|(option, share)| (option.clone(), json!(share)))
        .collect();
    json!({"type": "choice", "choice": options[chosen], "confidence": confidence, "probabilities": probabilities})
}

#[allow(clippy::cast_precision_loss, reason = "at most 10 levels")]
fn score(id: &str, levels: &[Value], name: &str) -> Value {
    let hash = hash(&[name, id]);
    let (shares, confidence) = distribution(levels.len(), pick(hash, levels.len()), hash);
    let score: f64 = shares
        .iter()
        .enumerate()
        .map(|(level, share)| level as f64 * share)
        .sum();
    let keyed = |values: Vec<Value>| -> Map<String, Value> {
        values
            .into_iter()
            .enumerate()
            .map(|(level, value)| (level.to_string(), value))
            .collect()
    };
    json!({
        "type": "score", "score": round(score), "confidence": confidence, "legend": keyed(levels.to_vec()),
        "probabilities": keyed(shares.iter().map(|share| json!(share)).collect()),
    })
}

/// Two-decimal shares of `count` options, the highest at `chosen`, and the confidence (n·p − 1) / (n − 1).
#[allow(clippy::cast_precision_loss, reason = "at most 255 options")]
fn distribution(count: usize, chosen: usize, hash: u64) -> (Vec<f64>, f64) {
    if count < 2 {
        return (vec![1.0; count], 1.0);
    }
    let others = (count - 1) as f64;
    let highest = round(0.70 + hundredths(hash >> 8, 26));
    let mut shares = vec![round((1.0 - highest) / others); count];
    shares[chosen] = highest;
    (shares, round((count as f64 * highest - 1.0) / others))
}

fn pick(hash: u64, count: usize) -> usize {
    usize::try_from(hash % (count.max(1) as u64)).unwrap_or(0)
}

/// One of 0.00, 0.01, … below `steps` hundredths.
fn hundredths(hash: u64, steps: u8) -> f64 {
    f64::from(u8::try_from(hash % u64::from(steps)).unwrap_or(0)) / 100.0
}

/// To two decimals, as Jev does.
pub(super) fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Writes `value` with the keys of every object in an order drawn from `seed`: Jev's order is not stable.
pub(super) fn shuffled_text(value: &Value, seed: u64) -> String {
    let random = RefCell::new(fastrand::Rng::with_seed(seed));
    // Values always serialise.
    serde_json::to_string(&Shuffled {
        value,
        random: &random,
    })
    .unwrap_or_default()
}

struct Shuffled<'a> {
    value: &'a Value,
    random: &'a RefCell<fastrand::Rng>,
}

impl Serialize for Shuffled<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let child = |value| Shuffled {
            value,
            random: self.random,
        };
        match self.value {
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                self.random.borrow_mut().shuffle(&mut fields);
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (key, value) in fields {
                    map.serialize_entry(key, &child(value))?;
                }
                map.end()
            }
            Value::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for value in items {
                    list.serialize_element(&child(value))?;
                }
                list.end()
            }
            other => other.serialize(serializer),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::{reply, shuffled_text};
    use crate::mock_jev::judge::Opinion;
    use crate::mock_jev::request::read;

    fn evaluate() -> Value {
        let evaluation = read(&json!({"model": "m", "state": {}, "questions": {
            "keep": {"type": "noul", "instructions": "?"},
            "action": {"type": "choice", "instructions": "?", "criteria": {"keep": null, "reduce": null, "drop": null}},
            "colour": {"type": "choice", "instructions": "?", "criteria": {"red": null, "blue": null}},
            "value": {"type": "score", "instructions": "?", "criteria": ["low", "mid", "high"]}}}))
        .unwrap();
        reply(&evaluation, "jev-1.13.0", "n", &Opinion::with_keep(0.123))
    }

    #[test]
    fn every_question_is_answered_in_its_own_form() {
        let reply = evaluate();
        let answers = &reply["answers"];
        assert_eq!(answers["keep"], json!({"type": "noul", "noul": 0.12}));
        assert_eq!(answers["action"]["choice"], "drop");
        assert_eq!(
            answers["value"]["legend"],
            json!({"0": "low", "1": "mid", "2": "high"})
        );
        assert_eq!(reply["usage"]["input_tokens"], 290 + 20 + 3 * 30);
    }

    #[test]
    fn probabilities_and_confidence_agree() {
        for (id, count) in [("action", 3.0), ("colour", 2.0), ("value", 3.0)] {
            let answer = &evaluate()["answers"][id];
            let shares: Vec<f64> = answer["probabilities"]
                .as_object()
                .unwrap()
                .values()
                .map(|v| v.as_f64().unwrap())
                .collect();
            assert!(
                (shares.iter().sum::<f64>() - 1.0).abs() <= 0.021,
                "{id}: {shares:?}"
            );
            let highest = shares.iter().copied().fold(0.0, f64::max);
            let expected = (count * highest - 1.0) / (count - 1.0);
            assert!(
                (answer["confidence"].as_f64().unwrap() - expected).abs() < 0.006,
                "{answer}"
            );
        }
    }

    #[test]
    fn the_order_of_keys_varies_and_the_content_does_not() {
        let reply = evaluate();
        let texts: std::collections::BTreeSet<String> =
            (0..8).map(|seed| shuffled_text(&reply, seed)).collect();
        assert!(texts.len() > 1);
        assert!(
            texts
                .iter()
                .all(|text| serde_json::from_str::<Value>(text).unwrap() == reply)
        );
    }
}
