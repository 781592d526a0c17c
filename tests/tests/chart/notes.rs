//! What Helm prints after an installation: names that exist, and no step that does not fit.

use std::fs;

use jevmetrics_api::policy::{JevMetricsPolicy, ValidPolicy};
use jevmetrics_operator::kinds::Kind;
use jevmetrics_operator::render::{Defaults, render};
use jevmetrics_testkit::helm::chart;
use serde_json::{Value, json};

use crate::rendered::{NAMESPACE, OPERATOR, template};
use crate::upgrade::copy;

/// The notes as they are printed; `helm template` prints none, so another template shows them.
fn notes(values: &Value, more: &[&str]) -> String {
    let folder = copy();
    let notes = folder.path().join("templates/NOTES.txt");
    fs::rename(notes, folder.path().join("notes.txt")).unwrap();
    let shown = r#"notes: {{ tpl (.Files.Get "notes.txt") . | toJson }}"#;
    fs::write(folder.path().join("templates/shown.yaml"), shown).unwrap();
    let mut arguments = vec!["--show-only=templates/shown.yaml"];
    arguments.extend(more);
    let text = template(folder.path(), values, &arguments).unwrap();
    let shown: Value = serde_yaml::from_str(&text).unwrap();
    shown["notes"].as_str().unwrap().to_owned()
}

fn example() -> JevMetricsPolicy {
    let text = fs::read_to_string(chart().join("../../docs/examples/policy.yaml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

#[test]
fn each_step_names_what_is_there() {
    let notes = notes(&json!({}), &[]);
    for line in [
        "The operator looks after policies in all namespaces.",
        &format!("kubectl -n {NAMESPACE} rollout status deployment/{OPERATOR}\n"),
        "kubectl -n YOUR-NAMESPACE apply -f docs/examples/policy.yaml\n",
    ] {
        assert!(notes.contains(line), "{line}\n{notes}");
    }
    let policy = example();
    let name = policy.metadata.name.clone().unwrap();
    assert!(notes.contains(&format!("jmp/{name}\n")), "{notes}");
    let key = policy
        .spec
        .inference
        .as_ref()
        .unwrap()
        .api_key_secret_ref
        .as_ref()
        .unwrap();
    let create = format!("create secret generic {} --from-file={}=", key.name, key.key);
    assert!(notes.contains(&create), "{notes}");

    let defaults = Defaults {
        image: "a".to_owned(),
    };
    let mut policy = policy;
    policy.metadata.namespace = Some("a".to_owned());
    let manifests = render(&ValidPolicy::try_from(&policy).unwrap(), &defaults, 0)
        .manifests()
        .unwrap();
    let service = manifests
        .iter()
        .find(|manifest| manifest.kind == Kind::Service)
        .unwrap();
    assert!(
        notes.contains(&format!("{}.YOUR-NAMESPACE.svc, port 4317", service.name)),
        "{notes}"
    );
    for path in notes.split_whitespace().filter(|word| word.starts_with("docs/")) {
        let path = path.trim_end_matches('.');
        assert!(chart().join("../..").join(path).is_file(), "{path}");
    }
}

#[test]
fn policies_of_a_namespaced_operator_belong_into_its_namespace() {
    let notes = notes(&json!({"scope": "Namespaced"}), &[]);
    assert!(
        notes.starts_with(&format!(
            "The operator looks after policies in the namespace {NAMESPACE}."
        )),
        "{notes}"
    );
    assert!(
        notes.contains(&format!(
            "kubectl -n {NAMESPACE} apply -f docs/examples/policy.yaml"
        )),
        "{notes}"
    );
    assert!(!notes.contains("YOUR-NAMESPACE"), "{notes}");
}

#[test]
fn only_an_upgrade_speaks_of_the_definition_and_of_rolling() {
    let upgrade = notes(&json!({"dataplaneImage": {"tag": "7"}}), &["--is-upgrade"]);
    for line in [
        "helm show crds",
        "--server-side --force-conflicts",
        "\n  jevmetrics-dataplane:7\n",
    ] {
        assert!(upgrade.contains(line), "{line}\n{upgrade}");
        assert!(!notes(&json!({}), &[]).contains(line), "{line}");
    }
    assert!(!upgrade.contains("Make a policy"), "{upgrade}");
    assert!(
        upgrade.contains("kubectl get jmp --all-namespaces\n"),
        "{upgrade}"
    );
}

#[test]
fn without_rbac_the_rights_are_asked_for() {
    let with = notes(&json!({}), &[]);
    let without = notes(&json!({"rbac": {"create": false}}), &[]);
    let line = format!("give the ServiceAccount {OPERATOR} the rights listed in docs/security.md");
    assert!(without.contains(&line), "{without}");
    assert!(!with.contains("rbac.create"), "{with}");
}
