//! `CoordinationHealthy` and `status.coordination`: pods that share can do so. Both are there only if they are to share.
//!
//! As for `InferenceHealthy`, what was said stays until a new leader has asked the pods twice.

use jevmetrics_api::policy::{CoordinationStatus, JevMetricsPolicyStatus, ValidPolicy};

use crate::conditions::{self, COORDINATION_HEALTHY, Verdict};
use crate::health::{Coordination, Health};
use crate::reconcile::Outcome;

const UNKNOWN: &str = "NoPodAnswers";
const HEALTHY: &str = "Healthy";
const EVICTING: &str = "EvictingPolicy";
const PENDING: &str = "BudgetPending";
const MISMATCH: &str = "BudgetMismatch";
const UNAVAILABLE: &str = "RedisUnavailable";

pub(super) fn verdict(health: &Health, before: Option<&JevMetricsPolicyStatus>) -> Verdict {
    let Some(coordination) = &health.coordination else {
        return said(before);
    };
    match coordination {
        Coordination::Unknown => unknown(),
        Coordination::Healthy => Verdict::yes(HEALTHY, "no pod that needs Redis waits for it"),
        Coordination::Evicting { policy } => Verdict::doubtful(
            EVICTING,
            format!(
                "the maxmemory-policy of Redis is {policy}: when its memory is full, leases and budgets go; it must be noeviction"
            ),
        ),
        Coordination::Pending => Verdict::yes(
            PENDING,
            "another budget is about to come into force: nobody asks for twice the old lease",
        ),
        Coordination::Mismatch { pod, reason } => {
            Verdict::no(MISMATCH, format!("pod {pod} does not ask: {reason}"))
        }
        Coordination::Failing { pod, cause } => Verdict::no(
            UNAVAILABLE,
            format!("pod {pod} has had nothing of use from Redis for 60 s: {cause}"),
        ),
    }
}

/// What is remembered: the generation that was last put into the live object, also if nothing could be now.
pub(super) fn status(
    valid: Option<&ValidPolicy>,
    outcome: &Outcome,
    before: Option<&JevMetricsPolicyStatus>,
) -> Option<CoordinationStatus> {
    let before = before.and_then(|before| before.coordination.as_ref());
    let Some(valid) = valid else {
        return before.cloned();
    };
    let sharing = valid.sharing()?;
    let generation = match outcome.generation {
        Some(generation) => Some(i64::from(generation)).filter(|generation| *generation > 0),
        None => before.and_then(|before| before.generation),
    };
    Some(CoordinationStatus {
        namespace: sharing.namespace().to_owned(),
        generation,
    })
}

fn unknown() -> Verdict {
    Verdict::unknown(UNKNOWN, "no pod has said how sharing fares")
}

fn said(before: Option<&JevMetricsPolicyStatus>) -> Verdict {
    let reasons = [HEALTHY, EVICTING, PENDING, MISMATCH, UNAVAILABLE];
    match conditions::said(before, COORDINATION_HEALTHY, &reasons) {
        None => unknown(),
        Some((reason @ (MISMATCH | UNAVAILABLE), message)) => Verdict::no(reason, message),
        Some((EVICTING, message)) => Verdict::doubtful(EVICTING, message),
        Some((reason, message)) => Verdict::yes(reason, message),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn told(coordination: Coordination) -> Verdict {
        let health = Health {
            coordination: Some(coordination),
            ..Health::default()
        };
        verdict(&health, None)
    }

    fn all() -> Vec<(Coordination, Option<bool>, &'static str, &'static str)> {
        let pod = || "jm-1".to_owned();
        vec![
            (Coordination::Unknown, None, UNKNOWN, ""),
            (Coordination::Healthy, Some(true), HEALTHY, ""),
            (
                Coordination::Evicting {
                    policy: "allkeys-lru".to_owned(),
                },
                Some(true),
                EVICTING,
                "allkeys-lru",
            ),
            (Coordination::Pending, Some(true), PENDING, "twice the old lease"),
            (
                Coordination::Mismatch {
                    pod: pod(),
                    reason: "10 s here, 20 s there".to_owned(),
                },
                Some(false),
                MISMATCH,
                "pod jm-1 does not ask: 10 s here, 20 s there",
            ),
            (
                Coordination::Failing {
                    pod: pod(),
                    cause: "timeout".to_owned(),
                },
                Some(false),
                UNAVAILABLE,
                "pod jm-1 has had nothing of use from Redis for 60 s: timeout",
            ),
        ]
    }

    #[test]
    fn each_thing_that_pods_say_has_its_reason() {
        for (coordination, holds, reason, part) in all() {
            let found = told(coordination);
            assert_eq!((found.holds, found.reason), (holds, reason));
            assert!(found.message.contains(part), "{}", found.message);
            assert_eq!(found.is_doubtful, reason == EVICTING);
        }
    }

    #[test]
    fn what_was_said_stays_until_the_pods_were_asked() {
        let now = Time(jiff::Timestamp::UNIX_EPOCH);
        for (coordination, ..) in all() {
            let said = told(coordination);
            let (conditions, _) = conditions::with(&[], COORDINATION_HEALTHY, &said, Some(1), &now);
            let before = JevMetricsPolicyStatus {
                conditions,
                ..JevMetricsPolicyStatus::default()
            };
            assert_eq!(verdict(&Health::default(), Some(&before)), said);
        }
        assert_eq!(verdict(&Health::default(), None), unknown());
    }
}
