//! `ConfigurationValid`: the policy holds, and what it names is there.

use crate::conditions::Verdict;
use crate::reconcile::{ApplyError, Outcome, ReconcileError};

pub(super) fn verdict(outcome: &Outcome) -> Verdict {
    if let Some(error) = &outcome.invalid {
        return Verdict::no("Invalid", error.to_string());
    }
    match &outcome.failure {
        Some(ReconcileError::Apply(error @ (ApplyError::NameTaken(..) | ApplyError::LeftOver(..)))) => {
            return Verdict::no("NameTaken", error.to_string());
        }
        Some(ReconcileError::Apply(error @ ApplyError::Refused(..))) => {
            return Verdict::no("Refused", error.to_string());
        }
        Some(ReconcileError::Apply(error @ ApplyError::Forbidden(..))) => {
            return Verdict::no("Forbidden", error.to_string());
        }
        // Anything else says nothing about the policy.
        _ => {}
    }
    if let Some(error) = &outcome.unchecked {
        return Verdict::unknown("SecretNotChecked", error.to_string());
    }
    if !outcome.missing.is_empty() {
        let missing: Vec<_> = outcome.missing.iter().map(ToString::to_string).collect();
        return Verdict::no("SecretNotFound", missing.join("; "));
    }
    Verdict::yes("Valid", "every rule holds, and all that is named is there")
}
