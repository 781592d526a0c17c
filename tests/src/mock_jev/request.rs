//! Reads an evaluation request as strictly as the real server is known to: what the client sends wrong must
//! show here. Where the real server's behaviour is unknown (fields that are not declared), this one refuses.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::question::{Question, read_questions};

/// A request that the server would evaluate.
#[derive(Debug)]
pub(super) struct Evaluation {
    pub(super) model: String,
    pub(super) questions: Vec<(String, Question)>,
}

/// Why the server would refuse.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Rejection {
    /// 422: `detail` is an array which echoes the input.
    Schema(Vec<Value>),
    /// 400: `detail` is an object.
    Usage {
        error_type: &'static str,
        message: Option<String>,
    },
    /// 400: `detail` is a text.
    Limit(String),
}

/// Limits of jev-1.13 in tokens, estimated here as bytes / 4.
const MOST_TOKENS_PER_QUESTION: usize = 32_768;
const MOST_TOKENS: usize = 65_536;

impl Rejection {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Schema(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Usage { .. } | Self::Limit(_) => StatusCode::BAD_REQUEST,
        }
    }

    pub(super) fn body(&self) -> Value {
        match self {
            Self::Schema(issues) => json!({"detail": issues}),
            Self::Usage {
                error_type,
                message: None,
            } => json!({"detail": {"error_type": error_type}}),
            Self::Usage { error_type, message } => {
                json!({"detail": {"error_type": error_type, "message": message}})
            }
            Self::Limit(text) => json!({"detail": text}),
        }
    }

    pub(super) fn unknown_model(model: &str) -> Self {
        Self::usage(format!("Unknown model: {model}"))
    }

    pub(super) fn not_json(error: &serde_json::Error) -> Self {
        Self::Schema(vec![json!({
            "type": "json_invalid", "loc": ["body", error.column()], "msg": "JSON decode error",
            "input": {}, "ctx": {"error": error.to_string()},
        })])
    }

    /// A 422 as if `body` had been wrong.
    pub(super) fn echo(body: &Value) -> Self {
        Self::Schema(vec![issue(
            "value_error",
            &["body", "state"],
            "Value error, refused by script",
            body,
        )])
    }

    pub(super) fn usage(message: String) -> Self {
        Self::Usage {
            error_type: "api_usage_error",
            message: Some(message),
        }
    }
}

pub(super) fn issue(kind: &str, place: &[&str], message: &str, input: &Value) -> Value {
    json!({"type": kind, "loc": place, "msg": message, "input": input})
}

/// Checks the schema, then the limits.
pub(super) fn read(body: &Value) -> Result<Evaluation, Rejection> {
    let Value::Object(fields) = body else {
        return Err(Rejection::Schema(vec![issue(
            "model_attributes_type",
            &["body"],
            "Input should be a valid dictionary",
            body,
        )]));
    };
    let mut issues = Vec::new();
    for name in fields
        .keys()
        .filter(|name| !["model", "state", "questions"].contains(&name.as_str()))
    {
        issues.push(issue(
            "extra_forbidden",
            &["body", name],
            "Extra inputs are not permitted",
            &fields[name],
        ));
    }
    let model = match fields.get("model") {
        Some(Value::String(model)) => model.clone(),
        other => {
            issues.push(missing_or(
                other,
                "string_type",
                &["body", "model"],
                "Input should be a valid string",
                body,
            ));
            String::new()
        }
    };
    match fields.get("state") {
        Some(Value::String(_) | Value::Object(_) | Value::Array(_)) => {}
        other => issues.push(missing_or(
            other,
            "string_type",
            &["body", "state"],
            "Input should be a valid string, dictionary or list",
            body,
        )),
    }
    let questions = match fields.get("questions") {
        Some(Value::Object(questions)) if questions.is_empty() => {
            issues.push(issue(
                "too_short",
                &["body", "questions"],
                "Dictionary should have at least 1 item after validation, not 0",
                &json!({}),
            ));
            Vec::new()
        }
        Some(Value::Object(questions)) => read_questions(questions, &mut issues)?,
        other => {
            issues.push(missing_or(
                other,
                "dict_type",
                &["body", "questions"],
                "Input should be a valid dictionary",
                body,
            ));
            Vec::new()
        }
    };
    if !issues.is_empty() {
        return Err(Rejection::Schema(issues));
    }
    check_tokens(fields)?;
    Ok(Evaluation { model, questions })
}

pub(super) fn missing_or(
    value: Option<&Value>,
    kind: &str,
    place: &[&str],
    message: &str,
    body: &Value,
) -> Value {
    match value {
        None => issue("missing", place, "Field required", body),
        Some(value) => issue(kind, place, message, value),
    }
}

fn check_tokens(fields: &Map<String, Value>) -> Result<(), Rejection> {
    let tokens = |value: &Value| value.to_string().len() / 4;
    let state = tokens(&fields["state"]);
    let questions: Vec<usize> = fields["questions"]
        .as_object()
        .into_iter()
        .flat_map(Map::values)
        .map(tokens)
        .collect();
    let longest = questions.iter().max().copied().unwrap_or(0);
    if state + longest > MOST_TOKENS_PER_QUESTION || state + questions.iter().sum::<usize>() > MOST_TOKENS {
        return Err(Rejection::Usage {
            error_type: "max_tokens_exceeded",
            message: None,
        });
    }
    Ok(())
}

/// The metric's name: at `metric.name`, else at `name`, else the state itself if it is a text.
pub(super) fn metric_name(state: &Value) -> Option<&str> {
    state
        .pointer("/metric/name")
        .or_else(|| state.get("name"))
        .and_then(Value::as_str)
        .or_else(|| state.get("metric").and_then(Value::as_str))
        .or_else(|| state.as_str())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Rejection, metric_name, read};
    use serde_json::json;

    #[test]
    fn a_schema_error_names_the_place_and_echoes_the_input() {
        let rejection =
            read(&json!({"model": "m", "state": 7, "questions": {}, "extra": "secret"})).unwrap_err();
        let Rejection::Schema(issues) = &rejection else {
            unreachable!()
        };
        assert_eq!(issues.len(), 3);
        assert!(rejection.body().to_string().contains("secret"));
        assert_eq!(issues[1]["loc"], json!(["body", "state"]));
        assert_eq!(issues[1]["input"], json!(7));
    }

    #[test]
    fn too_many_tokens_are_refused_without_a_message() {
        let body = json!({"model": "m", "state": "x".repeat(140_000),
            "questions": {"q": {"type": "noul", "instructions": "?"}}});
        let rejection = read(&body).unwrap_err();
        assert_eq!(
            rejection.body(),
            json!({"detail": {"error_type": "max_tokens_exceeded"}})
        );
    }

    #[test]
    fn the_metric_name_is_found_in_several_layouts() {
        for state in [
            json!({"metric": {"name": "n"}}),
            json!({"name": "n"}),
            json!({"metric": "n"}),
            json!("n"),
        ] {
            assert_eq!(metric_name(&state), Some("n"), "{state}");
        }
        assert_eq!(metric_name(&json!([1])), None);
    }
}
