//! Makes a good reply wrong in exactly one way.

use serde_json::{Value, json};

use super::answer::shuffled_text;
use super::behaviour::Distortion;

/// Stands for a bare `NaN` until the text is written; serde cannot write one.
const NAN: &str = "\u{1}bare NaN\u{1}";

/// The text of `reply` after `distortion`.
pub(super) fn distorted_text(mut reply: Value, distortion: &Distortion, seed: u64) -> String {
    match distortion {
        Distortion::Missing(id) => {
            if let Some(answers) = reply["answers"].as_object_mut() {
                answers.remove(id);
            }
        }
        Distortion::Extra(id) => reply["answers"][id] = json!({"type": "noul", "noul": 0.5}),
        Distortion::WrongType(id) => change(&mut reply, id, |answer| {
            *answer = if answer["type"] == "noul" {
                json!({"type": "choice", "choice": "yes", "confidence": 0.9, "probabilities": {"yes": 0.95, "no": 0.05}})
            } else {
                json!({"type": "noul", "noul": 0.5})
            };
        }),
        Distortion::Noul(id, value) => change(&mut reply, id, |answer| answer["noul"] = value.clone()),
        Distortion::BareNan(id) => change(&mut reply, id, |answer| answer["noul"] = json!(NAN)),
        Distortion::UnknownChoice(id) => {
            change(&mut reply, id, |answer| answer["choice"] = json!("escalate"));
        }
        Distortion::UnknownFields => {
            reply["routing"] = json!({"lane": "english", "scores": [1, 2]});
            reply["usage"]["cost"] = json!(0.000_012);
            if let Some(answers) = reply["answers"].as_object_mut() {
                for answer in answers.values_mut() {
                    answer["explanation"] = json!({"text": "because"});
                }
            }
        }
        Distortion::NoAnswers => without(&mut reply, "answers"),
        Distortion::NoModel => without(&mut reply, "model"),
        Distortion::NoUsage => without(&mut reply, "usage"),
        Distortion::Huge(bytes) => reply["padding"] = json!("x".repeat(*bytes)),
    }
    let text = shuffled_text(&reply, seed);
    if matches!(distortion, Distortion::BareNan(_)) {
        return text.replace(&json!(NAN).to_string(), "NaN");
    }
    text
}

fn without(reply: &mut Value, field: &str) {
    if let Some(fields) = reply.as_object_mut() {
        fields.remove(field);
    }
}

fn change(reply: &mut Value, id: &str, change: impl FnOnce(&mut Value)) {
    if let Some(answer) = reply["answers"].get_mut(id) {
        change(answer);
    }
}
