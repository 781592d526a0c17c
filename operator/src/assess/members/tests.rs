//! What is said of members, and that it does not tick.
#![allow(clippy::unwrap_used)]
use std::time::Instant;

use jevmetrics_api::policy::JevMetricsPolicy;
use jevmetrics_api::routing::{ClusterIdentity, Header, KeySource, Owner, TableError};
use kube::CustomResourceExt as _;
use serde_json::json;

use super::*;

fn at(second: i64) -> Time {
    Time(jiff::Timestamp::from_second(second).unwrap())
}

fn table(epoch: u64, affinity: Affinity) -> RoutingTable {
    let owners = ["a", "b"].into_iter().zip(0..).map(|(name, slot)| Owner {
        slot,
        uid: name.to_owned(),
        name: name.to_owned(),
        address: ([10, 0, 0, 1], 4319).into(),
        zone: None,
    });
    let header = Header {
        cluster: ClusterIdentity {
            namespace: "ns".to_owned(),
            policy: "p".to_owned(),
        },
        affinity,
        key: KeySource::Source,
    };
    RoutingTable::new(epoch, header, owners.collect()).unwrap()
}

fn member(name: &str, slot: Option<u16>, state: MemberState) -> Member {
    Member {
        slot,
        uid: name.to_owned(),
        name: name.to_owned(),
        node: Some("n".to_owned()),
        zone: None,
        revision: Some("1".to_owned()),
        state,
    }
}

/// Two that own slots, a spare, and one that leaves.
fn decided(epoch: u64) -> Decided {
    Decided {
        table: Some(table(epoch, Affinity::Forward)),
        affinity: Affinity::Forward,
        standing: Standing::Current,
        members: vec![
            member("a", Some(0), MemberState::Active),
            member("b", Some(1), MemberState::Active),
            member("c", None, MemberState::Spare),
            member("d", None, MemberState::Draining),
        ],
        change: Some("2 joined".to_owned()),
        look_again: None,
    }
}

fn voices(epochs: &[(&str, u64)]) -> Voices {
    let said = epochs.iter().map(|(pod, epoch)| {
        let member = json!({"id": "i", "version": "0.1.0", "epoch": epoch});
        ((*pod).to_owned(), serde_json::from_value(member).unwrap())
    });
    let mut voices = Voices::default();
    voices.take_in(&said.collect::<Vec<_>>(), Instant::now());
    voices
}

#[test]
fn it_has_converged_when_every_ready_pod_is_on_the_epoch() {
    for (epochs, holds, reason, part) in [
        (
            &[("a", 7), ("b", 7), ("c", 7)][..],
            Some(true),
            CONVERGED,
            "3 of 3",
        ),
        (&[("a", 7), ("b", 8), ("c", 7)], Some(true), CONVERGED, "3 of 3"),
        (&[("a", 7), ("b", 6), ("c", 7)], Some(false), CONVERGING, "2 of 3"),
        (&[("a", 7), ("b", 7), ("d", 7)], Some(false), CONVERGING, "2 of 3"),
        (&[], Some(false), CONVERGING, "0 of 3"),
    ] {
        let verdict = verdict(&decided(7), &voices(epochs), None);
        assert_eq!((verdict.holds, verdict.reason), (holds, reason), "{epochs:?}");
        assert!(verdict.message.contains(part), "{}", verdict.message);
    }
    let nobody_was_asked = verdict(&decided(7), &Voices::default(), None);
    assert_eq!((nobody_was_asked.holds, nobody_was_asked.reason), (None, UNKNOWN));
}

#[test]
fn each_standing_has_its_reason() {
    let with = |standing| Decided {
        standing,
        ..decided(7)
    };
    for (standing, reason) in [
        (
            Standing::Gathering {
                settled: 1,
                needed: 3,
            },
            GATHERING,
        ),
        (Standing::Frozen { living: 2, of: 5 }, FROZEN),
        (Standing::Frozen { living: 0, of: 0 }, SCALED_TO_ZERO),
        (
            Standing::Gathering {
                settled: 0,
                needed: 0,
            },
            SCALED_TO_ZERO,
        ),
        (
            Standing::Gathering {
                settled: 3,
                needed: 3,
            },
            GATHERING,
        ),
    ] {
        let verdict = verdict(&with(standing), &voices(&[]), None);
        assert_eq!((verdict.holds, verdict.reason), (Some(false), reason));
    }
}

/// More would refuse the whole status.
#[test]
fn of_more_members_than_the_definition_allows_owners_are_kept() {
    let spares = (0..MOST_SHOWN + 5).map(|index| member(&format!("c{index:04}"), None, MemberState::Spare));
    let owner = member("z", Some(1), MemberState::Active);
    let decided = Decided {
        members: spares.chain([owner]).collect(),
        ..decided(7)
    };
    let shown = members(Some(&decided), &voices(&[]), None, &at(1));
    assert_eq!(shown.len(), MOST_SHOWN);
    assert_eq!(
        (shown[0].pod.as_str(), shown[MOST_SHOWN - 1].pod.as_str()),
        ("c0000", "z")
    );
    let definition = serde_json::to_value(JevMetricsPolicy::crd()).unwrap();
    let most = definition
        .pointer("/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/members/maxItems");
    assert_eq!(most, Some(&json!(MOST_SHOWN)));
}

