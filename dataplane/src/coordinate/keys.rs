//! Names of keys, and what two replicas must have in common to share an assessment.
//!
//! ```text
//! jevmetrics:{<namespace>}:budget | leases | admissions | cooldown | members
//! jevmetrics:{<namespace>}:member:<id>
//! jevmetrics:{<namespace>}:left:<id>
//! jevmetrics:{<namespace>}:lease:<version>:<identity>
//! jevmetrics:{<namespace>}:score:<version>:<identity>
//! ```
//! Invariants: one hash tag, so all keys of a namespace lie together; of an instrument only its hash is in a name.

use std::fmt;

use jevmetrics_otlp::identity::Identity;

use super::payload;
use crate::infer::questions;

/// Longest namespace, in bytes: that of Kubernetes, a policy's name and a digest fit.
const NAMESPACE_BYTES: usize = 400;

/// The name under which replicas share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace(String);

/// A text that cannot be a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 1 to {NAMESPACE_BYTES} characters, each a letter, a digit or one of . _ - /")]
pub struct NotANamespace;

impl Namespace {
    /// Takes a name that is fit for a hash tag and for the key pattern of an ACL rule, which has its own signs.
    pub fn new(name: &str) -> Result<Self, NotANamespace> {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
        if (1..=NAMESPACE_BYTES).contains(&name.len()) && name.bytes().all(is_fit) {
            Ok(Self(name.to_owned()))
        } else {
            Err(NotANamespace)
        }
    }
}

/// Everything that changes what an assessment says or for how long.
#[derive(Debug, Clone, Copy)]
pub struct VersionInputs<'a> {
    /// Base URL of the server that is asked.
    pub endpoint: &'a str,
    /// The model that is asked.
    pub model: &'a str,
    /// Resource attributes that the model may see, in any order.
    pub context_attributes: &'a [String],
    /// Lifetime of assessments in milliseconds.
    pub ttl_milliseconds: u64,
    /// `Complete` or `Context`.
    pub identity: &'a str,
    /// The policy's revision.
    pub revision: &'a str,
}

/// Replicas with the same version read each other's assessments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version([u8; 16]);

impl Version {
    /// The version of the questions in this program with these inputs.
    pub fn new(inputs: VersionInputs<'_>) -> Self {
        Self::with_questions(&questions::definition(), inputs)
    }

    fn with_questions(questions: &[u8], inputs: VersionInputs<'_>) -> Self {
        let mut context = inputs.context_attributes.to_vec();
        context.sort_unstable();
        context.dedup();
        let mut hasher = blake3::Hasher::new_derive_key("jevmetrics assessment version 1");
        let mut put = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        };
        put(questions);
        put(&[payload::FORMAT]);
        put(inputs.endpoint.as_bytes());
        put(inputs.model.as_bytes());
        put(&inputs.ttl_milliseconds.to_be_bytes());
        put(inputs.identity.as_bytes());
        put(inputs.revision.as_bytes());
        put(&(context.len() as u64).to_be_bytes());
        for attribute in &context {
            put(attribute.as_bytes());
        }
        let mut version = [0; 16];
        version.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The keys of one namespace and version.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
    version: Version,
    pub(super) budget: String,
    pub(super) leases: String,
    pub(super) admissions: String,
    pub(super) cooldown: String,
    pub(super) members: String,
}

impl Keys {
    pub(super) fn new(namespace: &Namespace, version: Version) -> Self {
        let prefix = format!("jevmetrics:{{{}}}:", namespace.0);
        Self {
            budget: format!("{prefix}budget"),
            leases: format!("{prefix}leases"),
            admissions: format!("{prefix}admissions"),
            cooldown: format!("{prefix}cooldown"),
            members: format!("{prefix}members"),
            prefix,
            version,
        }
    }

    /// Heartbeats have no version: replicas with other settings are seen too.
    pub(super) fn member(&self, id: &str) -> String {
        format!("{}{id}", self.member_prefix())
    }

    /// There for a while after the member has left.
    pub(super) fn left(&self, id: &str) -> String {
        format!("{}left:{id}", self.prefix)
    }

    /// What stands before the id of a member.
    pub(super) fn member_prefix(&self) -> String {
        format!("{}member:", self.prefix)
    }

    pub(super) fn lease(&self, identity: &Identity) -> String {
        format!("{}lease:{}:{identity}", self.prefix, self.version)
    }

    pub(super) fn score(&self, identity: &Identity) -> String {
        format!("{}score:{}:{identity}", self.prefix, self.version)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn context() -> [String; 2] {
        ["service.name".to_owned(), "cloud.region".to_owned()]
    }

    /// The version with `context` as its list, changed by `change`.
    fn version_of<'a>(context: &'a [String], change: impl FnOnce(&mut VersionInputs<'a>)) -> Version {
        let mut inputs = VersionInputs {
            endpoint: "https://api.typesafe.ai",
            model: "jev-latest",
            context_attributes: context,
            ttl_milliseconds: 900_000,
            identity: "Complete",
            revision: "1",
        };
        change(&mut inputs);
        Version::with_questions(b"questions", inputs)
    }

    fn version(change: impl FnOnce(&mut VersionInputs<'_>)) -> Version {
        version_of(&context(), change)
    }

    #[test]
    fn every_input_makes_another_version() {
        let other = ["service.name".to_owned()];
        let joined = ["service.namecloud.region".to_owned()];
        let versions = [
            version(|_| {}),
            version(|inputs| inputs.endpoint = "https://api.typesafe.ai/"),
            version(|inputs| inputs.model = "jev-2026-05"),
            version_of(&other, |_| {}),
            version_of(&joined, |_| {}),
            version_of(&[], |_| {}),
            version(|inputs| inputs.ttl_milliseconds = 900_001),
            version(|inputs| inputs.identity = "Context"),
            version(|inputs| inputs.revision = "2"),
            version(|inputs| (inputs.identity, inputs.revision) = ("Complete1", "")),
        ];
        for (index, version) in versions.iter().enumerate() {
            assert!(!versions[..index].contains(version), "{index}");
        }
        let inputs = VersionInputs {
            endpoint: "",
            model: "",
            context_attributes: &[],
            ttl_milliseconds: 1,
            identity: "",
            revision: "",
        };
        assert_ne!(
            Version::with_questions(b"1", inputs),
            Version::with_questions(b"2", inputs)
        );
    }

    #[test]
    fn the_order_of_the_allow_list_does_not_matter() {
        let turned = ["cloud.region".to_owned(), "service.name".to_owned()];
        assert_eq!(version_of(&turned, |_| {}), version(|_| {}));
    }

    #[test]
    fn a_namespace_fits_a_hash_tag_and_a_key_pattern() {
        for name in ["jevmetrics-production", "monitoring/shop/3f2a", "A.b_c"] {
            let keys = Keys::new(&Namespace::new(name).unwrap(), version(|_| {}));
            assert_eq!(keys.budget, format!("jevmetrics:{{{name}}}:budget"));
        }
        let long = "x".repeat(NAMESPACE_BYTES + 1);
        for name in ["", "a b", "a}", "a*", "a?", "[ab]", "a\\", "ä", long.as_str()] {
            assert_eq!(Namespace::new(name), Err(NotANamespace), "{name}");
        }
    }
}
