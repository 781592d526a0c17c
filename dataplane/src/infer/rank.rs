//! How much an instrument needs its answer.

use std::cmp::Reverse;

use crate::retain::assessments::Seconds;

/// Why an instrument is to be asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// Kept whatever the answer, until the one it has ends.
    KeepRunsOut,
    /// Kept for want of an answer.
    Unknown,
    /// Dropped at present; without a new answer it comes back soon.
    DropRunsOut,
}

/// Who has a turn first: the greatest.
pub(super) type Turn = (u8, Reverse<Seconds>, u64);

/// Drops that run out come first, then what is unknown, then the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank {
    need: Need,
    /// Data points in the batch that raised the question.
    points: u64,
    /// When the answer that it has ends.
    expires: Seconds,
}

/// Above this bit stands the need, below it the data points.
const NEED: u32 = 62;

impl Rank {
    /// Kept for want of an answer.
    pub fn unknown(points: u64) -> Self {
        Self {
            need: Need::Unknown,
            points,
            expires: 0,
        }
    }

    /// Its answer runs out; without a new one it is no longer dropped.
    pub fn drop_runs_out(points: u64, expires: Seconds) -> Self {
        Self {
            need: Need::DropRunsOut,
            points,
            expires,
        }
    }

    /// Its answer runs out; it is kept with and without.
    pub fn keep_runs_out(points: u64, expires: Seconds) -> Self {
        Self {
            need: Need::KeepRunsOut,
            points,
            expires,
        }
    }

    /// Whether an answer is in force.
    pub fn is_refresh(self) -> bool {
        self.need != Need::Unknown
    }

    /// Who has a turn first: the greatest. Answers that run out go by their ends, so that none is missed while the budget
    /// suffices.
    pub(super) fn turn(self) -> Turn {
        (self.need as u8, Reverse(self.expires), self.points)
    }

    /// Who keeps a place in a full queue: the greatest. Then the budget does not suffice, and data points decide.
    pub(super) fn worth(self) -> u64 {
        (self.need as u64) << NEED | self.points.min((1 << NEED) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_by_need_then_by_end_or_points() {
        let ascending = [
            Rank::keep_runs_out(900, 50),
            Rank::keep_runs_out(1, 40),
            Rank::unknown(1),
            Rank::unknown(900),
            Rank::drop_runs_out(900, 50),
            Rank::drop_runs_out(1, 40),
        ];
        assert!(ascending.is_sorted_by(|less, more| less.turn() < more.turn()));
        let refreshes = ascending.map(Rank::is_refresh);
        assert_eq!(refreshes, [true, true, false, false, true, true]);
    }

    #[test]
    fn places_go_by_need_then_by_points() {
        let ascending = [
            Rank::keep_runs_out(u64::MAX, 40),
            Rank::unknown(0),
            Rank::unknown(900),
            Rank::unknown(u64::MAX),
            Rank::drop_runs_out(1, 40),
            Rank::drop_runs_out(900, 50),
        ];
        assert!(ascending.is_sorted_by(|less, more| less.worth() < more.worth()));
    }
}
