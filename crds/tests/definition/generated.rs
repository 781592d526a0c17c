//! Files that are made of the types. `make generate` writes them.

use std::path::Path;

use jevmetrics_api::policy;

fn check(path: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("JEVMETRICS_GENERATE").is_some() {
        std::fs::write(&path, wanted).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == wanted,
        "{} is not what the types say: run `make generate`",
        path.display()
    );
}

#[test]
fn the_committed_definition_is_what_the_types_say() {
    check("jevmetricspolicies.yaml", &policy::definition_yaml().unwrap());
}

#[test]
fn the_definition_in_the_chart_is_what_the_types_say() {
    // A copy, not a link: a chart that is packed holds all that it needs.
    check(
        "../charts/jevmetrics/crds/jevmetricspolicies.yaml",
        &policy::definition_yaml().unwrap(),
    );
}

#[test]
fn the_committed_reference_is_what_the_types_say() {
    check("../docs/reference/policy.md", &policy::reference().unwrap());
}
