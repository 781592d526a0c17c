//! The decision on one metric: one pure function for both modes, so that a preview and the real thing
//! cannot disagree.

use super::answers::Percent;

/// Keep or drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Passed on.
    Keep,
    /// Removed with all its data points (in `Annotate`: would be).
    Drop,
}

impl Decision {
    /// Label value in metrics and pages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Drop => "drop",
        }
    }
}

/// Why. The order is that of the decision chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No policy was read yet: nothing is decided, nothing is asked.
    AwaitingPolicy,
    /// Protected by name or prefix, or one of the companion gauges.
    Protected,
    /// The identity cannot be read safely.
    InvalidIdentity,
    /// Jev refused this instrument.
    Unassessable,
    /// No fresh assessment in the local cache.
    AwaitingAssessment,
    /// The keep probability decided.
    CachedScore,
    /// The keep probability lies between the thresholds.
    Uncertain,
}

impl Reason {
    /// All reasons, in the order of the chain.
    pub const ALL: [Self; 7] = [
        Self::AwaitingPolicy,
        Self::Protected,
        Self::InvalidIdentity,
        Self::Unassessable,
        Self::AwaitingAssessment,
        Self::CachedScore,
        Self::Uncertain,
    ];

    /// Label value in metrics and pages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AwaitingPolicy => "awaiting_policy",
            Self::Protected => "protected",
            Self::InvalidIdentity => "invalid_identity",
            Self::Unassessable => "unassessable",
            Self::AwaitingAssessment => "awaiting_assessment",
            Self::CachedScore => "cached_score",
            Self::Uncertain => "uncertain",
        }
    }
}

/// What is known of an instrument right now. Expired knowledge is no knowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knowledge {
    /// Its identity cannot be read safely.
    InvalidIdentity,
    /// Jev refused it, and the refusal is fresh.
    Unassessable,
    /// Nothing.
    Unknown,
    /// A fresh assessment with this keep probability.
    Assessed(Percent),
}

/// Drop at or below one, keep at or above the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    keep: u8,
    drop: u8,
}

impl Thresholds {
    /// Every score is at or above the keep threshold.
    pub const KEEP_EVERYTHING: Self = Self { keep: 0, drop: 0 };

    /// Whole percents; `None` unless drop ≤ keep ≤ 100.
    pub fn new(keep_percent: u8, drop_percent: u8) -> Option<Self> {
        (drop_percent <= keep_percent && keep_percent <= 100).then_some(Self {
            keep: keep_percent,
            drop: drop_percent,
        })
    }
}

/// The decision chain.
#[inline]
pub fn decide(is_protected: bool, knowledge: Knowledge, thresholds: Thresholds) -> (Decision, Reason) {
    if is_protected {
        return (Decision::Keep, Reason::Protected);
    }
    match knowledge {
        Knowledge::InvalidIdentity => (Decision::Keep, Reason::InvalidIdentity),
        Knowledge::Unassessable => (Decision::Keep, Reason::Unassessable),
        Knowledge::Unknown => (Decision::Keep, Reason::AwaitingAssessment),
        Knowledge::Assessed(keep) if keep.get() >= thresholds.keep => (Decision::Keep, Reason::CachedScore),
        Knowledge::Assessed(keep) if keep.get() <= thresholds.drop => (Decision::Drop, Reason::CachedScore),
        Knowledge::Assessed(_) => (Decision::Keep, Reason::Uncertain),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn assessed(percent: u8) -> Knowledge {
        Knowledge::Assessed(Percent::new(percent).unwrap())
    }

    #[test]
    fn the_chain_decides_in_its_order() {
        let thresholds = Thresholds::new(70, 30).unwrap();
        let table = [
            (true, assessed(0), Decision::Keep, Reason::Protected),
            (
                true,
                Knowledge::InvalidIdentity,
                Decision::Keep,
                Reason::Protected,
            ),
            (
                false,
                Knowledge::InvalidIdentity,
                Decision::Keep,
                Reason::InvalidIdentity,
            ),
            (
                false,
                Knowledge::Unassessable,
                Decision::Keep,
                Reason::Unassessable,
            ),
            (
                false,
                Knowledge::Unknown,
                Decision::Keep,
                Reason::AwaitingAssessment,
            ),
            (false, assessed(100), Decision::Keep, Reason::CachedScore),
            (false, assessed(70), Decision::Keep, Reason::CachedScore),
            (false, assessed(69), Decision::Keep, Reason::Uncertain),
            (false, assessed(31), Decision::Keep, Reason::Uncertain),
            (false, assessed(30), Decision::Drop, Reason::CachedScore),
            (false, assessed(0), Decision::Drop, Reason::CachedScore),
        ];
        for (is_protected, knowledge, decision, reason) in table {
            assert_eq!(
                decide(is_protected, knowledge, thresholds),
                (decision, reason),
                "{knowledge:?}"
            );
        }
    }

    #[test]
    fn with_equal_thresholds_a_score_on_the_boundary_is_kept() {
        let thresholds = Thresholds::new(50, 50).unwrap();
        assert_eq!(
            decide(false, assessed(50), thresholds),
            (Decision::Keep, Reason::CachedScore)
        );
        assert_eq!(
            decide(false, assessed(49), thresholds),
            (Decision::Drop, Reason::CachedScore)
        );
    }

    #[test]
    fn thresholds_that_contradict_each_other_cannot_be_made() {
        assert!(Thresholds::new(30, 70).is_none());
        assert!(Thresholds::new(101, 30).is_none());
        assert!(Thresholds::new(100, 0).is_some());
    }
}
