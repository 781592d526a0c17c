//! What is known of the group, as Prometheus sees it.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

/// Handles to the metrics; clones count into the same ones. The default counts where nobody looks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stats {
    members: Family<StateLabel, Gauge>,
    heartbeats: Family<ResultLabel, Counter>,
}

impl Stats {
    /// Registers everything.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let stats = Self::default();
        registry.register(
            "jevmetrics_cluster_members",
            "Members that this process knows of; absent while they are not known",
            stats.members.clone(),
        );
        registry.register(
            "jevmetrics_cluster_heartbeats",
            "Heartbeats of this process to Redis",
            stats.heartbeats.clone(),
        );
        stats
    }

    pub(super) fn count_heartbeat(&self, is_written: bool) {
        let result = if is_written { "written" } else { "failed" };
        self.heartbeats.get_or_create(&ResultLabel { result }).inc();
    }

    /// Shows members by state. Without counts there is no series: what is unknown is not zero.
    pub(super) fn show(&self, counts: Option<[(&'static str, usize); 6]>) {
        match counts {
            None => self.members.clear(),
            Some(counts) => {
                for (state, count) in counts {
                    let gauge = self.members.get_or_create(&StateLabel { state });
                    gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_has_no_series() {
        let mut registry = Registry::default();
        let stats = Stats::register(&mut registry);
        let shown = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        let states = ["starting", "serving", "draining", "unknown", "stale", "silent"];
        stats.show(Some(states.map(|state| (state, 2))));
        stats.count_heartbeat(true);
        stats.count_heartbeat(false);
        let text = shown();
        for line in [
            "jevmetrics_cluster_members{state=\"serving\"} 2",
            "jevmetrics_cluster_members{state=\"silent\"} 2",
            "jevmetrics_cluster_heartbeats_total{result=\"written\"} 1",
            "jevmetrics_cluster_heartbeats_total{result=\"failed\"} 1",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        stats.show(None);
        let text = shown();
        assert!(!text.contains("jevmetrics_cluster_members{"), "{text}");
    }
}
