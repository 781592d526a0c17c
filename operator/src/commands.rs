//! Commands that need no cluster.

use std::io::{self, Write};

use jevmetrics_api::policy::{self, ValidPolicy};

use crate::args;
use crate::documents::{self, Document, DocumentError};
use crate::generation::{Remembered, generation};
use crate::render::{Defaults, render};

/// Why a command came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// A file cannot be used.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// Policies do not hold; what is wrong was printed or is here.
    #[error("{0}")]
    Invalid(String),
    /// The definition cannot be written.
    #[error("failed to write the definition: {0}")]
    Definition(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// An object cannot be written.
    #[error("failed to write an object: {0}")]
    Object(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Nobody reads what is printed.
    #[error("failed to print: {0}")]
    Print(#[from] io::Error),
}

/// Prints the definition.
///
/// # Errors
/// Any [`CommandError`].
pub fn crd(out: &mut impl Write) -> Result<(), CommandError> {
    let yaml = policy::definition_yaml().map_err(CommandError::Definition)?;
    out.write_all(yaml.as_bytes())?;
    Ok(())
}

/// Prints every object of every policy, in the order in which they are applied.
///
/// # Errors
/// Any [`CommandError`]; nothing is printed of a policy that does not hold.
pub fn render_files(arguments: &args::Render, out: &mut impl Write) -> Result<(), CommandError> {
    let defaults = Defaults {
        image: arguments.dataplane_image.clone(),
    };
    for document in read(&arguments.files)? {
        let (place, policy) = held(document).map_err(|broken| CommandError::Invalid(broken.join("\n")))?;
        // As for a policy that was just made.
        let generation = policy
            .sharing()
            .map_or(0, |sharing| generation(sharing, &Remembered::default()));
        let manifests = render(&policy, &defaults, generation)
            .manifests()
            .map_err(|error| CommandError::Object(error.into()))?;
        for manifest in manifests {
            let yaml =
                serde_yaml::to_string(&manifest.value).map_err(|error| CommandError::Object(error.into()))?;
            writeln!(out, "---\n# {place}\n{yaml}")?;
        }
    }
    Ok(())
}

/// Says what is wrong, one line a problem, or that nothing is.
///
/// # Errors
/// Any [`CommandError`].
pub fn check(files: &args::Files, out: &mut impl Write) -> Result<(), CommandError> {
    let (mut valid, mut broken) = (0, 0);
    for document in read(files)? {
        match held(document) {
            Ok((place, policy)) => {
                valid += 1;
                writeln!(out, "{place}: {} is valid", policy.name())?;
            }
            Err(problems) => {
                broken += 1;
                for problem in problems {
                    writeln!(out, "{problem}")?;
                }
            }
        }
    }
    if broken == 0 {
        return Ok(());
    }
    Err(CommandError::Invalid(format!(
        "{broken} of {} policies do not hold",
        valid + broken
    )))
}

fn read(files: &args::Files) -> Result<Vec<Document>, DocumentError> {
    let mut all = Vec::new();
    for path in &files.filenames {
        all.extend(documents::read(path)?);
    }
    Ok(all)
}

/// The policy, or its problems with the place in front of each.
fn held(document: Document) -> Result<(String, ValidPolicy), Vec<String>> {
    let Document { place, policy } = document;
    match policy {
        Ok(policy) => Ok((place, policy)),
        Err(problems) => Err(problems
            .into_iter()
            .map(|problem| format!("{place}: {problem}"))
            .collect()),
    }
}
