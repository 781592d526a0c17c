//! The definition of the custom resource as it is installed: what the derive makes of the types, brought to the API
//! conventions.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use serde_json::{Value, json};

use super::JevMetricsPolicy;

/// The definition as an object.
///
/// # Errors
/// None in practice: tests make it.
pub fn definition() -> Result<CustomResourceDefinition, serde_json::Error> {
    serde_json::from_value(value()?)
}

/// The definition as `crds/jevmetricspolicies.yaml` holds it.
///
/// # Errors
/// As [`definition`].
pub fn definition_yaml() -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let yaml = serde_yaml::to_string(&value()?)?;
    Ok(format!(
        "# Generated from crds/src/policy; `make generate` writes it.\n{yaml}"
    ))
}

pub(super) fn value() -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(JevMetricsPolicy::crd())?;
    tidy(&mut value);
    let properties = &mut value["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    bound_maps(&mut properties["spec"]);
    for name in [
        "affinity",
        "resources",
        "tolerations",
        "topologySpreadConstraints",
    ] {
        bound(&mut properties["spec"]["properties"]["template"]["properties"][name]);
    }
    bound_conditions(&mut properties["status"]["properties"]["conditions"]["items"]["properties"]);
    Ok(value)
}

/// Optional fields are absent, never null; whole numbers look like it; formats are Kubernetes' own.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // A field of this name is a mapping, the keyword a boolean.
            if fields.get("nullable").is_some_and(Value::is_boolean) {
                fields.remove("nullable");
            }
            for bound in ["minimum", "maximum"] {
                if let Some(number) = fields.get(bound).and_then(Value::as_f64)
                    && number.fract() == 0.0
                {
                    #[allow(clippy::cast_possible_truncation, reason = "bounds of int32 and int64 fields")]
                    fields.insert(bound.to_owned(), Value::from(number as i64));
                }
            }
            fields.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// The derive cannot bound the values of a map. 4,096 characters are more than a label may have; the API server
/// checks labels when it sees the pods.
fn bound_maps(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    if let Some(values) = fields
        .get_mut("additionalProperties")
        .and_then(Value::as_object_mut)
    {
        values.insert("maxLength".to_owned(), 4096.into());
    }
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(bound_maps);
    }
}

/// As `metav1.Condition` is bounded in Kubernetes' own definitions.
fn bound_conditions(properties: &mut Value) {
    for (field, longest) in [("message", 32_768), ("reason", 1024), ("type", 316)] {
        properties[field]["maxLength"] = longest.into();
    }
    properties["status"]["enum"] = json!(["True", "False", "Unknown"]);
    properties["observedGeneration"]["minimum"] = 0.into();
}

/// Kubernetes' own types come without the bounds that a definition wants: the API server checks what is made of
/// them, but must be able to estimate what looking at them costs.
fn bound(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    match fields.get("type").and_then(Value::as_str) {
        Some("array") => {
            fields.entry("maxItems").or_insert_with(|| 64.into());
            fields
                .entry("x-kubernetes-list-type")
                .or_insert_with(|| "atomic".into());
        }
        Some("string") if !fields.contains_key("enum") => {
            fields.entry("maxLength").or_insert_with(|| 512.into());
        }
        Some("object") if fields.contains_key("additionalProperties") => {
            fields.entry("maxProperties").or_insert_with(|| 64.into());
        }
        Some("integer") => {
            fields.entry("minimum").or_insert_with(|| 0.into());
            fields
                .entry("maximum")
                .or_insert_with(|| i64::from(i32::MAX).into());
        }
        _ => {}
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(keyword) {
            bound(inner);
        }
    }
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(bound);
    }
}
