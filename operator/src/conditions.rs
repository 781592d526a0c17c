//! Conditions of a policy's status. Pure.
//!
//! Invariants: one condition a type, in the order in which they were first set; the time of a transition moves
//! when the status does, and only then.

use jevmetrics_api::policy::JevMetricsPolicyStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The data plane serves.
pub const READY: &str = "Ready";
/// Every pod runs the target revision and its settings.
pub const ROLLED_OUT: &str = "RolledOut";
/// The policy holds, and what it names is there.
pub const CONFIGURATION_VALID: &str = "ConfigurationValid";
/// Jev answers the pods that ask.
pub const INFERENCE_HEALTHY: &str = "InferenceHealthy";
/// Pods that share can do so. Only there if they are to share.
pub const COORDINATION_HEALTHY: &str = "CoordinationHealthy";
/// Every ready pod knows who owns what.
pub const ROUTING_CONVERGED: &str = "RoutingConverged";

/// Longest message; the API server takes more, people do not.
const MAX_MESSAGE_BYTES: usize = 2048;

/// What is said of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it holds; `None` if that is not known.
    pub holds: Option<bool>,
    /// One word, of a fixed list: see `docs/operator.md`.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// Whether it holds and is worth a warning all the same.
    pub is_doubtful: bool,
}

impl Verdict {
    /// It holds.
    pub fn yes(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            holds: Some(true),
            reason,
            message: message.into(),
            is_doubtful: false,
        }
    }

    /// It holds, in a way that somebody should look at.
    pub fn doubtful(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            is_doubtful: true,
            ..Self::yes(reason, message)
        }
    }

    /// It does not hold.
    pub fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            holds: Some(false),
            ..Self::yes(reason, message)
        }
    }

    /// Nobody knows.
    pub fn unknown(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            holds: None,
            ..Self::yes(reason, message)
        }
    }

    fn status(&self) -> &'static str {
        match self.holds {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        }
    }
}

/// `before` with `verdict` on the condition `type_`, and whether its status or reason turned.
pub fn with(
    before: &[Condition],
    type_: &str,
    verdict: &Verdict,
    generation: Option<i64>,
    now: &Time,
) -> (Vec<Condition>, bool) {
    let mut after = before.to_vec();
    let place = after.iter().position(|condition| condition.type_ == type_);
    let old = place.map(|place| &before[place]);
    let is_same_status = old.is_some_and(|old| old.status == verdict.status());
    let turned = !is_same_status || old.is_some_and(|old| old.reason != verdict.reason);
    let mut message = verdict.message.clone();
    message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
    let condition = Condition {
        type_: type_.to_owned(),
        status: verdict.status().to_owned(),
        reason: verdict.reason.to_owned(),
        message,
        observed_generation: generation,
        last_transition_time: match old {
            Some(old) if is_same_status => old.last_transition_time.clone(),
            _ => now.clone(),
        },
    };
    match place {
        Some(place) => after[place] = condition,
        None => after.push(condition),
    }
    (after, turned)
}

/// `before` without the condition `type_`.
pub fn without(mut before: Vec<Condition>, type_: &str) -> Vec<Condition> {
    before.retain(|condition| condition.type_ != type_);
    before
}

/// Whether anything is said of the condition `type_`.
pub fn is_said(conditions: &[Condition], type_: &str) -> bool {
    conditions.iter().any(|condition| condition.type_ == type_)
}

/// What was said of the condition `type_`: its reason, if it is one of `reasons`, and its message.
pub fn said<'c>(
    before: Option<&'c JevMetricsPolicyStatus>,
    type_: &str,
    reasons: &[&'static str],
) -> Option<(&'static str, &'c str)> {
    let mut conditions = before?.conditions.iter();
    let condition = conditions.find(|condition| condition.type_ == type_)?;
    let reason = reasons.iter().find(|reason| **reason == condition.reason)?;
    Some((reason, &condition.message))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(second: i64) -> Time {
        Time(jiff::Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn the_time_moves_when_the_status_turns_and_not_before() {
        let (first, turned) = with(&[], READY, &Verdict::no("NoPodReady", "none"), Some(1), &at(10));
        assert!(turned);
        let (second, turned) = with(
            &first,
            READY,
            &Verdict::no("ScaledToZero", "none"),
            Some(2),
            &at(20),
        );
        assert!(turned);
        assert_eq!(second[0].last_transition_time, at(10));
        let (third, turned) = with(&second, READY, &Verdict::yes("Serving", "all"), Some(2), &at(30));
        assert!(turned);
        assert_eq!((third.len(), &third[0].last_transition_time), (1, &at(30)));
    }

    #[test]
    fn saying_the_same_again_changes_nothing() {
        let verdict = Verdict::yes("Serving", "3 of 3 pods are ready");
        let (first, _) = with(&[], READY, &verdict, Some(1), &at(10));
        assert_eq!(with(&first, READY, &verdict, Some(1), &at(20)), (first, false));
    }

    #[test]
    fn other_conditions_stay_where_they_are() {
        let (first, _) = with(&[], READY, &Verdict::yes("Serving", ""), None, &at(1));
        let (both, _) = with(&first, ROLLED_OUT, &Verdict::no("Progressing", ""), None, &at(2));
        let (again, _) = with(&both, READY, &Verdict::no("NoPodReady", ""), None, &at(3));
        let types: Vec<_> = again.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(types, [READY, ROLLED_OUT]);
        let one = without(again, READY);
        assert_eq!((one.len(), one[0].type_.as_str()), (1, ROLLED_OUT));
    }
}
