//! What calls of Redis cost and meet, as Prometheus sees it.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::trouble::Trouble;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ScriptLabel {
    script: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TroubleLabel {
    trouble: &'static str,
}

/// Handles to the metrics; clones count into the same ones. The default counts where nobody looks.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    round_trips: Family<ScriptLabel, Counter>,
    troubles: Family<TroubleLabel, Counter>,
}

impl Stats {
    /// Registers everything.
    pub fn register(registry: &mut Registry) -> Self {
        let stats = Self::default();
        registry.register(
            "jevmetrics_coordination_round_trips",
            "Scripts that Redis was asked to run",
            stats.round_trips.clone(),
        );
        registry.register(
            "jevmetrics_coordination_troubles",
            "Calls of Redis without an answer of use, by what was wrong",
            stats.troubles.clone(),
        );
        stats
    }

    pub(super) fn count_round_trip(&self, script: &'static str) {
        self.round_trips.get_or_create(&ScriptLabel { script }).inc();
    }

    pub(super) fn count_trouble(&self, trouble: &Trouble) {
        let trouble = trouble.as_str();
        self.troubles.get_or_create(&TroubleLabel { trouble }).inc();
    }
}
