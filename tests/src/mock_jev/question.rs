//! The three types of questions and what each demands of its criteria.

use serde_json::{Map, Value, json};

use super::request::{Rejection, issue, missing_or};

const MOST_OPTIONS: usize = 255;
const MOST_LEVELS: usize = 10;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Question {
    Noul,
    Choice(Vec<String>),
    Score(Vec<Value>),
}

pub(super) fn read_questions(
    questions: &Map<String, Value>,
    issues: &mut Vec<Value>,
) -> Result<Vec<(String, Question)>, Rejection> {
    let mut read = Vec::new();
    for (id, question) in questions {
        if let Some(question) = read_question(id, question, issues)? {
            read.push((id.clone(), question));
        }
    }
    Ok(read)
}

fn read_question(id: &str, question: &Value, issues: &mut Vec<Value>) -> Result<Option<Question>, Rejection> {
    let Value::Object(fields) = question else {
        issues.push(issue(
            "model_attributes_type",
            &["body", "questions", id],
            "Input should be a valid dictionary",
            question,
        ));
        return Ok(None);
    };
    match fields.get("instructions") {
        // The docs require the key; its value may be null.
        Some(Value::String(_) | Value::Object(_) | Value::Array(_) | Value::Null) => {}
        other => issues.push(missing_or(
            other,
            "string_type",
            &["body", "questions", id, "instructions"],
            "Input should be a valid string, dictionary or list",
            question,
        )),
    }
    for name in fields
        .keys()
        .filter(|name| !["type", "instructions", "criteria"].contains(&name.as_str()))
    {
        issues.push(issue(
            "extra_forbidden",
            &["body", "questions", id, name],
            "Extra inputs are not permitted",
            &fields[name],
        ));
    }
    let criteria = fields.get("criteria");
    match fields.get("type").and_then(Value::as_str) {
        Some("noul") => Ok(read_noul(id, criteria, issues)),
        Some("choice") => read_choice(id, criteria, question, issues),
        Some("score") => read_score(id, criteria, question, issues),
        _ => Err(Rejection::usage("Invalid request.".to_owned())),
    }
}

fn is_text_or_structure(value: &Value) -> bool {
    value.is_string() || value.is_object() || value.is_array()
}

fn read_noul(id: &str, criteria: Option<&Value>, issues: &mut Vec<Value>) -> Option<Question> {
    let fine = match criteria {
        None | Some(Value::Null) => true,
        Some(Value::Object(sides)) => sides.iter().all(|(side, value)| {
            (side == "true" || side == "false") && (value.is_null() || is_text_or_structure(value))
        }),
        Some(_) => false,
    };
    if !fine {
        let input = criteria.unwrap_or(&Value::Null);
        issues.push(issue(
            "value_error",
            &["body", "questions", id, "noul", "criteria"],
            "criteria may have `true` and `false` only",
            input,
        ));
    }
    fine.then_some(Question::Noul)
}

fn read_choice(
    id: &str,
    criteria: Option<&Value>,
    question: &Value,
    issues: &mut Vec<Value>,
) -> Result<Option<Question>, Rejection> {
    let place = ["body", "questions", id, "choice", "criteria"];
    let Some(Value::Object(options)) = criteria else {
        issues.push(missing_or(
            criteria,
            "dict_type",
            &place,
            "Input should be a valid dictionary",
            question,
        ));
        return Ok(None);
    };
    if options.len() > MOST_OPTIONS {
        return Err(Rejection::Limit(format!(
            "Too many choices. Must have at most {MOST_OPTIONS} choices."
        )));
    }
    if options.is_empty() {
        issues.push(issue(
            "too_short",
            &place,
            "Dictionary should have at least 1 item after validation, not 0",
            &json!({}),
        ));
        return Ok(None);
    }
    if let Some(odd) = options
        .values()
        .find(|value| !value.is_null() && !is_text_or_structure(value))
    {
        issues.push(issue(
            "string_type",
            &place,
            "Input should be a valid string, dictionary or list",
            odd,
        ));
        return Ok(None);
    }
    Ok(Some(Question::Choice(options.keys().cloned().collect())))
}

fn read_score(
    id: &str,
    criteria: Option<&Value>,
    question: &Value,
    issues: &mut Vec<Value>,
) -> Result<Option<Question>, Rejection> {
    let place = ["body", "questions", id, "score", "criteria"];
    let Some(Value::Array(levels)) = criteria else {
        issues.push(missing_or(
            criteria,
            "list_type",
            &place,
            "Input should be a valid list",
            question,
        ));
        return Ok(None);
    };
    if levels.len() > MOST_LEVELS {
        return Err(Rejection::Limit(format!(
            "Too many score levels. Must have at most {MOST_LEVELS} levels."
        )));
    }
    if levels.len() < 2 {
        issues.push(issue(
            "too_short",
            &place,
            "List should have at least 2 items after validation",
            &json!(levels),
        ));
        return Ok(None);
    }
    if let Some(odd) = levels.iter().find(|level| !is_text_or_structure(level)) {
        issues.push(issue(
            "string_type",
            &place,
            "Input should be a valid string, dictionary or list",
            odd,
        ));
        return Ok(None);
    }
    Ok(Some(Question::Score(levels.clone())))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Question;
    use crate::mock_jev::request::read;

    fn ask(question: &Value) -> Result<Question, u16> {
        let body = json!({"model": "m", "state": {}, "questions": {"q": question}});
        match read(&body) {
            Ok(mut evaluation) => Ok(evaluation.questions.remove(0).1),
            Err(rejection) => Err(rejection.status().as_u16()),
        }
    }

    #[test]
    fn each_question_type_has_its_criteria_rules() {
        let noul = |criteria| ask(&json!({"type": "noul", "instructions": "?", "criteria": criteria}));
        assert_eq!(noul(json!({"true": "y", "false": null})), Ok(Question::Noul));
        assert_eq!(noul(json!({"maybe": "y"})), Err(422));
        assert_eq!(
            ask(&json!({"type": "noul", "instructions": null})),
            Ok(Question::Noul)
        );
        assert_eq!(ask(&json!({"type": "noul"})), Err(422));
        assert_eq!(ask(&json!({"type": "what", "instructions": "?"})), Err(400));

        let choice = |criteria| ask(&json!({"type": "choice", "instructions": "?", "criteria": criteria}));
        assert_eq!(
            choice(json!({"a": null, "b": "x"})),
            Ok(Question::Choice(vec!["a".into(), "b".into()]))
        );
        assert_eq!(choice(json!({})), Err(422));
        assert_eq!(choice(json!(["a"])), Err(422));
        assert_eq!(choice(json!({"a": 1})), Err(422));
        let many: serde_json::Map<String, Value> = (0..256).map(|n| (n.to_string(), Value::Null)).collect();
        assert_eq!(choice(Value::Object(many)), Err(400));

        let score = |levels| ask(&json!({"type": "score", "instructions": "?", "criteria": levels}));
        assert!(score(json!(["low", {"text": "high"}])).is_ok());
        assert_eq!(score(json!(["one"])), Err(422));
        assert_eq!(score(json!(["one", null])), Err(422));
        assert_eq!(score(json!(vec!["level"; 11])), Err(400));
    }
}
