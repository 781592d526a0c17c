//! Links between documents lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};

use crate::markdown::{anchor, text};
use crate::root;

/// Every document of the project, by its path from the root.
pub(crate) fn documents() -> Vec<PathBuf> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    let mut found = vec![root().join("README.md")];
    for folder in ["docs", "charts"] {
        collect(&root().join(folder), &mut found);
    }
    assert!(found.len() > 8, "{found:?}");
    found.sort();
    found
}

/// What links of a document point to.
fn targets(markdown: &str) -> Vec<String> {
    let text = text(markdown);
    let links = text.split("](").skip(1);
    links
        .map(|rest| rest.split_once(')').expect("a link ends").0.to_owned())
        .collect()
}

fn anchors(markdown: &str) -> Vec<String> {
    let text = text(markdown);
    let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
    headings
        .map(|heading| anchor(heading.trim_start_matches('#').trim()))
        .collect()
}

#[test]
fn every_link_within_the_project_leads_somewhere() {
    let mut looked_at = 0;
    for document in documents() {
        let markdown = fs::read_to_string(&document).unwrap();
        for target in targets(&markdown) {
            if target.contains("://") {
                continue;
            }
            let (path, wanted) = target.split_once('#').unwrap_or((&target, ""));
            let file = match path {
                "" => document.clone(),
                path => document.parent().unwrap().join(path),
            };
            let place = format!("{}: {target}", document.display());
            assert!(file.exists(), "{place}");
            if !wanted.is_empty() {
                let anchors = anchors(&fs::read_to_string(&file).unwrap());
                assert!(
                    anchors.iter().any(|anchor| anchor == wanted),
                    "{place}: {anchors:?}"
                );
            }
            looked_at += 1;
        }
    }
    assert!(looked_at > 40, "{looked_at}");
}

/// *Guarantees*: whoever comes by a document finds the others: each is named in the README or in a document that is.
#[test]
fn every_document_can_be_found_from_the_readme() {
    let mut found = vec![root().join("README.md").canonicalize().unwrap()];
    let mut next = 0;
    while let Some(document) = found.get(next).cloned() {
        next += 1;
        for target in targets(&fs::read_to_string(&document).unwrap()) {
            let path = target.split('#').next().unwrap_or_default();
            let file = document.parent().unwrap().join(path).canonicalize();
            if let Ok(file) = file
                && file.extension().is_some_and(|extension| extension == "md")
                && !found.contains(&file)
            {
                found.push(file);
            }
        }
    }
    for document in documents() {
        assert!(
            found.contains(&document.canonicalize().unwrap()),
            "{}",
            document.display()
        );
    }
}
