//! The policy in force: mode, thresholds, protection. Replaced as a whole while requests are served.

use jevmetrics_api::live::{LivePolicy, Mode};

use super::decide::Thresholds;
use super::protection::Protection;

/// One reading of the live object.
#[derive(Debug)]
pub struct Policy {
    /// Counts readings: what was derived under another generation is derived again.
    pub(super) generation: u32,
    pub(super) mode: Mode,
    pub(super) thresholds: Thresholds,
    pub(super) protection: Protection,
}

impl Policy {
    /// `generation` must differ from that of the policy before and fit 31 bits.
    pub fn new(live: &LivePolicy, generation: u32) -> Self {
        let thresholds = Thresholds::new(live.keep_threshold_percent(), live.drop_threshold_percent());
        let names = live.protected_metrics().iter().map(String::as_str);
        let prefixes = live.protected_prefixes().iter().map(String::as_str);
        Self {
            generation,
            mode: live.mode(),
            // The live object is validated; if its rules and ours ever disagree, nothing is dropped.
            thresholds: thresholds.unwrap_or(Thresholds::KEEP_EVERYTHING),
            protection: Protection::new(names, prefixes),
        }
    }

    /// Annotate or Reduce.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Which reading it is.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The two thresholds.
    pub fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    /// Names that are never dropped.
    pub fn protection(&self) -> &Protection {
        &self.protection
    }
}
