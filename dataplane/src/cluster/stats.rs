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

/// Members by state; `None` where it is not known.
pub(super) type Counts = [(&'static str, Option<usize>); 6];

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

    /// Shows members by state. Without a count there is no series: what is unknown is not zero.
    pub(super) fn show(&self, counts: Option<Counts>) {
        let Some(counts) = counts else {
            self.members.clear();
            return;
        };
        for (state, count) in counts {
            let label = StateLabel { state };
            match count {
                None => {
                    self.members.remove(&label);
                }
                Some(count) => {
                    let gauge = self.members.get_or_create(&label);
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
        stats.show(Some(states.map(|state| (state, Some(2)))));
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
        let known = |state: &'static str| (state, (state != "silent").then_some(3));
        stats.show(Some(states.map(known)));
        let text = shown();
        assert!(
            text.contains("{state=\"serving\"} 3") && !text.contains("silent"),
            "{text}"
        );
        stats.show(None);
        let text = shown();
        assert!(!text.contains("jevmetrics_cluster_members{"), "{text}");
    }
}
