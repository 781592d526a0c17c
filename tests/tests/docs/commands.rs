//! What commands and prose name is there: fields, conditions, values of the chart, files, pages. Whether a cluster does
//! what a document says is shown with one.

use std::fs;

use jevmetrics_api::policy::{JevMetricsPolicy, ValidPolicy, definition};
use jevmetrics_operator::documents;
use jevmetrics_operator::render::{
    COLLECTOR_FILE, Defaults, collector_routing_name, exporter_name, members_name, render,
};
use jevmetrics_testkit::process::{DataPlane, Mode, Options, SettingsFile};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::links::documents as all_documents;
use crate::markdown::{blocks, code, commands};
use crate::{NOWHERE, document, root, source_files};

/// Documents whose commands users copy.
const GUIDES: [&str; 4] = [
    "README.md",
    "docs/install.md",
    "docs/first-hour.md",
    "docs/topologies.md",
];
const CONDITIONS: [&str; 4] = ["Ready", "RolledOut", "ConfigurationValid", "InferenceHealthy"];

fn schema() -> Value {
    let definition = serde_json::to_value(definition().unwrap()).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Whether a field such as `spec.export.headers[].name` exists.
fn is_field(path: &str) -> bool {
    let mut schema = &schema();
    for name in path.split('.') {
        let name = name.trim_end_matches("[]");
        if !schema["properties"][name].is_object() {
            return false;
        }
        schema = &schema["properties"][name];
        if schema["items"].is_object() {
            schema = &schema["items"];
        }
    }
    true
}

/// Every field that a patch sets.
fn fields(path: &str, patch: &Value, found: &mut Vec<String>) {
    match patch.as_object() {
        Some(fields_of) => {
            for (name, value) in fields_of {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                fields(&path, value, found);
            }
        }
        None => found.push(path.to_owned()),
    }
}

fn example() -> JevMetricsPolicy {
    serde_yaml::from_str(&document("docs/examples/policy.yaml")).unwrap()
}

/// Commands of all guides that hold `part`, with the guide.
fn commands_with(part: &str) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for guide in GUIDES {
        let with = commands(&document(guide))
            .into_iter()
            .filter(|command| command.contains(part));
        found.extend(with.map(|command| (guide, command)));
    }
    assert!(!found.is_empty(), "{part}");
    found
}

/// What follows `option` in a command, up to the end of the word or of its quotes.
fn values_of(command: &str, option: &str) -> Vec<String> {
    let rests = command.split(option).skip(1);
    rests
        .map(|rest| match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').expect("quotes end").0.to_owned(),
            None => rest.split_whitespace().next().unwrap_or_default().to_owned(),
        })
        .collect()
}

#[test]
fn patches_in_commands_set_fields_that_exist() {
    let example = serde_json::to_value(example()).unwrap();
    for (guide, command) in commands_with(" patch jmp ") {
        let [patch] = &values_of(&command, " -p ")[..] else {
            panic!("{guide}: {command}");
        };
        let patch: Value =
            serde_json::from_str(patch).unwrap_or_else(|error| panic!("{guide}: {command}: {error}"));
        let mut set = Vec::new();
        if command.contains("--type=merge") {
            fields("", &patch, &mut set);
        } else {
            assert!(command.contains("--type=json"), "{guide}: {command}");
            for operation in patch.as_array().unwrap() {
                let pointer = operation["path"].as_str().unwrap();
                let list = pointer.strip_suffix("/-").unwrap_or(pointer);
                // Nothing can be added to a list that is not there.
                assert!(example.pointer(list).is_some(), "{guide}: {command}");
                set.push(list.trim_start_matches('/').replace('/', "."));
            }
        }
        for field in set {
            assert!(is_field(&field), "{guide}: {field}");
        }
    }
}

#[test]
fn commands_wait_for_what_comes() {
    for (guide, command) in commands_with(" wait ") {
        for condition in values_of(&command, "--for=condition=") {
            assert!(CONDITIONS.contains(&condition.as_str()), "{guide}: {command}");
        }
        for path in values_of(&command, "--for=jsonpath=") {
            let path = path.trim_start_matches("{.").trim_end_matches('}');
            assert!(is_field(path), "{guide}: {command}");
        }
        assert!(
            command.contains("--timeout=") || command.contains("jsonpath"),
            "{guide}: {command}"
        );
    }
}

