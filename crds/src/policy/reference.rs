//! `docs/reference/policy.md`: one line a field, from the definition.

use std::fmt::Write as _;

use serde_json::Value;

const HEAD: &str = "\
# JevMetricsPolicy

Generated from the types by `make generate`; `kubectl explain jmp.spec` shows the same.

`apiVersion: jevmetrics.io/v1alpha1`, `kind: JevMetricsPolicy`, short name `jmp`. One resource is one data plane.
Only `spec.export.endpoint` must be given. Secrets are those of the policy's namespace.
";

/// The whole page.
///
/// # Errors
/// None in practice: tests make it.
pub fn reference() -> Result<String, serde_json::Error> {
    let definition = super::definition::value()?;
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let mut page = HEAD.to_owned();
    for (title, root) in [("What is wanted", "spec"), ("What is there", "status")] {
        let _ = write!(
            page,
            "\n## {title}\n\n| Field | Type | Default | Bounds | Meaning |\n|---|---|---|---|---|\n"
        );
        rows(&mut page, root, &schema[root]);
    }
    page += "\n## Rules\n\nThe API server refuses what breaks one of them, and says it in these words.\n\n";
    rules(
        &mut page,
        &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
    );
    Ok(page)
}

fn rows(page: &mut String, path: &str, schema: &Value) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    let required = schema["required"].as_array();
    for (name, field) in properties {
        let is_required =
            required.is_some_and(|names| names.iter().any(|required| required == name.as_str()));
        let item = if field["type"] == "array" {
            &field["items"]
        } else {
            field
        };
        let path = format!(
            "{path}.{name}{}",
            if field["type"] == "array" { "[]" } else { "" }
        );
        let default = match &field["default"] {
            Value::Null if is_required => "required".to_owned(),
            Value::Null => String::new(),
            default => format!("`{}`", default.to_string().trim_matches('"')),
        };
        let meaning = field["description"].as_str().unwrap_or_default();
        let _ = writeln!(
            page,
            "| `{path}` | {} | {default} | {} | {} |",
            kind(field),
            bounds(field).join("; "),
            meaning
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .replace('|', "\\|")
        );
        // Kubernetes' own types are described by Kubernetes.
        if !is_of_kubernetes(&path) {
            rows(page, &path, item);
        }
    }
}

fn is_of_kubernetes(path: &str) -> bool {
    let template = path.strip_prefix("spec.template.").unwrap_or_default();
    let own = [
        "affinity",
        "resources",
        "tolerations[]",
        "topologySpreadConstraints[]",
    ];
    own.contains(&template) || path == "status.conditions[]"
}

fn kind(field: &Value) -> String {
    match field["type"].as_str() {
        Some("array") => format!("list of {}", kind(&field["items"])),
        Some("object") if !field["additionalProperties"].is_null() => "map".to_owned(),
        Some(kind) => kind.to_owned(),
        None => "value".to_owned(),
    }
}

fn bounds(field: &Value) -> Vec<String> {
    let mut bounds = Vec::new();
    if let Some(choices) = field["enum"].as_array() {
        let choices: Vec<_> = choices.iter().filter_map(Value::as_str).collect();
        bounds.push(choices.join(", "));
    }
    let mut range = |least: &str, most: &str, unit: &str| match (&field[least], &field[most]) {
        (Value::Null, Value::Null) => {}
        (Value::Null, most) => bounds.push(format!("at most {most}{unit}")),
        (least, Value::Null) => bounds.push(format!("at least {least}{unit}")),
        (least, most) => bounds.push(format!("{least} to {most}{unit}")),
    };
    range("minimum", "maximum", "");
    range("minLength", "maxLength", " characters");
    range("minItems", "maxItems", " items");
    range("minProperties", "maxProperties", " entries");
    if field["type"] == "array" {
        bounds.extend(
            self::bounds(&field["items"])
                .into_iter()
                .map(|bound| format!("each {bound}")),
        );
    }
    bounds
}

fn rules(page: &mut String, schema: &Value) {
    for rule in schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let _ = writeln!(page, "- {}", rule["message"].as_str().unwrap_or_default());
    }
    if let Some(properties) = schema["properties"].as_object() {
        properties.values().for_each(|field| rules(page, field));
    }
    if schema["items"].is_object() {
        rules(page, &schema["items"]);
    }
}
