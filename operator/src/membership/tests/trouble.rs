//! Pods that are lost without having said that they leave.

use std::time::Duration;

use super::super::{MemberState, Standing};
use super::world::{World, seconds};

fn names(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|index| format!("p{index}")).collect()
}

fn references(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

#[test]
fn a_quick_return_keeps_the_slot_and_the_epoch() {
    let mut world = World::settled(5);
    world.ready(&["p2"], false);
    assert_eq!(world.state("p2"), MemberState::Held);
    world.pass(Duration::from_millis(14_999));
    world.ready(&["p2"], true);
    world.pass(seconds(60));
    assert_eq!(world.state("p2"), MemberState::Active);
    assert!(world.written.is_empty());
}

#[test]
fn a_pod_that_does_not_return_is_removed_after_fifteen_seconds() {
    for is_gone in [false, true] {
        let mut world = World::settled(5);
        let started = world.now;
        if is_gone {
            world.vanish(&["p2"]);
            assert_eq!(world.state("p2"), MemberState::Held);
        } else {
            world.ready(&["p2"], false);
        }
        world.pass(seconds(60));
        assert_eq!(world.owners().into_keys().collect::<Vec<_>>(), [0, 1, 3, 4]);
        let times: Vec<_> = world
            .written
            .iter()
            .map(|(at, _)| at.saturating_sub(started))
            .collect();
        assert_eq!(times, [seconds(15)]);
        assert!(!world.is_awake());
    }
}

#[test]
fn a_spare_inherits_the_slot_of_a_lost_pod_only_when_it_is_given_up() {
    let mut world = World::settled(5);
    world.come(&["new"]);
    world.pass(seconds(20));
    world.ready(&["p2"], false);
    world.pass(Duration::from_millis(14_999));
    assert_eq!(world.slot("new"), None);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.slot("new"), Some(2));
    world.ready(&["p2"], true);
    world.pass(seconds(60));
    assert_eq!(world.state("p2"), MemberState::Spare);
    assert_eq!(world.written.len(), 1);
}

#[test]
fn a_held_pod_that_says_that_it_leaves_is_not_held_any_longer() {
    let mut world = World::settled(5);
    world.ready(&["p2"], false);
    world.pass(seconds(3));
    world.leave(&["p2"]);
    assert_eq!(world.slot("p2"), None);
}

#[test]
fn lost_pods_are_removed_slowly_the_longest_lost_first() {
    let mut world = World::settled(20);
    let started = world.now;
    world.ready(&["p9"], false);
    world.pass(seconds(1));
    let lost = names(0..5);
    world.ready(&references(&lost), false);
    world.pass(seconds(400));
    let sizes: Vec<_> = world
        .written
        .iter()
        .map(|(at, table)| (at.as_secs() - started.as_secs(), table.owners().len()))
        .collect();
    // A tenth of 20 in a minute: 2; of less than 20: 1.
    assert_eq!(
        sizes,
        [(15, 19), (75, 18), (135, 17), (195, 16), (255, 15), (315, 14)]
    );
    assert_eq!(
        world.written[0].1.slot_of("uid-000010"),
        None,
        "p9 was lost first"
    );
    assert!(!world.is_awake());
}

#[test]
fn a_tenth_of_a_large_table_is_removed_together() {
    let mut world = World::settled(50);
    let lost = names(0..8);
    world.ready(&references(&lost), false);
    world.pass(seconds(15));
    assert_eq!(world.owners().len(), 45);
    world.pass(seconds(60));
    assert_eq!(world.owners().len(), 42);
    assert_eq!(world.written.len(), 2);
}

#[test]
fn flapping_of_five_seconds_changes_nothing() {
    let mut world = World::settled(5);
    for _ in 0..60 {
        world.ready(&["p2"], false);
        world.pass(seconds(5));
        world.ready(&["p2"], true);
        world.pass(seconds(5));
    }
    assert!(world.written.is_empty());
}

