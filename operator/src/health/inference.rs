//! How the questions of pods fare.

use jevmetrics_api::member::{InferenceState, Member};

/// How the questions of pods fare.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Inference {
    /// No pod answers.
    #[default]
    Unknown,
    /// No pod that asks waits for answers.
    Healthy,
    /// A pod wanted to ask and had no success for 60 s.
    Failing {
        /// The first one by name.
        pod: String,
        /// One word.
        cause: String,
    },
}

impl Inference {
    pub(super) fn of(members: &[(String, Member)]) -> Self {
        let failing = members
            .iter()
            .filter(|(_, member)| member.inference.state == InferenceState::Failing)
            .min_by_key(|(pod, _)| pod);
        match failing {
            Some((pod, member)) => Self::Failing {
                pod: pod.clone(),
                cause: member
                    .inference
                    .reason
                    .clone()
                    .unwrap_or_else(|| "unknown".to_owned()),
            },
            None if members.is_empty() => Self::Unknown,
            None => Self::Healthy,
        }
    }

    /// Whether both say the same but for their words.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Failing { pod, .. }, Self::Failing { pod: others, .. }) => pod == others,
            _ => self == other,
        }
    }
}
