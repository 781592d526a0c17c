//! The chart as a folder of files: complete, consistent, of this version.

use std::fs;

use jevmetrics_testkit::helm::{Helm, chart};
use serde::Deserialize as _;
use serde_json::Value;

fn file(name: &str) -> String {
    fs::read_to_string(chart().join(name)).unwrap()
}

#[test]
fn helm_finds_nothing_to_complain_about() {
    let chart = chart().display().to_string();
    let printed = Helm::shared()
        .unwrap()
        .run(&["lint", "--strict", "--kube-version=1.36.0", &chart], "")
        .unwrap();
    assert!(
        printed.contains("1 chart(s) linted, 0 chart(s) failed"),
        "{printed}"
    );
}

#[test]
fn chart_and_workspace_have_one_version() {
    let chart: Value = serde_yaml::from_str(&file("Chart.yaml")).unwrap();
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["apiVersion"], "v2");
}

#[test]
fn an_older_kubernetes_is_refused_and_a_vendors_version_is_taken() {
    let chart = chart().display().to_string();
    let template = |version: &str| {
        let version = format!("--kube-version={version}");
        Helm::shared()
            .unwrap()
            .run(&["template", "jm", &chart, &version], "")
    };
    assert!(template("1.30.0").is_ok());
    assert!(template("1.30.4-vendor.100").is_ok());
    let refused = template("1.29.9").unwrap_err().to_string();
    assert!(refused.contains("requires kubeVersion: >=1.30.0-0"), "{refused}");
}

/// *Guarantees*: a release and a namespace may be called as they like: what looks like a number stays a name.
#[test]
fn names_that_look_like_numbers_stay_names() {
    let chart = chart().display().to_string();
    let values = r#"{"scope": "Namespaced", "serviceAccount": {"name": "1"}, "priorityClassName": "1e3"}"#;
    let arguments = [
        "template",
        "7",
        &chart,
        "--namespace=42",
        "--kube-version=1.36.0",
        "--values=-",
    ];
    let text = Helm::shared().unwrap().run(&arguments, values).unwrap();
    let mut kinds = 0;
    for document in serde_yaml::Deserializer::from_str(&text) {
        let object = Value::deserialize(document).unwrap();
        assert_eq!(object["metadata"]["namespace"], "42", "{object}");
        assert_eq!(
            object["metadata"]["labels"]["app.kubernetes.io/instance"], "7",
            "{object}"
        );
        if object["kind"] == "Deployment" {
            let pod = &object["spec"]["template"]["spec"];
            assert_eq!(pod["serviceAccountName"], "1");
            assert_eq!(pod["priorityClassName"], "1e3");
        }
        if object["kind"] == "RoleBinding" {
            assert_eq!(object["subjects"][0]["name"], "1");
            assert_eq!(object["subjects"][0]["namespace"], "42");
        }
        kinds += 1;
    }
    assert_eq!(kinds, 5);
}

#[test]
fn the_licence_is_that_of_the_project() {
    assert_eq!(file("LICENSE"), file("../../LICENSE"));
}

#[test]
fn the_definition_that_helm_shows_is_the_committed_one() {
    let chart = chart().display().to_string();
    let shown = Helm::shared()
        .unwrap()
        .run(&["show", "crds", &chart], "")
        .unwrap();
    let [shown, committed] = [shown, file("../../crds/jevmetricspolicies.yaml")]
        .map(|text| serde_yaml::from_str::<Value>(&text).unwrap());
    assert_eq!(shown, committed);
}

/// *Guarantees*: what is packed is what a release needs, and nothing that an editor leaves behind.
#[test]
fn a_packed_chart_holds_all_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let (chart, to) = (chart().display().to_string(), folder.path().display().to_string());
    let helm = Helm::shared().unwrap();
    helm.run(&["package", &chart, "--destination", &to], "").unwrap();
    let packed = folder
        .path()
        .join(format!("jevmetrics-{}.tgz", env!("CARGO_PKG_VERSION")));
    let all = helm
        .run(&["show", "all", &packed.display().to_string()], "")
        .unwrap();
    for part in [
        "kubeVersion:",
        "replicaCount: 1",
        "# jevmetrics",
        "kind: CustomResourceDefinition",
    ] {
        assert!(all.contains(part), "{part} is not in the packed chart");
    }
}