#[test]
fn where_nobody_routes_nothing_has_to_converge_and_nobody_has_a_share() {
    for affinity in [Affinity::Upstream, Affinity::None] {
        let decided = Decided {
            table: Some(table(7, affinity)),
            affinity,
            ..decided(7)
        };
        for (table, standing) in [
            (decided.table.clone(), Standing::Current),
            (decided.table.clone(), Standing::Frozen { living: 2, of: 5 }),
            (decided.table.clone(), Standing::Frozen { living: 0, of: 0 }),
            (
                None,
                Standing::Gathering {
                    settled: 1,
                    needed: 3,
                },
            ),
        ] {
            let decided = Decided {
                table,
                standing,
                ..decided.clone()
            };
            let verdict = verdict(&decided, &voices(&[]), None);
            assert_eq!(
                (verdict.holds, verdict.reason),
                (Some(true), NOT_ROUTING),
                "{standing:?}"
            );
        }
        let members = members(Some(&decided), &voices(&[]), None, &at(1));
        assert!(members.iter().all(|member| member.share.is_none()));
    }
}

/// *Scenario*: scaled to zero, where the last table stays.
#[test]
fn owners_that_nobody_keeps_anything_for_are_not_counted() {
    let mut nobody = decided(7);
    nobody.members.clear();
    let routing = routing(Some(&nobody), &voices(&[]), None, &at(1)).unwrap();
    assert_eq!(
        (routing.epoch, routing.members, routing.converged.as_str()),
        (7, 0, "0/0")
    );
}

#[test]
fn why_nothing_is_published_is_said_where_it_is_known() {
    let failure = ReconcileError::Table(TableError::Epoch(0));
    let said = nothing_published(Some(&failure));
    assert_eq!((said.holds, said.reason), (None, NOT_PUBLISHED));
    assert!(said.message.contains(&failure.to_string()), "{}", said.message);
    assert!(nothing_published(None).message.contains("other conditions"));
}

#[test]
fn times_are_those_of_changes() {
    let first_voices = voices(&[("a", 7)]);
    let first = JevMetricsPolicyStatus {
        routing: routing(Some(&decided(7)), &first_voices, None, &at(10)),
        members: members(Some(&decided(7)), &first_voices, None, &at(10)),
        ..JevMetricsPolicyStatus::default()
    };
    let told = first.routing.as_ref().unwrap();
    assert_eq!((told.epoch, told.members, told.converged.as_str()), (7, 2, "1/3"));
    assert_eq!(told.last_change.as_deref(), Some("2 joined"));

    let mut later = decided(7);
    later.change = None;
    later.members[2].state = MemberState::Active;
    later.members[2].slot = Some(2);
    let routing = routing(Some(&later), &first_voices, Some(&first), &at(20)).unwrap();
    assert_eq!(routing.members, 3);
    assert_eq!(
        (&routing.last_change, &routing.last_change_time),
        (&told.last_change, &told.last_change_time)
    );
    let members = members(Some(&later), &first_voices, Some(&first), &at(20));
    let since: Vec<_> = members.iter().map(|member| member.since.clone()).collect();
    assert_eq!(since, [at(10), at(10), at(20), at(10)]);
    assert_eq!(members[0].epoch, Some(EpochReached::Current));
    assert_eq!(
        (members[1].epoch, members[1].heartbeat),
        (None, HeartbeatAge::Missing)
    );
    assert_eq!(members[0].share.as_deref(), Some("1/2"));
    assert_eq!(members[0].version.as_deref(), Some("0.1.0"));
}

#[test]
fn a_new_leader_says_what_was_said_until_it_has_asked() {
    let heard = voices(&[("a", 7), ("b", 6), ("c", 7)]);
    let before = JevMetricsPolicyStatus {
        routing: routing(Some(&decided(7)), &heard, None, &at(10)),
        members: members(Some(&decided(7)), &heard, None, &at(10)),
        ..JevMetricsPolicyStatus::default()
    };
    let nobody = Voices::default();
    let mut again = decided(7);
    again.change = None;
    assert_eq!(
        routing(Some(&again), &nobody, Some(&before), &at(20)),
        before.routing
    );
    assert_eq!(
        members(Some(&again), &nobody, Some(&before), &at(20)),
        before.members
    );
    let said = verdict(&again, &nobody, Some(&before));
    assert_eq!((said.holds, said.reason), (Some(false), CONVERGING));
    assert_eq!(said.message, "2 of 3 ready pods are on epoch 7");

    // Nobody can be on a table that was made a moment ago.
    let later = routing(Some(&decided(8)), &nobody, Some(&before), &at(20)).unwrap();
    assert_eq!((later.epoch, later.converged.as_str()), (8, "0/3"));
    // Once it has asked, what it has heard counts.
    let silent = members(Some(&again), &voices(&[]), Some(&before), &at(20));
    assert!(
        silent
            .iter()
            .all(|member| member.heartbeat == HeartbeatAge::Missing)
    );
}

#[test]
fn what_was_said_stays_while_nothing_was_decided() {
    let before = JevMetricsPolicyStatus {
        routing: routing(Some(&decided(7)), &voices(&[]), None, &at(10)),
        members: members(Some(&decided(7)), &voices(&[]), None, &at(10)),
        ..JevMetricsPolicyStatus::default()
    };
    assert_eq!(
        routing(None, &voices(&[]), Some(&before), &at(20)),
        before.routing
    );
    assert_eq!(
        members(None, &voices(&[]), Some(&before), &at(20)),
        before.members
    );
}
