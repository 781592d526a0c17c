//! Under which name pods share, and what they may ask.

use super::super::JevMetricsPolicySpec;
use crate::live::Budget;

/// How pods share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sharing {
    namespace: String,
    is_named: bool,
    budget: Budget,
}

impl Sharing {
    pub(super) fn new(namespace: String, is_named: bool, budget: Budget) -> Self {
        Self {
            namespace,
            is_named,
            budget,
        }
    }

    /// The name under which they share.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether changes of the budget are counted: not in a namespace that the policy names, for others may share it and
    /// count for themselves.
    pub fn counts(&self) -> bool {
        !self.is_named
    }

    /// What they may ask together; without a generation.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }
}

/// How many questions may be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuestionBudget {
    /// In a second.
    pub requests_per_second: u32,
    /// Of all pods together; otherwise of each.
    pub is_shared: bool,
    /// How long an answer counts.
    pub score_ttl_seconds: u64,
}

impl QuestionBudget {
    /// Instruments whose assessments can be kept fresh with it.
    pub fn instruments(&self) -> u64 {
        u64::from(self.requests_per_second) * self.score_ttl_seconds
    }
}

/// The name under which the pods of a policy share: what its spec says, else one that no other policy has. A policy in
/// no cluster has no uid yet.
pub(super) fn namespace(namespace: &str, name: &str, uid: &str, spec: &JevMetricsPolicySpec) -> String {
    let named = spec.coordination.as_ref().and_then(|of| of.namespace.clone());
    named.unwrap_or_else(|| match uid {
        "" => format!("{namespace}/{name}"),
        uid => format!(
            "{namespace}/{name}/{}",
            &blake3::hash(uid.as_bytes()).to_hex()[..8]
        ),
    })
}