/// Whatever the patience: without hold and settling as well, where each turn could be two tables.
#[test]
fn flapping_of_any_length_takes_at_most_two_epochs_a_minute() {
    for (settle, hold) in [(10, 15), (1, 1), (1, 15), (10, 1)] {
        for span in 1..40 {
            let mut world = World::settled(5);
            world.desired.rules.settle = seconds(settle);
            world.desired.rules.hold = seconds(hold);
            let started = world.now;
            while world.now < started + seconds(600) {
                world.ready(&["p2"], false);
                world.pass(seconds(span));
                world.ready(&["p2"], true);
                world.pass(seconds(span));
            }
            for (at, _) in &world.written {
                let within = |other: &Duration| *other >= *at && *other < *at + seconds(60);
                let epochs = world.written.iter().filter(|(other, _)| within(other)).count();
                assert!(
                    epochs <= 2,
                    "{span} s on and off, settle {settle}, hold {hold}: {epochs} epochs in a minute"
                );
            }
        }
    }
}

#[test]
fn a_pod_that_was_given_up_joins_again_a_minute_later() {
    let mut world = World::settled(5);
    world.ready(&["p2"], false);
    world.pass(seconds(20));
    let given_up = world.written[0].0;
    world.ready(&["p2"], true);
    assert_eq!(world.state("p2"), MemberState::Settling);
    world.pass(seconds(100));
    let times: Vec<_> = world
        .written
        .iter()
        .map(|(at, _)| at.saturating_sub(given_up))
        .collect();
    assert_eq!(times, [seconds(0), seconds(60)]);
    assert_eq!(world.slot("p2"), Some(2));
    assert!(!world.is_awake());
}

#[test]
fn sixty_percent_unready_at_once_freeze_the_table() {
    let mut world = World::settled(10);
    let lost = names(0..6);
    let lost = references(&lost);
    world.ready(&lost, false);
    let frozen = Standing::Frozen { living: 4, of: 10 };
    assert_eq!(world.decision.as_ref().unwrap().standing, frozen);
    world.pass(seconds(3_600));
    assert_eq!(world.decision.as_ref().unwrap().standing, frozen);
    assert!(world.written.is_empty(), "no cascade");
    world.ready(&lost, true);
    assert_eq!(world.decision.as_ref().unwrap().standing, Standing::Current);
    world.pass(seconds(60));
    assert!(world.written.is_empty());
}

#[test]
fn a_frozen_table_thaws_when_half_are_there_again() {
    let mut world = World::settled(10);
    let lost = names(0..6);
    world.vanish(&references(&lost));
    world.pass(seconds(60));
    world.come(&["new"]);
    world.pass(seconds(10));
    assert_eq!(world.slot("new"), Some(0));
    // The others may be about to come back too: five seats stay empty for as long as after a loss, then go one by one.
    assert_eq!(world.owners().len(), 10);
    world.pass(seconds(14));
    assert_eq!(world.owners().len(), 10);
    world.pass(seconds(1));
    assert_eq!(world.owners().len(), 9);
    world.pass(seconds(600));
    assert_eq!(world.owners().len(), 5);
    assert_eq!(world.decision.as_ref().unwrap().standing, Standing::Current);
}

#[test]
fn those_that_come_back_one_by_one_after_a_freeze_keep_their_slots() {
    let mut world = World::settled(20);
    let lost = names(0..12);
    world.ready(&references(&lost), false);
    world.pass(seconds(3_600));
    for name in &lost {
        world.ready(&[name], true);
        world.pass(seconds(1));
    }
    world.pass(seconds(600));
    assert!(world.written.is_empty());
    assert_eq!(world.owners().len(), 20);
}

#[test]
fn losses_one_after_the_other_do_not_go_below_half_of_what_was_whole() {
    let mut world = World::settled(10);
    for name in names(0..9) {
        world.ready(&[&name], false);
        world.pass(seconds(1));
    }
    world.pass(seconds(3_600));
    assert_eq!(world.owners().len(), 10, "frozen before the first was given up");
}

