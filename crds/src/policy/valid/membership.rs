//! Who is to own resources, and how patiently that changes.

use std::time::Duration;

use super::super::JevMetricsPolicySpec;
use crate::routing::{Affinity, KeySource};
use crate::settings::{DataPlaneSettings, Identity};

/// Who is to own resources, and how patiently that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    affinity: Affinity,
    key: KeySource,
    settle: Duration,
    hold: Duration,
    minimum_members: Option<usize>,
}

impl Membership {
    pub(super) fn of(spec: &JevMetricsPolicySpec, settings: &DataPlaneSettings) -> Self {
        let routing = spec.routing.clone().unwrap_or_default();
        // Shared assessments need no owner: a hop would only cost.
        let default = match settings.coordination() {
            Some(_) => Affinity::None,
            None => Affinity::Forward,
        };
        let context = settings.inference().context_attributes();
        let key = match (routing.key_attributes, settings.inference().identity()) {
            (Some(names), _) => KeySource::Listed(names),
            // Without any attribute all would have one owner: it is better to ask twice.
            (None, Identity::Context) if !context.is_empty() => KeySource::Context(context.to_vec()),
            (None, _) => KeySource::Source,
        };
        Self {
            affinity: routing.affinity.map_or(default, Affinity::from),
            key,
            settle: seconds(routing.settle_seconds, 10),
            hold: seconds(routing.hold_seconds, 15),
            minimum_members: routing
                .minimum_members
                .and_then(|members| members.try_into().ok()),
        }
    }

    /// The affinity in force.
    pub fn affinity(&self) -> Affinity {
        self.affinity
    }

    /// Of what affinity keys are made.
    pub fn key(&self) -> &KeySource {
        &self.key
    }

    /// A pod owns resources after it was ready for so long.
    pub fn settle(&self) -> Duration {
        self.settle
    }

    /// What a pod owns is kept for so long while it is not ready.
    pub fn hold(&self) -> Duration {
        self.hold
    }

    /// Pods that must have settled before anybody owns anything; `None` for half of them.
    pub fn minimum_members(&self) -> Option<usize> {
        self.minimum_members
    }
}

fn seconds(given: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(given.and_then(|given| given.try_into().ok()).unwrap_or(default))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::super::super::{JevMetricsPolicy, ValidPolicy};
    use super::*;

    fn of(mut spec: Value) -> Membership {
        spec["export"] = json!({"endpoint": "http://a:4317"});
        let policy: JevMetricsPolicy = serde_json::from_value(json!({
            "apiVersion": "jevmetrics.io/v1alpha1",
            "kind": "JevMetricsPolicy",
            "metadata": {"name": "jm", "namespace": "ns", "uid": "u"},
            "spec": spec,
        }))
        .unwrap();
        ValidPolicy::try_from(&policy).unwrap().membership().clone()
    }

    #[test]
    fn who_says_nothing_forwards_unless_assessments_are_shared() {
        let plain = of(json!({}));
        assert_eq!(
            (plain.affinity(), plain.key()),
            (Affinity::Forward, &KeySource::Source)
        );
        assert_eq!((plain.settle().as_secs(), plain.hold().as_secs()), (10, 15));
        assert_eq!(plain.minimum_members(), None);
        let shared = json!({"coordination": {"host": "redis"}});
        assert_eq!(of(shared).affinity(), Affinity::None);
        let shared = json!({"coordination": {"host": "redis"}, "routing": {"affinity": "Forward"}});
        assert_eq!(of(shared).affinity(), Affinity::Forward);
        let upstream = json!({"routing": {"affinity": "Upstream", "holdSeconds": 30, "minimumMembers": 2}});
        let upstream = of(upstream);
        assert_eq!(
            (upstream.affinity(), upstream.hold().as_secs()),
            (Affinity::Upstream, 30)
        );
        assert_eq!(upstream.minimum_members(), Some(2));
    }

    #[test]
    fn what_has_one_identity_has_one_owner() {
        let key = |spec: Value| of(spec).key().clone();
        let context = |names: Value| json!({"identity": "Context", "contextAttributes": names});
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(
            key(json!({"inference": context(json!(["region"]))})),
            KeySource::Context(names(&["region"]))
        );
        assert_eq!(key(json!({"inference": context(json!([]))})), KeySource::Source);
        assert_eq!(
            key(json!({"inference": context(json!(["region"])), "routing": {"keyAttributes": ["zone"]}})),
            KeySource::Listed(names(&["zone"]))
        );
        assert_eq!(
            key(json!({"inference": {"contextAttributes": ["region"]}})),
            KeySource::Source
        );
    }
}
