//! Rules of the Kubernetes API conventions that a schema can be held to.

use jevmetrics_api::policy;
use serde_json::Value;

/// A field with its path, as far as it is ours: Kubernetes' own types are described elsewhere.
struct Field {
    path: String,
    schema: Value,
}

fn fields() -> Vec<Field> {
    let definition = serde_json::to_value(policy::definition().unwrap()).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut found = Vec::new();
    collect("spec", &schema["properties"]["spec"], &mut found);
    collect("status", &schema["properties"]["status"], &mut found);
    assert!(found.len() > 60, "only {} fields were found", found.len());
    found
}

fn collect(path: &str, schema: &Value, found: &mut Vec<Field>) {
    found.push(Field {
        path: path.to_owned(),
        schema: schema.clone(),
    });
    if let Some(properties) = schema["properties"].as_object() {
        for (name, field) in properties {
            collect(&format!("{path}.{name}"), field, found);
        }
    }
    if schema["items"].is_object() {
        collect(&format!("{path}[]"), &schema["items"], found);
    }
    if schema["additionalProperties"].is_object() {
        collect(&format!("{path}{{}}"), &schema["additionalProperties"], found);
    }
}

/// Kubernetes' own types keep to rules of their own.
fn is_ours(field: &Field) -> bool {
    let foreign = [
        "affinity",
        "resources",
        "tolerations[]",
        "topologySpreadConstraints[]",
    ];
    let below = field.path.strip_prefix("spec.template.").unwrap_or_default();
    !foreign.iter().any(|name| below.starts_with(&format!("{name}.")))
        && !field.path.contains("conditions[].")
}

fn broken(rule: impl Fn(&Field) -> bool) -> Vec<String> {
    fields()
        .into_iter()
        .filter(|field| !rule(field))
        .map(|field| field.path)
        .collect()
}

fn broken_in_ours(rule: impl Fn(&Field) -> bool) -> Vec<String> {
    broken(|field| !is_ours(field) || rule(field))
}

const NONE: [String; 0] = [];

#[test]
fn every_field_says_what_it_is() {
    let described = |field: &Field| {
        field.path.ends_with("[]")
            || field.path.ends_with("{}")
            || field.schema["description"]
                .as_str()
                .is_some_and(|text| text.len() > 10)
    };
    assert_eq!(broken_in_ours(described), NONE);
}

#[test]
fn every_text_has_a_longest_length_or_a_list_of_choices() {
    let bounded = |field: &Field| {
        field.schema["type"] != "string"
            || field.schema["maxLength"].is_u64()
            || field.schema["enum"].is_array()
            || field.schema["format"] == "date-time"
    };
    assert_eq!(broken(bounded), NONE);
}

#[test]
fn every_number_is_whole_and_bounded() {
    assert_eq!(broken(|field| field.schema["type"] != "number"), NONE);
    let bounded = |field: &Field| {
        let schema = &field.schema;
        let is_counter = field.path.starts_with("status.");
        schema["type"] != "integer"
            || (matches!(schema["format"].as_str(), Some("int32" | "int64"))
                && schema["minimum"]
                    .as_f64()
                    .is_some_and(|least| least.fract() == 0.0)
                && (is_counter || schema["maximum"].is_number()))
    };
    assert_eq!(broken(bounded), NONE);
}

#[test]
fn every_list_has_a_longest_length_and_says_how_it_is_merged() {
    let complete = |field: &Field| {
        let schema = &field.schema;
        schema["type"] != "array"
            || (schema["maxItems"].is_u64()
                && match schema["x-kubernetes-list-type"].as_str() {
                    Some("map") => schema["x-kubernetes-list-map-keys"].is_array(),
                    Some("set" | "atomic") => true,
                    _ => false,
                })
    };
    assert_eq!(broken(complete), NONE);
}

#[test]
fn every_map_has_a_largest_size() {
    let bounded = |field: &Field| {
        field.schema["additionalProperties"].is_null() || field.schema["maxProperties"].is_u64()
    };
    assert_eq!(broken(bounded), NONE);
}

#[test]
fn nothing_is_nullable_and_nothing_takes_whatever_comes() {
    let plain = |field: &Field| {
        field.schema["nullable"].is_null() && field.schema["x-kubernetes-preserve-unknown-fields"].is_null()
    };
    assert_eq!(broken(plain), NONE);
}

#[test]
fn no_boolean_where_a_word_grows_better() {
    assert_eq!(broken_in_ours(|field| field.schema["type"] != "boolean"), NONE);
}

#[test]
fn choices_are_words_that_begin_with_a_capital() {
    let capital = |field: &Field| {
        let choices = field.schema["enum"].as_array();
        let is_word = |choice: &Value| {
            choice
                .as_str()
                .is_some_and(|word| word.starts_with(|first: char| first.is_ascii_uppercase()))
        };
        choices.is_none_or(|choices| choices.iter().all(is_word))
    };
    assert_eq!(broken_in_ours(capital), NONE);
}

#[test]
fn durations_carry_their_unit_in_the_name() {
    let named = |field: &Field| {
        let name = field.path.rsplit('.').next().unwrap_or_default().to_lowercase();
        let is_duration = ["timeout", "ttl", "age", "interval"]
            .iter()
            .any(|word| name.contains(word))
            && field.schema["type"] == "integer";
        field.schema["format"] != "duration"
            && (!is_duration || name.ends_with("seconds") || name.ends_with("milliseconds"))
    };
    assert_eq!(broken_in_ours(named), NONE);
}

#[test]
fn conditions_are_keyed_by_their_type() {
    let fields = fields();
    let conditions = fields
        .iter()
        .find(|field| field.path == "status.conditions")
        .unwrap();
    assert_eq!(conditions.schema["x-kubernetes-list-type"], "map");
    assert_eq!(
        conditions.schema["x-kubernetes-list-map-keys"],
        serde_json::json!(["type"])
    );
}

#[test]
fn every_rule_names_its_field() {
    fn rules(schema: &Value, found: &mut Vec<Value>) {
        match schema {
            Value::Object(fields) => {
                found.extend(
                    fields
                        .get("x-kubernetes-validations")
                        .and_then(Value::as_array)
                        .cloned()
                        .unwrap_or_default(),
                );
                fields.values().for_each(|field| rules(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| rules(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    rules(
        &serde_json::to_value(policy::definition().unwrap()).unwrap(),
        &mut found,
    );
    assert!(found.len() >= 15, "{}", found.len());
    for rule in found {
        let message = rule["message"].as_str().unwrap_or_default();
        let (field, must) = message.split_once(": ").unwrap_or_default();
        assert!(
            field.starts_with("spec.") || field == "metadata.name",
            "{message}"
        );
        assert!(must.starts_with("must "), "{message}");
    }
}

#[test]
fn the_definition_fits_a_client_side_apply() {
    let bytes = serde_json::to_vec(&policy::definition().unwrap()).unwrap().len();
    // kubectl keeps the whole object in an annotation; the limit for all annotations is 256 KiB.
    assert!(bytes < 200_000, "{bytes} bytes");
}
