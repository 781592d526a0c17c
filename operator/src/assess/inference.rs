//! `InferenceHealthy`: Jev answers the pods that ask.
//!
//! Until a new leader has asked the pods twice, what its predecessor has said stays: a change of leaders is no news.

use jevmetrics_api::policy::JevMetricsPolicyStatus;

use crate::conditions::{INFERENCE_HEALTHY, Verdict};
use crate::health::{Health, Inference};

const UNKNOWN: &str = "NoPodAnswers";
const HEALTHY: &str = "Healthy";
const FAILING: &str = "NoAnswers";

pub(super) fn verdict(health: Option<&Health>, before: Option<&JevMetricsPolicyStatus>) -> Verdict {
    let Some(health) = health else {
        return before.and_then(said).unwrap_or_else(unknown);
    };
    match &health.inference {
        Inference::Unknown => unknown(),
        Inference::Healthy => Verdict::yes(HEALTHY, "no pod that asks waits for answers"),
        Inference::Failing { pod, cause } => {
            Verdict::no(FAILING, format!("pod {pod} has had no answer for 60 s: {cause}"))
        }
    }
}

/// The model that answered.
pub(super) fn model(health: Option<&Health>, before: Option<&JevMetricsPolicyStatus>) -> Option<String> {
    match health {
        Some(health) => health.model.clone(),
        None => before?.inference.as_ref()?.model.clone(),
    }
}

fn unknown() -> Verdict {
    Verdict::unknown(UNKNOWN, "no pod has said how its questions fare")
}

fn said(before: &JevMetricsPolicyStatus) -> Option<Verdict> {
    let mut conditions = before.conditions.iter();
    let condition = conditions.find(|condition| condition.type_ == INFERENCE_HEALTHY)?;
    let message = condition.message.as_str();
    match condition.reason.as_str() {
        HEALTHY => Some(Verdict::yes(HEALTHY, message)),
        FAILING => Some(Verdict::no(FAILING, message)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use jevmetrics_api::policy::InferenceStatus;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::conditions;

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

    #[test]
    fn what_was_said_stays_until_the_pods_were_asked() {
        let verdicts = [
            Verdict::yes(HEALTHY, "fine"),
            Verdict::no(FAILING, "pod a"),
            unknown(),
        ];
        for said in verdicts {
            let before = status_with(&said, "jev-1");
            assert_eq!(verdict(None, Some(&before)), said);
            assert_eq!(model(None, Some(&before)).as_deref(), Some("jev-1"));
        }
        assert_eq!(verdict(None, None), unknown());
    }

    #[test]
    fn what_pods_say_counts_whatever_was_said() {
        let before = status_with(&Verdict::yes(HEALTHY, "fine"), "jev-1");
        let silent = Health::default();
        assert_eq!(verdict(Some(&silent), Some(&before)), unknown());
        assert_eq!(model(Some(&silent), Some(&before)), None);
    }
}