#[test]
fn commands_name_the_objects_of_the_example() {
    let name = example().name_any();
    for (guide, command) in commands_with("jmp") {
        for named in values_of(&command, "jmp/") {
            assert_eq!(named, name, "{guide}: {command}");
        }
        for verb in [" patch jmp ", " scale jmp ", " describe jmp "] {
            for named in values_of(&command, verb) {
                assert_eq!(named, name, "{guide}: {command}");
            }
        }
    }
    for (guide, command) in commands_with("-l jevmetrics.io/policy=") {
        assert_eq!(
            values_of(&command, "-l jevmetrics.io/policy="),
            [name.as_str()],
            "{guide}"
        );
    }
    for (guide, command) in commands_with("port-forward") {
        assert!(
            command.contains(&format!("deployment/{name}-dataplane 9465")),
            "{guide}: {command}"
        );
    }
    let secret = example().spec.inference.unwrap().api_key_secret_ref.unwrap();
    for (guide, command) in commands_with("create secret generic") {
        let wanted = format!("generic {} --from-file={}=", secret.name, secret.key);
        assert!(command.contains(&wanted), "{guide}: {command}");
    }
}

#[test]
fn commands_set_values_that_the_chart_has_and_read_files_that_are_there() {
    let values: Value = serde_yaml::from_str(&document("charts/jevmetrics/values.yaml")).unwrap();
    for (guide, command) in commands_with("--set ") {
        for set in values_of(&command, "--set ") {
            let (path, _) = set
                .split_once('=')
                .unwrap_or_else(|| panic!("{guide}: {command}"));
            let path = path.split('[').next().unwrap().replace('.', "/");
            assert!(values.pointer(&format!("/{path}")).is_some(), "{guide}: {set}");
        }
    }
    for (guide, command) in commands_with("apply ") {
        for file in values_of(&command, " -f ").into_iter().filter(|file| file != "-") {
            assert!(root().join(&file).is_file(), "{guide}: {command}");
        }
    }
    for (guide, command) in commands_with("charts/") {
        for word in command
            .split_whitespace()
            .filter(|word| word.starts_with("charts/"))
        {
            assert!(root().join(word).is_dir(), "{guide}: {command}");
        }
    }
}

/// *Guarantees*: fields that prose names exist, so that `kubectl explain` explains them.
#[test]
fn fields_in_the_text_exist() {
    let mut looked_at = 0;
    for path in all_documents() {
        // Generated from the types, and speaking of fields of Kubernetes as well.
        if path.ends_with("docs/reference/policy.md") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for span in code(&text) {
            let explained = span.strip_prefix("kubectl explain jmp.");
            let field = explained
                .unwrap_or(&span)
                .trim_start_matches('/')
                .replace('/', ".");
            let is_path = field
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "._[]".contains(letter));
            if is_path && (field.starts_with("spec.") || field.starts_with("status.")) {
                assert!(is_field(&field), "{}: {span}", path.display());
                looked_at += 1;
            }
        }
    }
    assert!(looked_at > 10, "{looked_at}");
}

#[test]
fn the_examples_and_the_part_of_one_in_the_first_hour_are_valid() {
    let whole = document("docs/examples/policy.yaml");
    let guide = document("docs/first-hour.md");
    let [part] = blocks(&guide, "yaml")[..] else {
        panic!("not one example");
    };
    let part: Value = serde_yaml::from_str(part).unwrap();
    let mut merged: Value = serde_yaml::from_str(&whole).unwrap();
    for (name, value) in part["spec"]["retention"].as_object().unwrap() {
        assert!(!merged["spec"]["retention"][name].is_null(), "{name}");
        merged["spec"]["retention"][name] = value.clone();
    }
    let sharing = document("docs/examples/coordination.yaml");
    for text in [whole, sharing, merged.to_string()] {
        for document in documents::parse(&text, "policy.yaml") {
            document.policy.unwrap();
        }
    }
}

