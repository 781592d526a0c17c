//! From the first table on: who joins, and when.

use std::time::Duration;

use jevmetrics_api::routing::MAX_OWNERS;

use super::super::{MemberState, Standing};
use super::world::{World, seconds};

#[test]
fn the_first_table_waits_until_half_of_the_slots_can_be_held() {
    let mut world = World::new(5);
    world.come(&["a", "b"]);
    world.pass(seconds(60));
    assert_eq!(world.epoch(), 0);
    let standing = world.decision.as_ref().unwrap().standing;
    assert_eq!(
        standing,
        Standing::Gathering {
            settled: 2,
            needed: 3
        }
    );
    assert_eq!(world.state("a"), MemberState::Settling);

    world.come(&["c"]);
    world.pass(Duration::from_millis(9_999));
    assert_eq!(world.epoch(), 0);
    world.pass(Duration::from_millis(1));
    assert_eq!((world.epoch(), world.owners().len()), (1, 3));
}

#[test]
fn the_minimum_can_be_set_and_all_slots_are_always_enough() {
    for (slots, minimum, needed) in [
        (5, Some(1), 1),
        (5, Some(0), 1),
        (2, Some(5), 2),
        (1, None, 1),
        (6, None, 3),
    ] {
        let mut world = World::new(slots);
        world.desired.rules.minimum_members = minimum;
        for index in 0..needed - 1 {
            world.add(&format!("p{index}"));
        }
        world.look();
        world.pass(seconds(60));
        assert_eq!(world.epoch(), 0, "{slots} slots, minimum {minimum:?}");
        world.come(&["last"]);
        world.pass(seconds(10));
        assert_eq!(world.owners().len(), needed, "{slots} slots, minimum {minimum:?}");
    }
}

#[test]
fn nobody_wanted_means_no_first_table() {
    let mut world = World::new(0);
    world.come(&["a"]);
    world.pass(seconds(60));
    assert_eq!(world.stored, None);
    let standing = world.decision.as_ref().unwrap().standing;
    assert_eq!(
        standing,
        Standing::Gathering {
            settled: 1,
            needed: 0
        }
    );
}

#[test]
fn a_pod_joins_after_ten_seconds_of_being_ready_without_a_break() {
    let mut world = World::settled(3);
    world.desired.slots = 4;
    world.come(&["new"]);
    world.pass(seconds(9));
    world.ready(&["new"], false);
    assert_eq!(world.state("new"), MemberState::NotReady);
    world.pass(seconds(1));
    world.ready(&["new"], true);
    assert_eq!(world.state("new"), MemberState::Settling);
    world.pass(Duration::from_millis(9_999));
    assert_eq!(world.slot("new"), None);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.slot("new"), Some(3));
    assert_eq!(world.state("new"), MemberState::Active);
    assert!(!world.is_awake());
}

#[test]
fn joins_within_five_seconds_share_one_epoch() {
    let mut world = World::settled(3);
    world.desired.slots = 7;
    let started = world.now;
    world.come(&["a"]);
    world.pass(seconds(2));
    world.come(&["b"]);
    world.pass(seconds(3));
    world.come(&["c"]);
    world.pass(Duration::from_millis(1));
    world.come(&["d"]);
    world.pass(seconds(60));
    let written: Vec<_> = world
        .written
        .iter()
        .map(|(at, table)| (at.saturating_sub(started), table.owners().len()))
        .collect();
    // The fourth is too late for the others; there is one table in a second.
    assert_eq!(written, [(seconds(15), 6), (seconds(16), 7)]);
}

#[test]
fn nobody_waits_for_those_for_whom_there_is_no_room() {
    let mut world = World::settled(3);
    world.desired.slots = 4;
    world.come(&["a"]);
    world.pass(seconds(1));
    world.come(&["b"]);
    world.pass(seconds(9));
    assert_eq!(world.slot("a"), Some(3));
    world.pass(seconds(60));
    assert_eq!(world.slot("b"), None);
    assert_eq!(world.state("b"), MemberState::Spare);
    assert_eq!(world.written.len(), 1);
}

/// *Scenario*: more pods are wanted than a table can have.
#[test]
fn those_for_whom_no_table_has_room_are_spares() {
    let mut world = World::settled(MAX_OWNERS);
    world.desired.slots = MAX_OWNERS + 2;
    world.come(&["a", "b"]);
    world.pass(seconds(9));
    assert_eq!(world.state("a"), MemberState::Settling);
    world.pass(seconds(60));
    assert_eq!(world.owners().len(), MAX_OWNERS);
    for name in ["a", "b"] {
        assert_eq!(world.state(name), MemberState::Spare);
    }
}

#[test]
fn a_wait_for_others_ends_when_they_break_off() {
    let mut world = World::settled(3);
    world.desired.slots = 5;
    world.come(&["a"]);
    world.pass(seconds(4));
    world.come(&["b"]);
    world.pass(seconds(7));
    assert_eq!(world.slot("a"), None, "waits for b");
    world.ready(&["b"], false);
    assert_eq!(world.slot("a"), Some(3));
}

#[test]
fn a_join_takes_the_lowest_free_number() {
    let mut world = World::settled(5);
    world.leave(&["p1", "p3"]);
    world.pass(seconds(5));
    assert_eq!(world.owners().into_keys().collect::<Vec<_>>(), [0, 2, 4]);
    world.come(&["a", "b"]);
    world.pass(seconds(20));
    assert_eq!((world.slot("a"), world.slot("b")), (Some(1), Some(3)));
}

#[test]
fn spares_join_at_once_when_more_slots_are_wanted() {
    let mut world = World::settled(3);
    world.come(&["a", "b"]);
    world.pass(seconds(30));
    assert!(world.written.is_empty());
    world.desired.slots = 5;
    world.look();
    assert_eq!(world.written.len(), 1);
    assert_eq!((world.slot("a"), world.slot("b")), (Some(3), Some(4)));
}

#[test]
fn a_pod_without_an_address_does_not_settle() {
    let mut world = World::settled(3);
    world.desired.slots = 4;
    world.add("new");
    world.pod("new").address = None;
    world.look();
    world.pass(seconds(60));
    assert_eq!(world.slot("new"), None);
    assert!(!world.is_awake());
}
