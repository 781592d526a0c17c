//! Traffic never waits for Redis because it cannot: what carries requests does not know of it.

use std::path::{Path, PathBuf};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dataplane/src");

fn sources(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            sources(&entry.unwrap().path(), found);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        found.push(path.to_owned());
    }
}

/// Lines that name `words`, but for comments.
fn lines_with(path: &Path, words: &[&str]) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let named = code.filter(|line| {
        let line = line.to_ascii_lowercase();
        words.iter().any(|word| line.contains(word))
    });
    named
        .map(|line| format!("{}: {}", path.display(), line.trim()))
        .collect()
}

fn all_lines_with(parts: &[&str], words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for part in parts {
        let path = Path::new(SOURCES).join(part);
        assert!(path.exists(), "{}", path.display());
        sources(&path, &mut found);
    }
    assert!(found.len() >= parts.len(), "{found:?}");
    found.iter().flat_map(|path| lines_with(path, words)).collect()
}

/// *Scenario*: everything that a request waits for: reading it, sending it on, answering it.
/// *Guarantees*: none of it names coordination, Redis or asking; deciding, which does name what is asked, awaits nothing.
#[test]
fn the_way_of_a_request_knows_nothing_of_coordination() {
    let on_the_way = ["receive", "export", "pipeline.rs", "accept.rs", "verdict.rs"];
    let named = all_lines_with(&on_the_way, &["coordinat", "redis", "infer::", "inference::"]);
    assert!(named.is_empty(), "{named:#?}");
    let named = all_lines_with(
        &["retain"],
        &["coordinat", "redis", ".await", "async ", "block_on"],
    );
    assert!(named.is_empty(), "{named:#?}");
}

/// *Scenario*: all that reckons with lives, leases and pauses.
/// *Guarantees*: no clock on the wall is looked at: lives are told by Redis and measured by the process.
#[test]
fn coordination_looks_at_no_clock_on_the_wall() {
    let named = all_lines_with(&["coordinate"], &["systemtime", "unix_epoch", "jiff", "chrono"]);
    assert!(named.is_empty(), "{named:#?}");
}
