#![allow(clippy::unwrap_used)]

use jevmetrics_api::member::{CoordinationReport, CoordinationState, InferenceState};
use serde_json::json;

use super::*;

fn member(change: impl FnOnce(&mut Member)) -> Member {
    let mut member: Member = serde_json::from_value(json!({"id": "a"})).unwrap();
    change(&mut member);
    member
}

fn failing(pod: &str, cause: &str) -> Health {
    let failing = member(|member| {
        member.inference.state = InferenceState::Failing;
        member.inference.reason = Some(cause.to_owned());
    });
    Health::of(&[(pod.to_owned(), failing)])
}

fn healthy() -> Health {
    let healthy = member(|member| {
        member.inference.state = InferenceState::Healthy;
        member.inference.model = Some("jev-1".to_owned());
    });
    Health::of(&[("a".to_owned(), healthy)])
}

/// A pod that shares.
fn shares(pod: &str, state: CoordinationState, reason: Option<&str>) -> (String, Member) {
    let member = member(|member| {
        member.coordination = Some(CoordinationReport {
            namespace: "ns/jm/1".to_owned(),
            state,
            reason: reason.map(str::to_owned),
            generation: 2,
            highest_generation: 3,
            eviction_policy: None,
        });
    });
    (pod.to_owned(), member)
}

fn evicts((pod, mut member): (String, Member), policy: &str) -> (String, Member) {
    member.coordination.as_mut().unwrap().eviction_policy = Some(policy.to_owned());
    (pod, member)
}

#[test]
fn one_odd_poll_changes_nothing() {
    let mut polls = Polls::default();
    assert!(!polls.take_in(healthy()));
    assert!(polls.take_in(healthy()));
    for _ in 0..5 {
        assert!(!polls.take_in(failing("a", "timeout")));
        assert!(!polls.take_in(healthy()));
    }
    assert_eq!(polls.health(), &healthy());
}

#[test]
fn two_equal_polls_count() {
    let mut polls = Polls::default();
    polls.take_in(failing("a", "timeout"));
    polls.take_in(failing("b", "timeout"));
    assert_eq!(polls.health().inference, None, "another thing was said");
    assert!(polls.take_in(failing("b", "timeout")));
    assert_eq!(polls.health(), &failing("b", "timeout"));
}

#[test]
fn nothing_is_known_before_two_polls_whatever_the_first_says() {
    let mut polls = Polls::default();
    assert!(!polls.take_in(Health::of(&[])));
    assert_eq!(polls.health(), &Health::default());
    assert!(polls.take_in(Health::of(&[])));
    assert_eq!(polls.health(), &Health::of(&[]));
}

#[test]
fn trouble_in_other_words_each_time_turns_once_and_is_not_followed() {
    let mut polls = Polls::default();
    for _ in 0..2 {
        polls.take_in(healthy());
    }
    let mut turns = 0;
    for poll in 0..6 {
        turns += usize::from(polls.take_in(failing("a", &format!("cause-{poll}"))));
    }
    // The model that has gone, and the trouble: in the same poll.
    assert_eq!(turns, 1);
    assert_eq!(polls.health().inference, failing("a", "cause-1").inference);
    assert!(!polls.take_in(failing("a", "timeout")));
    assert!(polls.take_in(failing("a", "timeout")), "words that stay are told");
}

#[test]
fn a_fact_that_flutters_does_not_hold_up_the_others() {
    let mut polls = Polls::default();
    let flutters = |poll: usize| Health {
        model: Some(Some(format!("jev-{poll}"))),
        ..failing("a", "timeout")
    };
    polls.take_in(flutters(0));
    assert!(polls.take_in(flutters(1)));
    let health = polls.health();
    assert_eq!(
        (&health.model, &health.inference),
        (&None, &failing("a", "timeout").inference)
    );
}

#[test]
fn of_several_pods_the_worst_counts() {
    use CoordinationState::{Failing, Healthy, Idle, Mismatch, Pending, Superseded, Unknown};
    let pod = |pod: &str| pod.to_owned();
    let says = |pod, state| shares(pod, state, Some("why"));
    for (members, wanted) in [
        (vec![], Coordination::Unknown),
        (vec![("a".to_owned(), member(|_| {}))], Coordination::Unknown),
        (vec![says("a", Unknown)], Coordination::Unknown),
        (vec![says("a", Unknown), says("b", Idle)], Coordination::Healthy),
        (
            vec![says("a", Healthy), ("b".to_owned(), member(|_| {}))],
            Coordination::Healthy,
        ),
        (
            vec![evicts(says("a", Healthy), "noeviction")],
            Coordination::Healthy,
        ),
        (
            vec![says("a", Healthy), evicts(says("b", Idle), "volatile-lru")],
            Coordination::Evicting {
                policy: "volatile-lru".to_owned(),
            },
        ),
        (
            vec![evicts(says("a", Healthy), "volatile-lru"), says("b", Pending)],
            Coordination::Pending,
        ),
        (
            vec![says("a", Healthy), says("b", Superseded)],
            Coordination::Pending,
        ),
        (
            vec![says("c", Mismatch), says("b", Mismatch), says("a", Pending)],
            Coordination::Mismatch {
                pod: pod("b"),
                reason: "why".to_owned(),
            },
        ),
        (
            vec![says("a", Mismatch), says("c", Failing), says("b", Failing)],
            Coordination::Failing {
                pod: pod("b"),
                cause: "why".to_owned(),
            },
        ),
    ] {
        assert_eq!(Coordination::of(&members), wanted, "{members:?}");
    }
}

#[test]
fn the_highest_generation_counts_in_each_namespace() {
    let other = |generation: u32| {
        let (pod, mut member) = shares("b", CoordinationState::Healthy, None);
        let report = member.coordination.as_mut().unwrap();
        report.namespace = "ns/jm/2".to_owned();
        (report.generation, report.highest_generation) = (generation, 0);
        (pod, member)
    };
    let members = [shares("a", CoordinationState::Healthy, None), other(9), other(8)];
    let found = Health::of(&members).generations.unwrap();
    let wanted = [("ns/jm/1".to_owned(), 3), ("ns/jm/2".to_owned(), 9)];
    assert_eq!(found, BTreeMap::from(wanted));
}

#[test]
fn versions_are_told_apart_by_settings() {
    let says = |settings: &str, version: &str| {
        let member = member(|member| {
            member.settings_digest = settings.to_owned();
            member.inference.assessment_version = version.to_owned();
        });
        ("a".to_owned(), member)
    };
    let members = [
        says("old", "v1"),
        says("new", "v2"),
        says("new", ""),
        says("new", "v2"),
        says("both", "v1"),
        says("both", "v2"),
        says("both", "v1"),
        says("silent", ""),
    ];
    let found = Health::of(&members).versions.unwrap();
    let wanted = [("old", "v1"), ("new", "v2"), ("both", "mixed")];
    let wanted = wanted.map(|(settings, version)| (settings.to_owned(), version.to_owned()));
    assert_eq!(found, BTreeMap::from(wanted));
}

#[test]
fn one_pod_with_too_small_a_budget_is_enough() {
    let says = |budget| ("a".to_owned(), member(|member| member.inference.budget = budget));
    for (members, wanted) in [
        (vec![], false),
        (vec![says(BudgetState::Unknown), says(BudgetState::Enough)], false),
        (vec![says(BudgetState::Enough), says(BudgetState::TooSmall)], true),
    ] {
        assert_eq!(Health::of(&members).is_budget_too_small, Some(wanted));
    }
}
