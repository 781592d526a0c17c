//! How asking goes at present, for readiness and pages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::failure::Cause;
use super::outage::Trouble;

/// Whether asking works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Nothing was asked yet.
    Idle,
    /// The latest answer was good.
    Healthy,
    /// The latest attempt failed in a way that may pass by itself.
    CoolingDown {
        /// Of the latest failure.
        cause: Cause,
        /// Until the next attempt; zero if it may come at any time.
        remaining: Duration,
    },
    /// The latest attempt failed in a way that somebody must act upon.
    ConfigurationFault {
        /// Of the latest failure.
        cause: Cause,
        /// Until the next attempt; zero if it may come at any time.
        remaining: Duration,
    },
    /// A key is configured but not there: nothing can be asked.
    KeyMissing,
}

impl Health {
    /// Of the trouble that there is.
    pub fn cause(self) -> Option<Cause> {
        match self {
            Self::Idle | Self::Healthy => None,
            Self::CoolingDown { cause, .. } | Self::ConfigurationFault { cause, .. } => Some(cause),
            Self::KeyMissing => Some(Cause::KeyMissing),
        }
    }

    /// The word used in logs and pages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Healthy => "healthy",
            Self::CoolingDown { .. } => "cooling_down",
            Self::ConfigurationFault { .. } => "configuration_fault",
            Self::KeyMissing => "key_missing",
        }
    }
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferenceState {
    /// Whether asking works.
    pub health: Health,
    /// Time since the latest good answer.
    pub last_success_age: Option<Duration>,
    /// The model that gave it.
    pub answering_model: Option<Arc<str>>,
}

/// What the dispatcher last saw; it alone writes.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) trouble: Option<(Trouble, Instant)>,
    pub(super) last_success: Option<Instant>,
    /// The latest sign that asking works, if only others had their turn.
    pub(super) last_sign: Option<Instant>,
    pub(super) model: Option<Arc<str>>,
}

impl Seen {
    /// The snapshot at `now`, given what is known without asking.
    pub(super) fn at(&self, now: Instant, obstacle: Option<Cause>) -> InferenceState {
        let health = match (obstacle, self.trouble) {
            (Some(Cause::KeyMissing), _) => Health::KeyMissing,
            (_, Some((Trouble { cause, configuration }, until))) => {
                let remaining = until.saturating_duration_since(now);
                if configuration {
                    Health::ConfigurationFault { cause, remaining }
                } else {
                    Health::CoolingDown { cause, remaining }
                }
            }
            (Some(cause), None) => Health::ConfigurationFault {
                cause,
                remaining: Duration::ZERO,
            },
            (None, None) if self.last_success.is_some() => Health::Healthy,
            (None, None) => Health::Idle,
        };
        InferenceState {
            health,
            last_success_age: self.last_success.map(|at| now.saturating_duration_since(at)),
            answering_model: self.model.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_names_what_keeps_us_from_asking() {
        let now = Instant::now();
        let until = now + Duration::from_secs(4);
        let remaining = Duration::from_secs(4);
        let fresh = Seen::default();
        let good = Seen {
            last_success: Some(now),
            last_sign: Some(now),
            model: Some("jev-1.13.0".into()),
            trouble: None,
        };
        let passing = Seen {
            trouble: Some((Cause::Timeout.trouble(), until)),
            ..good.clone()
        };
        let lasting = Seen {
            trouble: Some((Cause::Unauthorized.trouble(), until)),
            ..good.clone()
        };
        let table = [
            (&fresh, None, Health::Idle),
            (&fresh, Some(Cause::KeyMissing), Health::KeyMissing),
            (&good, None, Health::Healthy),
            (
                &passing,
                None,
                Health::CoolingDown {
                    cause: Cause::Timeout,
                    remaining,
                },
            ),
            (
                &lasting,
                None,
                Health::ConfigurationFault {
                    cause: Cause::Unauthorized,
                    remaining,
                },
            ),
            (&lasting, Some(Cause::KeyMissing), Health::KeyMissing),
        ];
        for (seen, obstacle, health) in table {
            assert_eq!(seen.at(now, obstacle).health, health);
        }
        let later = good.at(now + Duration::from_secs(9), None);
        assert_eq!(later.last_success_age, Some(Duration::from_secs(9)));
        assert_eq!(later.answering_model.as_deref(), Some("jev-1.13.0"));
        let over = passing.at(until, None).health;
        assert_eq!(
            over,
            Health::CoolingDown {
                cause: Cause::Timeout,
                remaining: Duration::ZERO
            }
        );
    }
}
