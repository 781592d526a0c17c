//! Policies from YAML files, as strictly as the API server reads them.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use jevmetrics_api::policy::{JevMetricsPolicy, ValidPolicy};
use kube::Resource as _;
use serde::Deserialize as _;
use serde_yaml::{Deserializer, Value};

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It cannot be read.
    #[error("{}: {}", .0.display(), .1)]
    Read(PathBuf, #[source] io::Error),
    /// It holds no policy.
    #[error("{}: must hold at least one JevMetricsPolicy", .0.display())]
    Empty(PathBuf),
}

/// A policy, or what is wrong with it, and what to call it.
#[derive(Debug)]
pub struct Document {
    /// The file, and the place in it if it has several.
    pub place: String,
    /// The policy, or one message a problem.
    pub policy: Result<ValidPolicy, Vec<String>>,
}

/// Reads every document of a file; `-` is standard input.
///
/// # Errors
/// Any [`DocumentError`].
pub fn read(path: &Path) -> Result<Vec<Document>, DocumentError> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.map_err(|error| DocumentError::Read(path.to_owned(), error))?;
    let documents = parse(&text, &path.display().to_string());
    if documents.is_empty() {
        return Err(DocumentError::Empty(path.to_owned()));
    }
    Ok(documents)
}

/// Every document of `text` that is not empty.
pub fn parse(text: &str, name: &str) -> Vec<Document> {
    let mut documents = Vec::new();
    for (index, document) in Deserializer::from_str(text).enumerate() {
        let place = if index == 0 {
            name.to_owned()
        } else {
            format!("{name} (document {})", index + 1)
        };
        match Value::deserialize(document) {
            Ok(Value::Null) => {}
            Ok(value) => documents.push(Document {
                place,
                policy: policy(value),
            }),
            Err(error) => {
                documents.push(Document {
                    place,
                    policy: Err(vec![format!("not readable as YAML: {error}")]),
                });
                // What follows cannot be told apart.
                break;
            }
        }
    }
    documents
}

fn policy(mut value: Value) -> Result<ValidPolicy, Vec<String>> {
    let wanted = (JevMetricsPolicy::api_version(&()), JevMetricsPolicy::kind(&()));
    for (field, wanted) in [("apiVersion", &wanted.0), ("kind", &wanted.1)] {
        // Taken out: what it says of itself is no field of the type.
        let found = value.as_mapping_mut().and_then(|fields| fields.remove(field));
        if found.as_ref().and_then(Value::as_str) != Some(wanted) {
            return Err(vec![format!("{field}: must be {wanted}")]);
        }
    }
    let mut problems = Vec::new();
    let mut note = |path: serde_ignored::Path<'_>| problems.push(format!("{path}: is not known here"));
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
    let read = JevMetricsPolicy::deserialize(serde_ignored::Deserializer::new(tracked, &mut note));
    let mut policy = read.map_err(|error| {
        problems.push(format!("{}: {error}", track.path()));
        std::mem::take(&mut problems)
    })?;
    // As the API server fills it in for who names no namespace.
    policy
        .metadata
        .namespace
        .get_or_insert_with(|| "default".to_owned());
    match ValidPolicy::try_from(&policy) {
        Ok(valid) if problems.is_empty() => return Ok(valid),
        Ok(_) => {}
        Err(error) => problems.extend(error.messages().iter().cloned()),
    }
    Err(problems)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let documents = parse(text, "file");
        documents
            .into_iter()
            .flat_map(|document| document.policy.err().unwrap_or_default())
            .collect()
    }

    fn policy(rest: &str) -> String {
        format!(
            "apiVersion: jevmetrics.io/v1alpha1\nkind: JevMetricsPolicy\nmetadata: {{name: jm}}\n{rest}\n"
        )
    }

    #[test]
    fn unknown_fields_and_broken_rules_are_all_told_with_their_paths() {
        let text = policy("spec: {replica: 3, replicas: 501, export: {endpoint: 'http://a', header: []}}");
        assert_eq!(
            problems(&text),
            [
                "spec.replica: is not known here",
                "spec.export.header: is not known here",
                "spec.replicas: must be 0 to 500",
            ]
        );
    }

    #[test]
    fn a_value_of_another_type_is_told_with_its_path() {
        let text = policy("spec: {export: {endpoint: 'http://a', protocol: grpc}}");
        let [problem] = <[String; 1]>::try_from(problems(&text)).unwrap();
        assert!(
            problem.starts_with("spec.export.protocol: unknown variant"),
            "{problem}"
        );
    }

    #[test]
    fn other_kinds_are_told_apart_and_empty_documents_passed_over() {
        let good = policy("spec: {export: {endpoint: 'http://a'}}");
        let text = format!("---\n{good}---\n---\napiVersion: v1\nkind: Pod\n---\n{good}");
        assert_eq!(problems(&text), ["apiVersion: must be jevmetrics.io/v1alpha1"]);
        assert_eq!(parse(&text, "file").len(), 3);
        for text in ["[]", "5", "text"] {
            assert_eq!(
                problems(text),
                ["apiVersion: must be jevmetrics.io/v1alpha1"],
                "{text}"
            );
        }
    }
}