/// *Guarantees*: the Collector of the example sends to the Service of the example, by a pipeline of what it defines.
#[test]
fn the_collector_of_the_archive_sends_to_both() {
    let guide = document("docs/topologies.md");
    let [collector, ..] = blocks(&guide, "yaml")[..] else {
        panic!("no example");
    };
    let collector: Value = serde_yaml::from_str(collector).unwrap();
    let pipeline = &collector["service"]["pipelines"]["metrics"];
    assert_eq!(pipeline["receivers"], json!(["otlp"]));
    let exporters = pipeline["exporters"].as_array().unwrap();
    assert_eq!(exporters.len(), collector["exporters"].as_object().unwrap().len());
    let endpoint = format!("{}-otlp.monitoring.svc:4317", example().name_any());
    let mut ours = 0;
    for exporter in exporters {
        let exporter = &collector["exporters"][exporter.as_str().unwrap()];
        assert!(exporter["sending_queue"].is_object(), "{exporter}");
        ours += usize::from(exporter["endpoint"] == endpoint.as_str());
    }
    assert_eq!(ours, 1);
}

/// *Guarantees*: the exporter that is shown is what the operator writes for the example, and the Collector's pipeline
/// names it.
#[test]
fn the_collectors_that_route_are_shown_what_is_written() {
    let guide = document("docs/topologies.md");
    let [_, collector, shown] = blocks(&guide, "yaml")[..] else {
        panic!("not three examples");
    };
    let mut policy = example();
    policy.metadata.namespace = Some("monitoring".to_owned());
    policy.spec.routing = serde_json::from_value(json!({"affinity": "Upstream"})).unwrap();
    let policy = ValidPolicy::try_from(&policy).unwrap();
    let defaults = Defaults {
        image: "registry.example/dataplane:1".to_owned(),
    };
    let manifests = render(&policy, &defaults, 0).manifests().unwrap();
    let name = collector_routing_name(policy.name());
    let routing = manifests.iter().find(|manifest| manifest.name == name).unwrap();
    let written = routing.value["data"][COLLECTOR_FILE].as_str().unwrap();
    let read = |text: &str| -> Value { serde_yaml::from_str(text).unwrap() };
    assert_eq!(read(shown), read(written), "{written}");

    let exporters = &read(collector)["service"]["pipelines"]["metrics"]["exporters"];
    assert_eq!(*exporters, json!([exporter_name(policy.name())]));
    for object in [name, members_name(policy.name())] {
        assert!(guide.contains(&format!("`{object}`")), "{object}");
    }
}

#[test]
fn pages_in_the_text_exist() {
    let mut files = Vec::new();
    source_files(&root().join("dataplane/src"), &mut files);
    source_files(&root().join("operator/src"), &mut files);
    let source: String = files
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let mut looked_at = 0;
    for path in all_documents() {
        let text = fs::read_to_string(&path).unwrap();
        for rest in text.split("/api/").skip(1) {
            let is_of_path = |letter: &char| letter.is_ascii_alphabetic() || *letter == '/';
            let name: String = rest.chars().take_while(is_of_path).collect();
            let name = name.trim_end_matches('/');
            // Paths of others begin with /api as well.
            if ["v", ""].contains(&name) {
                continue;
            }
            assert!(
                source.contains(&format!(".route(\"/api/{name}\"")),
                "{}: /api/{name}",
                path.display()
            );
            looked_at += 1;
        }
    }
    assert!(looked_at > 8, "{looked_at}");
}

/// *Guarantees*: what the first hour reads in `/api/summary` is there.
#[tokio::test]
async fn the_summary_has_what_the_first_hour_reads() {
    let settings = SettingsFile::new(NOWHERE, NOWHERE);
    let data_plane = DataPlane::start(Options::new(settings, Mode::Annotate))
        .await
        .unwrap();
    let (_, summary) = data_plane.get_admin("/api/summary").await.unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let guide = document("docs/first-hour.md");
    let (_, table) = guide.split_once("| In `/api/summary` |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let rows: Vec<_> = table
        .lines()
        .skip(2)
        .map(|row| row.split('`').nth(1).unwrap())
        .collect();
    assert!(rows.len() >= 5, "{rows:?}");
    for row in rows {
        let field = format!("/{}", row.replace('.', "/"));
        assert!(summary.pointer(&field).is_some(), "{row}: {summary}");
    }
}
