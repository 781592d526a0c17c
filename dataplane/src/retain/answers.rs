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
    pub const fn as_str(self) -> &'static str {
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

    /// As [`Self::from_probability`], but a part of a percent counts as a whole one: what lies above a
    /// threshold, by however little, never falls to it.
    pub fn from_probability_upwards(probability: f64) -> Option<Self> {
        // 0.07 × 100 is a little more than 7: what the multiplication adds does not count.
        Self::from_probability(((probability * 100.0 - 1e-6).ceil() / 100.0).max(0.0))
            .filter(|_| (0.0..=1.0).contains(&probability))
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_probability_in_steps_of_a_hundredth_loses_nothing() {
        for percent in 0..=100_u8 {
            let probability = f64::from(percent) / 100.0;
            assert_eq!(Percent::from_probability(probability).unwrap().get(), percent);
            assert_eq!(
                Percent::from_probability_upwards(probability).unwrap().get(),
                percent
            );
        }
    }

    #[test]
    fn rounded_upwards_nothing_falls_to_a_threshold_below_it() {
        for (probability, percent) in [(0.3049, 31), (0.3001, 31), (0.0049, 1), (0.9999, 100), (1e-5, 1)] {
            assert_eq!(
                Percent::from_probability_upwards(probability).unwrap().get(),
                percent
            );
        }
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        for probability in [-0.001, 1.001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Percent::from_probability(probability), None);
            assert_eq!(Percent::from_probability_upwards(probability), None);
        }
    }
}