#[test]
fn after_a_restart_owners_stay_and_what_is_lost_is_held_anew() {
    let mut world = World::settled(5);
    world.ready(&["p2"], false);
    world.pass(seconds(14));
    world.restart();
    assert!(world.written.is_empty());
    world.pass(Duration::from_millis(14_999));
    assert!(world.written.is_empty());
    world.pass(Duration::from_millis(1));
    assert_eq!(world.slot("p2"), None);
}

#[test]
fn a_pod_that_changes_its_address_keeps_its_slot() {
    let mut world = World::settled(3);
    let epoch = world.epoch();
    world.ready(&["p1"], false);
    world.pod("p1").address = None;
    world.look();
    assert_eq!(world.epoch(), epoch, "until it has another, the old one stays");
    world.pod("p1").address = Some("10.9.9.9:4319".parse().unwrap());
    world.ready(&["p1"], true);
    assert_eq!((world.epoch(), world.slot("p1")), (epoch + 1, Some(1)));
    let owner = &world.stored.as_ref().unwrap().owners()[1];
    assert_eq!(owner.address.to_string(), "10.9.9.9:4319");
}

/// *Scenario*: a scale-down while nobody looked: slots of the dead that nobody wants are no matter of caution.
#[test]
fn lost_pods_whose_slots_are_not_wanted_are_removed_together() {
    let mut world = World::settled(200);
    let dead = names(20..200);
    for name in &dead {
        world.pods.remove(name);
    }
    world.desired.slots = 20;
    world.restart();
    world.pass(Duration::from_millis(14_999));
    assert_eq!(world.owners().len(), 200, "held");
    world.pass(Duration::from_millis(1));
    assert_eq!(
        world.owners().into_keys().collect::<Vec<_>>(),
        (0..20).collect::<Vec<_>>()
    );
    // They do not count: a wanted one may go in the same minute.
    world.vanish(&["p3", "p4", "p5"]);
    world.pass(seconds(15));
    assert_eq!(world.owners().len(), 18);
    world.pass(seconds(60));
    assert_eq!(world.owners().len(), 17);
}

#[test]
fn of_the_lost_those_beyond_what_is_wanted_go_and_the_rest_slowly() {
    let mut world = World::settled(40);
    let dead = names(14..40);
    for name in &dead {
        world.pods.remove(name);
    }
    world.desired.slots = 20;
    world.look();
    let started = world.now;
    world.pass(seconds(200));
    let sizes: Vec<_> = world
        .written
        .iter()
        .map(|(at, table)| (at.as_secs() - started.as_secs(), table.owners().len()))
        .collect();
    // A tenth of the 20 that are wanted: 2; of less: 1.
    assert_eq!(sizes, [(15, 18), (75, 17), (135, 16), (195, 15)]);
}

/// *Scenario*: all were scaled away and some come back, while nobody looked.
#[test]
fn slots_of_those_that_were_scaled_away_go_when_others_have_settled() {
    let mut world = World::settled(200);
    world.pods.clear();
    world.desired.slots = 3;
    for name in ["a", "b", "c"] {
        world.add(name);
    }
    world.restart();
    world.pass(seconds(20));
    assert_eq!(world.owners().into_values().collect::<Vec<_>>(), ["a", "b", "c"]);
}

/// Pods that were evicted stay in the API until somebody tidies up.
#[test]
fn a_pod_that_has_ended_is_a_member_only_while_it_has_a_slot() {
    let mut world = World::settled(3);
    world.pass(seconds(10));
    let pod = world.pod("p1");
    (pod.is_ready, pod.is_leaving, pod.has_ended) = (false, true, true);
    world.look();
    assert_eq!(world.slot("p1"), None);
    let names: Vec<_> = world
        .decision
        .as_ref()
        .unwrap()
        .members
        .iter()
        .map(|member| member.name.clone())
        .collect();
    assert_eq!(names, ["p0", "p2"]);
    // Frozen, it keeps its slot.
    for name in ["p0", "p2"] {
        let pod = world.pod(name);
        (pod.is_ready, pod.is_leaving, pod.has_ended) = (false, true, true);
    }
    world.look();
    assert_eq!(world.state("p0"), MemberState::Draining);
}
