//! The table in force, as Prometheus sees it.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// Handles to the metrics. The default counts where nobody looks.
#[derive(Debug, Default)]
pub(super) struct Stats {
    epoch: Gauge<f64, AtomicU64>,
    slots: Gauge,
    refused: Family<ReasonLabel, Counter>,
}

impl Stats {
    /// Registers everything.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let stats = Self::default();
        stats.epoch.set(f64::NAN);
        registry.register(
            "jevmetrics_routing_epoch",
            "Epoch of the routing table in force; not a number before the first",
            stats.epoch.clone(),
        );
        registry.register(
            "jevmetrics_routing_slots",
            "Slots of the routing table in force",
            stats.slots.clone(),
        );
        registry.register(
            "jevmetrics_routing_refused_tables",
            "Routing tables in the live object that did not come into force",
            stats.refused.clone(),
        );
        stats
    }

    pub(super) fn in_force(&self, epoch: u64, slots: usize) {
        #[allow(clippy::cast_precision_loss, reason = "exact up to 2^53")]
        self.epoch.set(epoch as f64);
        self.slots.set(i64::try_from(slots).unwrap_or(i64::MAX));
    }

    pub(super) fn count_refused(&self, reason: &'static str) {
        self.refused.get_or_create(&ReasonLabel { reason }).inc();
    }
}
