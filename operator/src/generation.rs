//! Which change of its budget a policy is at. Pure.
//!
//! Pods hold it against what Redis knows: of one generation there must never be two budgets, and a change must be higher
//! than whatever was in force. So all that may know of an earlier one is asked, and if any of it does not fit what is
//! wanted, the next generation is above them all.
//!
//! ```text
//! live object (budget, generation) ─┐
//! status (generation) ──────────────┼─▶ the same, or 1 + the highest
//! pods (highest that each has seen) ┘
//! ```
//! Invariants: equal input, equal generation, and what it leads to asks for no other; it never falls while one of the
//! three remembers it.

use jevmetrics_api::live::Budget;
use jevmetrics_api::policy::Sharing;

/// What there is to remember a generation by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The budget in the live object as it is on the server; none without the object, or if pods cannot read it.
    pub live: Option<Budget>,
    /// The generation in the status; 0 if there is none.
    pub status: u32,
    /// The highest that a pod has seen; 0 if none says so.
    pub pods: u32,
}

/// The generation of the budget of `sharing`; 0 where none is counted.
pub fn generation(sharing: &Sharing, remembered: &Remembered) -> u32 {
    if !sharing.counts() {
        return 0;
    }
    let elsewhere = remembered.status.max(remembered.pods);
    let live = remembered.live.map_or(0, |live| live.generation());
    let is_live = remembered
        .live
        .is_some_and(|live| numbers(&live) == numbers(sharing.budget()));
    // An object that lags behind the others was put back by somebody: its numbers may not be those of its generation.
    if is_live && live > 0 && live >= elsewhere {
        return live;
    }
    live.max(elsewhere).saturating_add(1)
}

fn numbers(budget: &Budget) -> (std::time::Duration, u32, u32) {
    let (in_flight, per_second) = (budget.max_in_flight(), budget.requests_per_second());
    (budget.lease(), in_flight.get(), per_second.get())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use jevmetrics_api::live::LivePolicy;
    use jevmetrics_api::policy::{JevMetricsPolicy, ValidPolicy};
    use serde_json::json;

    use super::*;

    /// A policy that lets so many questions begin in a second.
    fn policy(per_second: u32, namespace: Option<&str>) -> ValidPolicy {
        let mut coordination = json!({"host": "redis", "requestsPerSecond": per_second});
        if let Some(namespace) = namespace {
            coordination["namespace"] = json!(namespace);
        }
        let policy: JevMetricsPolicy = serde_json::from_value(json!({
            "apiVersion": "jevmetrics.io/v1alpha1",
            "kind": "JevMetricsPolicy",
            "metadata": {"name": "jm", "namespace": "ns", "uid": "u"},
            "spec": {"export": {"endpoint": "http://a:4317"}, "coordination": coordination},
        }))
        .unwrap();
        ValidPolicy::try_from(&policy).unwrap()
    }

    fn budget(text: &str) -> Budget {
        *LivePolicy::from_policy_yaml(text).unwrap().budget()
    }

    /// A live object with so many questions in a second, of this generation.
    fn live(per_second: u32, generation: u32) -> Budget {
        budget(&policy(per_second, None).live(generation))
    }

    #[test]
    fn it_rises_when_the_budget_changes_and_is_never_below_what_anybody_remembers() {
        let uncounted = budget("schema: 1");
        for (what, live, status, pods, wanted) in [
            ("nothing is there", None, 0, 0, 1),
            ("nothing has changed", Some(live(10, 3)), 3, 3, 3),
            ("the status was wiped", Some(live(10, 3)), 0, 3, 3),
            ("status and pods are silent", Some(live(10, 3)), 0, 0, 3),
            ("the status was not written yet", Some(live(10, 4)), 3, 3, 4),
            ("another budget", Some(live(20, 3)), 3, 3, 4),
            ("another budget, status wiped", Some(live(20, 3)), 0, 0, 4),
            ("another budget while pods lag", Some(live(20, 3)), 3, 2, 4),
            ("the object was deleted", None, 3, 0, 4),
            ("the object was deleted, status wiped", None, 0, 3, 4),
            ("the object was put back", Some(live(10, 1)), 3, 0, 4),
            ("the object was put back, status too", Some(live(10, 1)), 1, 3, 4),
            ("a pod has seen more than all others", Some(live(10, 3)), 3, 7, 8),
            ("an object of before coordination", Some(uncounted), 0, 0, 1),
            ("an object of a named namespace", Some(live(10, 0)), 0, 0, 1),
            ("the same, and pods remember", Some(live(10, 0)), 0, 5, 6),
            ("the end of numbers", Some(live(20, u32::MAX)), 1, 1, u32::MAX),
        ] {
            let remembered = Remembered { live, status, pods };
            let valid = policy(10, None);
            let found = generation(valid.sharing().unwrap(), &remembered);
            assert_eq!(found, wanted, "{what}");
            let after = Remembered {
                live: Some(budget(&valid.live(found))),
                ..remembered
            };
            let again = generation(valid.sharing().unwrap(), &after);
            assert_eq!(again, found, "{what}: written, it stays");
        }
    }

    #[test]
    fn a_named_namespace_has_none() {
        let valid = policy(10, Some("team"));
        for live in [None, Some(live(10, 3)), Some(live(20, 3))] {
            let remembered = Remembered {
                live,
                status: 3,
                pods: 3,
            };
            assert_eq!(generation(valid.sharing().unwrap(), &remembered), 0);
        }
        assert!(!valid.live(0).contains("generation"));
    }

    #[test]
    fn each_of_the_three_numbers_counts() {
        let valid = policy(10, None);
        let present = valid.live(3);
        for (number, other) in [
            ("leaseTTLSeconds: 10", "leaseTTLSeconds: 11"),
            ("maxInFlight: 4", "maxInFlight: 5"),
            ("requestsPerSecond: 10", "requestsPerSecond: 11"),
            ("generation: 3", "generation: 3"),
        ] {
            assert!(present.contains(number), "{present}");
            let remembered = Remembered {
                live: Some(budget(&present.replace(number, other))),
                ..Remembered::default()
            };
            let wanted = if number == other { 3 } else { 4 };
            assert_eq!(
                generation(valid.sharing().unwrap(), &remembered),
                wanted,
                "{other}"
            );
        }
    }
}
