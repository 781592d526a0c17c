//! Jev's four answers as small integers.

/// The action that the model recommends: shown, never obeyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Store as it is.
    Keep,
    /// Store less of it.
    Reduce,
    /// Discard it.
    Drop,
}

impl Action {
    /// The name used in questions, companions and pages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Reduce => "reduce",
            Self::Drop => "drop",
        }
    }
}

/// A probability in whole percents, 0..=100. Jev answers in steps of 0.01: nothing is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u8);

impl Percent {
    /// From whole percents; `None` above 100.
    pub fn new(percent: u8) -> Option<Self> {
        (percent <= 100).then_some(Self(percent))
    }

    /// From a probability; `None` unless finite and within 0..=1. Rounded to the nearest percent.
    pub fn from_probability(probability: f64) -> Option<Self> {
        if !(0.0..=1.0).contains(&probability) {
            return None;
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0..=100 after the check"
        )]
        Some(Self((probability * 100.0).round() as u8))
    }

    /// Whole percents.
    pub fn get(self) -> u8 {
        self.0
    }

    /// 0.0..=1.0.
    pub fn probability(self) -> f64 {
        f64::from(self.0) / 100.0
    }
}

/// The validated answers to the four questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answers {
    /// Probability of durable operational value.
    pub relevance: Percent,
    /// Probability of being redundant or noisy.
    pub redundancy: Percent,
    /// Probability that it should stay in primary storage: the only answer that decides.
    pub keep: Percent,
    /// Recommended action.
    pub action: Action,
}
