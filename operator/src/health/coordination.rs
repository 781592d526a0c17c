//! How sharing over Redis fares in pods. The operator asks no Redis: what pods say is all that it knows.

use std::mem::discriminant;

use jevmetrics_api::member::{CoordinationReport, CoordinationState, Member};

/// How sharing fares in pods: the worst that one of them says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Coordination {
    /// No pod says.
    #[default]
    Unknown,
    /// Redis answers whoever needs it.
    Healthy,
    /// The server gives up leases and budgets when its memory is full.
    Evicting {
        /// Its `maxmemory-policy`.
        policy: String,
    },
    /// A change of the budget has not reached all.
    Pending,
    /// A pod has another budget than the one in force, and neither is a change of the other.
    Mismatch {
        /// The first one by name.
        pod: String,
        /// Names both.
        reason: String,
    },
    /// A pod needed Redis and had nothing of use from it for 60 s.
    Failing {
        /// The first one by name.
        pod: String,
        /// One word.
        cause: String,
    },
}

/// The one `maxmemory-policy` under which nothing is given up.
const NO_EVICTION: &str = "noeviction";

impl Coordination {
    pub(super) fn of(members: &[(String, Member)]) -> Self {
        let mut reports: Vec<(&str, &CoordinationReport)> = members
            .iter()
            .filter_map(|(pod, member)| Some((pod.as_str(), member.coordination.as_ref()?)))
            .filter(|(_, report)| report.state != CoordinationState::Unknown)
            .collect();
        reports.sort_by_key(|(pod, _)| *pod);
        let says = |state| reports.iter().find(|(_, report)| report.state == state);
        let words =
            |report: &CoordinationReport| report.reason.clone().unwrap_or_else(|| "unknown".to_owned());
        if let Some((pod, report)) = says(CoordinationState::Failing) {
            return Self::Failing {
                pod: (*pod).to_owned(),
                cause: words(report),
            };
        }
        if let Some((pod, report)) = says(CoordinationState::Mismatch) {
            return Self::Mismatch {
                pod: (*pod).to_owned(),
                reason: words(report),
            };
        }
        let is_pending =
            says(CoordinationState::Pending).is_some() || says(CoordinationState::Superseded).is_some();
        if is_pending {
            return Self::Pending;
        }
        let mut policies = reports
            .iter()
            .filter_map(|(_, report)| report.eviction_policy.as_deref());
        match policies.find(|policy| *policy != NO_EVICTION) {
            Some(policy) => Self::Evicting {
                policy: policy.to_owned(),
            },
            None if reports.is_empty() => Self::Unknown,
            None => Self::Healthy,
        }
    }

    /// Whether both say the same but for their words.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Failing { pod, .. }, Self::Failing { pod: others, .. })
            | (Self::Mismatch { pod, .. }, Self::Mismatch { pod: others, .. }) => pod == others,
            _ => discriminant(self) == discriminant(other),
        }
    }
}
