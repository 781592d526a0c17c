//! What the pods of a policy say of themselves, calmed. Pure.
//!
//! It changes when two polls in a row say the same new thing: one lost reply turns no condition.

use jevmetrics_api::member::{InferenceState, Member};

/// What the pods of a policy say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// How their questions fare.
    pub inference: Inference,
    /// The model that answered; `mixed` if pods differ.
    pub model: Option<String>,
}

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

impl Health {
    /// What one poll says; `members` are the pods that answered, with their names.
    pub fn of(members: &[(String, Member)]) -> Self {
        let failing = members
            .iter()
            .filter(|(_, member)| member.inference.state == InferenceState::Failing)
            .min_by_key(|(pod, _)| pod);
        let inference = match failing {
            Some((pod, member)) => Inference::Failing {
                pod: pod.clone(),
                cause: member
                    .inference
                    .reason
                    .clone()
                    .unwrap_or_else(|| "unknown".to_owned()),
            },
            None if members.is_empty() => Inference::Unknown,
            None => Inference::Healthy,
        };
        let mut models = members
            .iter()
            .filter_map(|(_, member)| member.inference.model.as_ref());
        let model = models.next().map(|first| {
            if models.all(|other| other == first) {
                first.clone()
            } else {
                "mixed".to_owned()
            }
        });
        Self { inference, model }
    }
}

/// The polls of one policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Polls {
    said: Option<Health>,
    last: Option<Health>,
}

impl Polls {
    /// What counts now; none before two polls in a row have said the same.
    pub fn health(&self) -> Option<&Health> {
        self.said.as_ref()
    }

    /// Takes in one poll; says whether what counts has changed.
    pub fn take_in(&mut self, polled: Health) -> bool {
        let polled = Some(polled);
        let counts = polled == self.last && polled != self.said;
        if counts {
            self.said.clone_from(&polled);
        }
        self.last = polled;
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(pod: &str) -> Health {
        Health {
            inference: Inference::Failing {
                pod: pod.to_owned(),
                cause: "timeout".to_owned(),
            },
            model: None,
        }
    }

    fn healthy() -> Health {
        Health {
            inference: Inference::Healthy,
            model: Some("jev-1".to_owned()),
        }
    }

    #[test]
    fn one_odd_poll_changes_nothing() {
        let mut polls = Polls::default();
        assert!(!polls.take_in(healthy()));
        assert!(polls.take_in(healthy()));
        for _ in 0..5 {
            assert!(!polls.take_in(failing("a")));
            assert!(!polls.take_in(healthy()));
        }
        assert_eq!(polls.health(), Some(&healthy()));
    }

    #[test]
    fn two_equal_polls_count() {
        let mut polls = Polls::default();
        polls.take_in(failing("a"));
        assert!(!polls.take_in(failing("b")), "another thing was said");
        assert!(polls.take_in(failing("b")));
        assert_eq!(polls.health(), Some(&failing("b")));
    }

    #[test]
    fn nothing_is_known_before_two_polls_whatever_the_first_says() {
        let mut polls = Polls::default();
        assert!(!polls.take_in(Health::default()));
        assert_eq!(polls.health(), None);
        assert!(polls.take_in(Health::default()));
        assert_eq!(polls.health(), Some(&Health::default()));
    }
}
