//! `InferenceHealthy`: Jev answers the pods that ask.
//!
//! Until a new leader has asked the pods twice, what its predecessor has said stays: a change of leaders is no news.

use jevmetrics_api::policy::{JevMetricsPolicyStatus, QuestionBudget};

use crate::conditions::{self, INFERENCE_HEALTHY, Verdict};
use crate::health::{Health, Inference};

const UNKNOWN: &str = "NoPodAnswers";
const HEALTHY: &str = "Healthy";
const TOO_SMALL: &str = "BudgetTooSmall";
const FAILING: &str = "NoAnswers";

/// `budget` is that of the policy, if it holds.
pub(super) fn verdict(
    health: &Health,
    budget: Option<&QuestionBudget>,
    before: Option<&JevMetricsPolicyStatus>,
) -> Verdict {
    let (Some(inference), Some(is_too_small)) = (&health.inference, health.is_budget_too_small) else {
        return said(before);
    };
    match inference {
        Inference::Unknown => unknown(),
        Inference::Healthy if is_too_small => Verdict::yes(TOO_SMALL, too_small(budget)),
        Inference::Healthy => Verdict::yes(HEALTHY, "no pod that asks waits for answers"),
        Inference::Failing { pod, cause } => {
            Verdict::no(FAILING, format!("pod {pod} has had no answer for 60 s: {cause}"))
        }
    }
}

/// The model that answered.
pub(super) fn model(health: &Health, before: Option<&JevMetricsPolicyStatus>) -> Option<String> {
    match &health.model {
        Some(model) => model.clone(),
        None => before?.inference.as_ref()?.model.clone(),
    }
}

/// Names the budget alone: how many instruments are live follows traffic.
fn too_small(budget: Option<&QuestionBudget>) -> String {
    let more = "for 10 min there have been more instruments than can be kept fresh";
    let Some(budget) = budget else {
        return more.to_owned();
    };
    let whose = if budget.is_shared {
        "of all pods together"
    } else {
        "of each pod"
    };
    format!(
        "{more}: {} questions per second {whose} and assessments that last {} s are enough for {}",
        budget.requests_per_second,
        budget.score_ttl_seconds,
        budget.instruments()
    )
}

fn unknown() -> Verdict {
    Verdict::unknown(UNKNOWN, "no pod has said how its questions fare")
}

fn said(before: Option<&JevMetricsPolicyStatus>) -> Verdict {
    match conditions::said(before, INFERENCE_HEALTHY, &[HEALTHY, TOO_SMALL, FAILING]) {
        None => unknown(),
        Some((FAILING, message)) => Verdict::no(FAILING, message),
        Some((reason, message)) => Verdict::yes(reason, message),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use jevmetrics_api::policy::InferenceStatus;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn status_with(verdict: &Verdict, model: &str) -> JevMetricsPolicyStatus {
        let now = Time(jiff::Timestamp::UNIX_EPOCH);
        let (conditions, _) = conditions::with(&[], INFERENCE_HEALTHY, verdict, Some(1), &now);
        JevMetricsPolicyStatus {
            conditions,
            inference: Some(InferenceStatus {
                endpoint: String::new(),
                model: Some(model.to_owned()),
            }),
            ..JevMetricsPolicyStatus::default()
        }
    }

    fn told(inference: Inference, is_budget_too_small: bool) -> Health {
        Health {
            inference: Some(inference),
            model: Some(None),
            is_budget_too_small: Some(is_budget_too_small),
            ..Health::default()
        }
    }

    #[test]
    fn what_was_said_stays_until_the_pods_were_asked() {
        let verdicts = [
            Verdict::yes(HEALTHY, "fine"),
            Verdict::yes(TOO_SMALL, "10 questions"),
            Verdict::no(FAILING, "pod a"),
            unknown(),
        ];
        let nobody = Health::default();
        for said in verdicts {
            let before = status_with(&said, "jev-1");
            assert_eq!(verdict(&nobody, None, Some(&before)), said);
            assert_eq!(model(&nobody, Some(&before)).as_deref(), Some("jev-1"));
        }
        assert_eq!(verdict(&nobody, None, None), unknown());
    }

    #[test]
    fn what_pods_say_counts_whatever_was_said() {
        let before = status_with(&Verdict::yes(HEALTHY, "fine"), "jev-1");
        let silent = told(Inference::Unknown, false);
        assert_eq!(verdict(&silent, None, Some(&before)), unknown());
        assert_eq!(model(&silent, Some(&before)), None);
    }

    #[test]
    fn a_budget_that_is_too_small_is_named_and_is_less_than_no_answers() {
        let mut budget = QuestionBudget {
            requests_per_second: 20,
            is_shared: true,
            score_ttl_seconds: 600,
        };
        let small = told(Inference::Healthy, true);
        let found = verdict(&small, Some(&budget), None);
        assert_eq!((found.holds, found.reason), (Some(true), TOO_SMALL));
        for part in ["20 questions per second of all pods", "600 s", "enough for 12000"] {
            assert!(found.message.contains(part), "{}", found.message);
        }
        budget.is_shared = false;
        let found = verdict(&small, Some(&budget), None);
        assert!(found.message.contains("of each pod"), "{}", found.message);
        let failing = Inference::Failing {
            pod: "a".to_owned(),
            cause: "timeout".to_owned(),
        };
        assert_eq!(verdict(&told(failing, true), Some(&budget), None).reason, FAILING);
    }
}
