//! What the documents say is what the program does: examples are accepted, metrics exist.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod commands;
mod links;
mod markdown;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use jevmetrics_api::live::LivePolicy;
use jevmetrics_api::routing::RoutingTable;
use jevmetrics_api::settings::DataPlaneSettings;
use jevmetrics_testkit::process::{DataPlane, Mode, Options, SettingsFile};

/// Nothing is sent: a port that nobody listens on will do.
const NOWHERE: &str = "http://127.0.0.1:9";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn document(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

#[test]
fn settings_and_live_file_of_the_documents_are_accepted() {
    for (path, tables) in [("README.md", 0), ("docs/reference/settings.md", 1)] {
        let text = document(path);
        let blocks = markdown::blocks(&text, "yaml");
        let [settings, live, ref routing @ ..] = blocks[..] else {
            panic!(
                "{path} has {} examples, not a settings file and a live file",
                blocks.len()
            );
        };
        assert_eq!(routing.len(), tables, "{path}");
        for table in routing {
            let table = RoutingTable::from_yaml(table).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(
                table.is_some(),
                "{path}: a live file may have none, an example of one must"
            );
        }
        DataPlaneSettings::from_yaml(settings).unwrap_or_else(|error| panic!("{path}: {error}"));
        LivePolicy::from_yaml(live).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

/// Names of our own metrics in a text, as they are registered: without the suffixes of exposition.
fn metric_names(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    words
        .filter(|word| word.starts_with("jevmetrics_"))
        .map(|word| word.trim_end_matches("_total").to_owned())
        .filter(|word| word != "jevmetrics_dataplane")
        .collect()
}

fn source_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            source_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[tokio::test]
async fn every_metric_is_documented_and_every_documented_metric_exists() {
    let settings = SettingsFile::new(NOWHERE, NOWHERE);
    let data_plane = DataPlane::start(Options::new(settings, Mode::Annotate))
        .await
        .unwrap();
    let (_, exposed) = data_plane.get("/metrics").await.unwrap();
    let types = exposed.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let exposed = metric_names(&types.collect::<Vec<_>>().join("\n"));
    assert!(exposed.len() > 10, "{exposed:?}");

    let documented = metric_names(&document("docs/operations.md"));
    let undocumented: Vec<_> = exposed.difference(&documented).collect();
    assert!(
        undocumented.is_empty(),
        "not in docs/operations.md: {undocumented:?}"
    );

    // Some show up only once they have something to show: they must at least be in the source.
    let mut files = Vec::new();
    source_files(&root().join("dataplane/src"), &mut files);
    let source: String = files
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let invented: Vec<_> = documented
        .difference(&exposed)
        .filter(|name| !source.contains(&format!("\"{name}\"")))
        .collect();
    assert!(
        invented.is_empty(),
        "in docs/operations.md but nowhere else: {invented:?}"
    );
}

/// The text between `before` and the next quote, wherever `before` stands in the sources below `folder`.
fn quoted_after(folder: &str, before: &str) -> BTreeSet<String> {
    let mut files = Vec::new();
    source_files(&root().join(folder), &mut files);
    let mut found = BTreeSet::new();
    for file in files {
        // Line breaks of a formatter do not matter.
        let text: String = fs::read_to_string(file).unwrap().split_whitespace().collect();
        let quoted = text.split(before).skip(1).filter_map(|rest| rest.split_once('"'));
        found.extend(quoted.map(|(reason, _)| reason.to_owned()));
    }
    found
}

#[test]
fn every_reason_and_event_of_the_operator_is_documented() {
    let text = document("docs/operator.md");
    let mut reasons = BTreeSet::new();
    for before in ["Verdict::yes(\"", "Verdict::no(\"", "Verdict::unknown(\""] {
        reasons.extend(quoted_after("operator/src", before));
    }
    // Some have a name, for they are recognised again.
    reasons.extend(quoted_after("operator/src/assess", ":&str=\""));
    assert!(reasons.len() > 28, "{reasons:?}");
    reasons.extend(["Repaired", "Recreated", "RollbackUndone"].map(str::to_owned));
    for reason in reasons {
        assert!(
            text.contains(&format!("`{reason}`")),
            "{reason} is not in docs/operator.md"
        );
    }
}

#[test]
fn the_rights_in_the_documents_are_those_that_the_operator_says_it_needs() {
    use jevmetrics_operator::rights::{LEASE_RIGHTS, PASSED_ON, RIGHTS, Right};
    let text = document("docs/security.md");
    let row = |right: &Right| {
        let group = if right.group.is_empty() {
            "core".to_owned()
        } else {
            format!("`{}`", right.group)
        };
        format!(
            "| {group} | `{}` | {} | {} |",
            right.resource,
            right.verbs.join(", "),
            right.reason
        )
    };
    let (_, rights) = text.split_once("\n## Rights in a cluster\n").unwrap();
    let (rights, _) = rights.split_once("\n## ").unwrap();
    let rows = rights
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| API group"));
    let wanted = RIGHTS.iter().chain(LEASE_RIGHTS).chain(PASSED_ON).map(row);
    assert_eq!(rows.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
}
