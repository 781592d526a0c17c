//! Coverage: the share of data points that had a fresh assessment, over the last minute.

use std::collections::VecDeque;

/// Readings kept; with one every [`INTERVAL_SECONDS`] they span a minute.
const READINGS: usize = 7;
/// Seconds between readings.
pub const INTERVAL_SECONDS: u64 = 10;

/// Totals since the start, read at intervals.
#[derive(Debug, Default)]
pub struct Coverage {
    readings: VecDeque<(u64, u64)>,
}

impl Coverage {
    /// Takes a reading: points that had a fresh assessment, and all points.
    pub fn read(&mut self, covered: u64, received: u64) {
        if self.readings.len() == READINGS {
            self.readings.pop_front();
        }
        self.readings.push_back((covered, received));
    }

    /// 0.0..=1.0, or `None` if no points came in the window.
    pub fn ratio(&self) -> Option<f64> {
        let (first, last) = (self.readings.front()?, self.readings.back()?);
        let received = last.1 - first.1;
        #[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
        (received > 0).then(|| (last.0 - first.0) as f64 / received as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_that_of_the_last_minute() {
        let mut coverage = Coverage::default();
        assert_eq!(coverage.ratio(), None);
        coverage.read(0, 0);
        coverage.read(0, 1_000);
        assert_eq!(coverage.ratio(), Some(0.0));
        for round in 1..=6 {
            coverage.read(round * 50, 1_000 + round * 100);
        }
        assert_eq!(
            coverage.ratio(),
            Some(0.5),
            "the first thousand are out of the window"
        );
        for _ in 0..6 {
            coverage.read(300, 1_600);
        }
        assert_eq!(coverage.ratio(), None, "no traffic says nothing");
    }
}
