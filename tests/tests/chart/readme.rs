//! The table of values in the chart's README is made of values and schema. `make generate` writes it.

use std::fs;

use jevmetrics_testkit::helm::chart;
use serde_json::Value;

use crate::values::{defaults, described, leaves};

const BEGIN: &str = "<!-- Written by `make generate` from values.yaml and values.schema.json. -->\n";
const END: &str = "<!-- End. -->\n";

fn table() -> String {
    let described = described();
    let row = |(key, default): (&String, &Value)| {
        let schema = &described[key];
        let description = schema["description"].as_str().unwrap();
        let choices = schema["enum"].as_array().map(|choices| {
            let choices: Vec<_> = choices
                .iter()
                .map(|choice| format!("`{}`", choice.as_str().unwrap()))
                .collect();
            format!(" One of {}.", choices.join(", "))
        });
        format!(
            "| `{key}` | `{default}` | {description}{} |\n",
            choices.unwrap_or_default()
        )
    };
    let rows: String = leaves(&defaults()).iter().map(row).collect();
    format!("| Value | Default | Meaning |\n|---|---|---|\n{rows}")
}

#[test]
fn the_table_of_values_is_what_values_and_schema_say() {
    let path = chart().join("README.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("a begin");
    let (_, after) = rest.split_once(END).expect("an end");
    let wanted = format!("{before}{BEGIN}{}{END}{after}", table());
    if std::env::var_os("JEVMETRICS_GENERATE").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap();
    assert!(committed == wanted, "{}: run `make generate`", path.display());
}
