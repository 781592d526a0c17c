//! From one version of the chart to the next.

use std::fs;
use std::path::Path;

use jevmetrics_testkit::helm::chart;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rendered::{rendered, rendered_by};

/// A copy of the chart.
pub(crate) fn copy() -> TempDir {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let (from, to) = (
                entry.as_ref().unwrap().path(),
                to.join(entry.unwrap().file_name()),
            );
            if from.is_dir() {
                copy(&from, &to);
            } else {
                fs::copy(from, to).unwrap();
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    copy(&chart(), folder.path());
    folder
}

/// The chart of a later version.
fn next() -> TempDir {
    let folder = copy();
    let file = folder.path().join("Chart.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let later = text.replace(&format!("ersion: {}", env!("CARGO_PKG_VERSION")), "ersion: 9.9.9");
    assert_eq!(later.matches("9.9.9").count(), 2);
    fs::write(file, later).unwrap();
    folder
}

/// *Guarantees*: a chart of another version tells the operator the same, if the image of data planes is given: so none of
/// them rolls, for what the operator makes depends on nothing else (`nothing_says_which_operator_has_rendered_it`).
#[test]
fn with_the_same_image_of_data_planes_the_operator_is_told_the_same() {
    let pinned = json!({"dataplaneImage": {"tag": "1"}});
    let (now, then) = (rendered(&pinned), rendered_by(next().path(), &pinned));
    assert_eq!(now.container()["args"], then.container()["args"]);
    assert_eq!(now.container()["env"], then.container()["env"]);
    assert_ne!(now.container()["image"], then.container()["image"]);
    let unpinned = rendered_by(next().path(), &json!({}));
    assert_eq!(unpinned.arguments().dataplane_image, "jevmetrics-dataplane:9.9.9");
}

/// *Guarantees*: an upgrade never meets a field that cannot be changed, such as a selector or the role of a binding.
#[test]
fn what_cannot_be_changed_stays() {
    let fixed = |rendered: &crate::rendered::Rendered| -> Vec<Value> {
        let bindings =
            ["RoleBinding", "ClusterRoleBinding"].map(|kind| rendered.only(kind)["roleRef"].clone());
        let mut fixed = vec![rendered.only("Deployment")["spec"]["selector"].clone()];
        fixed.extend(bindings);
        fixed
    };
    let (now, then) = (rendered(&json!({})), rendered_by(next().path(), &json!({})));
    assert_eq!(fixed(&now), fixed(&then));
    assert_eq!(now.names(), then.names());
    assert_eq!(now.arguments().lease_name, then.arguments().lease_name);
}
