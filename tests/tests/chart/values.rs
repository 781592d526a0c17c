//! Every value: it has a default and a schema, and the schema takes nothing that it does not know.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use jevmetrics_testkit::helm::chart;
use serde_json::Value;

/// Below it are fields of Kubernetes, which have no default each.
const OF_KUBERNETES: &str = "resources";
/// Of a chart that this one is part of: Helm puts it there.
const OF_THE_PARENT: &str = "global";

pub(crate) fn defaults() -> Value {
    let text = fs::read_to_string(chart().join("values.yaml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

fn schema() -> Value {
    let text = fs::read_to_string(chart().join("values.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Values that are set as one, by their path with dots.
pub(crate) fn leaves(values: &Value) -> BTreeMap<String, Value> {
    fn collect(path: &str, value: &Value, found: &mut BTreeMap<String, Value>) {
        match value.as_object() {
            Some(fields) if path != OF_KUBERNETES && (path.is_empty() || !fields.is_empty()) => {
                for (name, value) in fields {
                    collect(&join(path, name), value, found);
                }
            }
            _ => {
                found.insert(path.to_owned(), value.clone());
            }
        }
    }
    let mut found = BTreeMap::new();
    collect("", values, &mut found);
    assert!(found.len() > 30, "{found:?}");
    found
}

/// The schema of each of them.
pub(crate) fn described() -> BTreeMap<String, Value> {
    fn collect(path: &str, schema: &Value, found: &mut BTreeMap<String, Value>) {
        match schema["properties"].as_object() {
            Some(properties) if path != OF_KUBERNETES => {
                for (name, schema) in properties {
                    collect(&join(path, name), schema, found);
                }
            }
            _ => {
                found.insert(path.to_owned(), schema.clone());
            }
        }
    }
    let mut found = BTreeMap::new();
    collect("", &schema(), &mut found);
    assert!(found.remove(OF_THE_PARENT).is_some());
    found
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

pub(crate) fn keys(map: &BTreeMap<String, Value>) -> Vec<&str> {
    map.keys().map(String::as_str).collect()
}

#[test]
fn every_value_has_a_default_and_a_schema() {
    assert_eq!(keys(&described()), keys(&leaves(&defaults())));
}

/// Every schema that describes a value, with its path.
fn schemas() -> Vec<(String, Value)> {
    fn collect(path: &str, schema: &Value, found: &mut Vec<(String, Value)>) {
        found.push((path.to_owned(), schema.clone()));
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            collect(&join(path, name), schema, found);
        }
        for field in ["items", "additionalProperties"] {
            if schema[field].is_object() {
                collect(&format!("{path}[]"), &schema[field], found);
            }
        }
    }
    let mut found = Vec::new();
    collect("", &schema(), &mut found);
    found
}

#[test]
fn an_object_of_ours_takes_no_field_that_it_does_not_know() {
    for (path, schema) in schemas() {
        if schema["properties"].is_object() {
            assert_eq!(schema["additionalProperties"], false, "{path}");
        }
    }
    let open: BTreeSet<String> = schemas()
        .into_iter()
        .filter(|(_, schema)| {
            schema["type"] == "object"
                && schema["properties"].is_null()
                && schema["additionalProperties"].is_null()
        })
        .map(|(path, _)| path)
        .collect();
    // Kubernetes judges what is in them.
    let passed_on = [
        "affinity",
        OF_THE_PARENT,
        "resources.claims[]",
        "tolerations[]",
        "topologySpreadConstraints[]",
    ];
    assert_eq!(open, passed_on.map(str::to_owned).into());
}

#[test]
fn every_value_is_described_and_bounded() {
    for (path, schema) in schemas().into_iter().filter(|(path, _)| !path.is_empty()) {
        if !path.ends_with("[]") {
            assert!(
                schema["description"].as_str().is_some_and(|text| text.len() > 10),
                "{path}"
            );
        }
        let has = |field: &str| !schema[field].is_null();
        if schema["type"] == "string" && !path.to_lowercase().ends_with("annotations[]") {
            assert!(has("enum") || has("pattern"), "{path}");
        }
        if schema["type"] == "integer" {
            assert!(has("minimum") && has("maximum"), "{path}");
        }
    }
}
