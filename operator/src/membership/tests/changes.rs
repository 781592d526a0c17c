//! Pods that say that they leave, alone and together.

use jevmetrics_api::routing::Affinity;

use super::super::{MemberState, Standing};
use super::world::{World, seconds};

#[test]
fn the_slot_of_a_leaver_goes_to_a_spare_at_once() {
    let mut world = World::settled(3);
    world.come(&["new"]);
    world.pass(seconds(15));
    world.leave(&["p1"]);
    assert_eq!(world.slot("new"), Some(1));
    assert_eq!((world.slot("p0"), world.slot("p2")), (Some(0), Some(2)));
    assert_eq!(world.written.len(), 1);
    assert_eq!(world.state("p1"), MemberState::Draining);
    world.pass(seconds(30));
    world.vanish(&["p1"]);
    world.pass(seconds(60));
    assert_eq!(world.written.len(), 1, "its end is no news");
}

#[test]
fn a_spare_that_has_not_settled_inherits_nothing_and_joins_later() {
    let mut world = World::settled(3);
    world.come(&["new"]);
    world.pass(seconds(9));
    world.leave(&["p1"]);
    assert_eq!(world.owners().into_values().collect::<Vec<_>>(), ["p0", "p2"]);
    world.pass(seconds(1));
    assert_eq!(world.slot("new"), Some(1));
}

/// *Scenario*: the grace period of a deleted pod is over before anybody looks, so that nobody sees it leave.
#[test]
fn a_pod_that_was_deleted_leaves_at_once_although_it_was_not_seen_leaving() {
    let mut world = World::settled(3);
    world.come(&["new"]);
    world.pass(seconds(15));
    world.delete(&["p1"]);
    assert_eq!((world.slot("new"), world.slot("p1")), (Some(1), None));
    world.delete(&["p2"]);
    world.pass(seconds(1));
    assert_eq!(world.owners().into_values().collect::<Vec<_>>(), ["p0", "new"]);
    assert_eq!(world.written.len(), 2);
    assert!(!world.is_awake(), "nothing is held");
}

#[test]
fn a_pod_that_is_gone_is_lost_until_it_is_known_that_it_was_deleted() {
    let mut world = World::settled(3);
    let uid = world.pod("p1").uid.clone();
    world.vanish(&["p1"]);
    assert_eq!(world.state("p1"), MemberState::Held);
    world.deleted.insert(uid);
    world.look();
    assert_eq!(world.owners().into_values().collect::<Vec<_>>(), ["p0", "p2"]);
}

#[test]
fn what_is_said_to_be_deleted_and_is_there_is_held_as_any_other() {
    let mut world = World::settled(3);
    let uid = world.pod("p1").uid.clone();
    world.deleted.insert(uid);
    world.ready(&["p1"], false);
    assert_eq!(world.state("p1"), MemberState::Held);
    assert!(world.written.is_empty());
}

/// *Scenario*: somebody takes the label off pods, which looks as if they were deleted, and puts it on again.
#[test]
fn pods_that_come_back_under_their_uids_have_not_left() {
    let mut world = World::settled(3);
    let pods = world.pods.clone();
    world.delete(&["p1", "p2"]);
    assert_eq!(
        world.decision.as_ref().unwrap().standing,
        Standing::Frozen { living: 1, of: 3 }
    );
    world.pods = pods;
    world.look();
    world.ready(&["p1"], false);
    assert_eq!(world.state("p1"), MemberState::Held);
    assert!(world.written.is_empty());
}

#[test]
fn when_most_are_deleted_before_anybody_looks_the_table_stays() {
    let mut world = World::settled(5);
    world.delete(&["p0", "p1", "p2"]);
    let frozen = Standing::Frozen { living: 2, of: 5 };
    assert_eq!(world.decision.as_ref().unwrap().standing, frozen);
    world.pass(seconds(600));
    assert!(world.written.is_empty());
    world.come(&["a"]);
    world.pass(seconds(10));
    assert_eq!(
        world.owners().into_values().collect::<Vec<_>>(),
        ["a", "p3", "p4"]
    );
}

#[test]
fn two_that_leave_at_once_share_an_epoch() {
    let mut world = World::settled(5);
    world.leave(&["p1", "p3"]);
    assert_eq!(world.written.len(), 1);
    assert_eq!(world.owners().into_keys().collect::<Vec<_>>(), [0, 2, 4]);
}

#[test]
fn of_two_that_leave_at_once_one_is_inherited_if_there_is_one_spare() {
    let mut world = World::settled(5);
    world.come(&["new"]);
    world.pass(seconds(15));
    world.leave(&["p1", "p3"]);
    assert_eq!(world.written.len(), 1);
    assert_eq!(world.slot("new"), Some(1));
    assert_eq!(world.owners().len(), 4);
    world.come(&["newer"]);
    world.pass(seconds(10));
    assert_eq!(world.slot("newer"), Some(3));
}

#[test]
fn two_that_leave_shortly_after_each_other_take_two_epochs_a_second_apart() {
    let mut world = World::settled(5);
    world.leave(&["p1"]);
    world.pass(seconds(0));
    world.leave(&["p3"]);
    assert_eq!(world.written.len(), 1);
    world.pass(seconds(1));
    let times: Vec<_> = world.written.iter().map(|(at, _)| *at).collect();
    assert_eq!(times[1], times[0] + seconds(1));
    assert_eq!(world.owners().into_keys().collect::<Vec<_>>(), [0, 2, 4]);
}

#[test]
fn fewer_wanted_slots_take_none_from_pods_that_are_still_there() {
    let mut world = World::settled(6);
    world.desired.slots = 3;
    world.look();
    world.pass(seconds(60));
    assert!(world.written.is_empty());
    world.leave(&["p0", "p2", "p4"]);
    assert_eq!(world.owners().into_keys().collect::<Vec<_>>(), [1, 3, 5]);
    assert_eq!(world.written.len(), 1);
}

#[test]
fn a_spare_inherits_nothing_where_fewer_slots_are_wanted() {
    let mut world = World::settled(4);
    world.come(&["new"]);
    world.pass(seconds(15));
    world.desired.slots = 3;
    world.leave(&["p0"]);
    assert_eq!(world.owners().into_keys().collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(world.state("new"), MemberState::Spare);
}

#[test]
fn to_nobody_and_back() {
    let mut world = World::settled(3);
    world.desired.slots = 0;
    world.leave(&["p0", "p1", "p2"]);
    world.vanish(&["p0", "p1", "p2"]);
    world.pass(seconds(600));
    assert!(world.written.is_empty(), "no table is empty");
    assert_eq!(
        world.decision.as_ref().unwrap().members,
        [],
        "nobody keeps anything for them"
    );
    world.desired.slots = 3;
    world.come(&["a", "b", "c"]);
    world.pass(seconds(10));
    assert_eq!(world.written.len(), 1);
    assert_eq!(world.owners().into_values().collect::<Vec<_>>(), ["a", "b", "c"]);
}

/// *Scenario*: no pod is wanted for a while; then pods come one after the other, and meanwhile somebody changes the affinity.
#[test]
fn after_nobody_was_wanted_pods_gather_and_nobody_calls_it_frozen() {
    for restarts in [false, true] {
        let mut world = World::settled(5);
        world.desired.slots = 0;
        world.delete(&["p0", "p1", "p2", "p3", "p4"]);
        if restarts {
            world.restart();
        }
        world.pass(seconds(60));
        world.desired.slots = 5;
        world.look();
        for (name, settled) in [("a", 0), ("b", 1), ("c", 2)] {
            let gathering = Standing::Gathering { settled, needed: 3 };
            let decision = world.decision.as_ref().unwrap();
            assert_eq!(decision.standing, gathering, "restarts: {restarts}");
            let there: Vec<&str> = world.pods.keys().map(String::as_str).collect();
            let members: Vec<&str> = decision
                .members
                .iter()
                .map(|member| member.name.as_str())
                .collect();
            assert_eq!(members, there, "nobody who is gone is one");
            for member in &decision.members {
                assert_eq!(member.state, MemberState::Settling, "{}", member.name);
            }
            world.come(&[name]);
            world.pass(seconds(15));
            if settled == 1 {
                world.desired.header.affinity = Affinity::Upstream;
                world.look();
                world.pass(seconds(5));
            }
        }
        let decision = world.decision.as_ref().unwrap();
        assert_eq!(decision.standing, Standing::Current);
        let owners = world.owners();
        for name in ["a", "b", "c"] {
            assert!(owners.values().any(|owner| owner == name), "{name} owns nothing");
        }
    }
}

/// *Scenario*: the number is 0 for a moment, too short for a pod to be stopped; later most pods are lost.
#[test]
fn a_short_zero_hides_no_alarm() {
    let mut world = World::settled(3);
    world.desired.slots = 0;
    world.look();
    world.desired.slots = 3;
    world.look();
    world.ready(&["p0", "p1", "p2"], false);
    let frozen = Standing::Frozen { living: 0, of: 3 };
    assert_eq!(world.decision.as_ref().unwrap().standing, frozen);
    assert_eq!(world.state("p0"), MemberState::Held);
}

/// *Scenario*: pods that follow those that were sent away are lost themselves.
#[test]
fn once_others_have_followed_it_is_an_alarm_again() {
    let mut world = World::settled(2);
    world.desired.slots = 0;
    world.delete(&["p0", "p1"]);
    world.desired.slots = 2;
    world.come(&["a", "b"]);
    world.pass(seconds(10));
    assert_eq!(world.owners().into_values().collect::<Vec<_>>(), ["a", "b"]);
    world.ready(&["a", "b"], false);
    let frozen = Standing::Frozen { living: 0, of: 2 };
    assert_eq!(world.decision.as_ref().unwrap().standing, frozen);
}

/// *Scenario*: the operator restarts, or another leads, while no pod is wanted.
#[test]
fn where_nobody_is_wanted_a_restart_holds_nobody() {
    let mut world = World::settled(3);
    world.desired.slots = 0;
    world.delete(&["p0", "p1", "p2"]);
    let nobody = Standing::Frozen { living: 0, of: 0 };
    assert_eq!(world.decision.as_ref().unwrap().standing, nobody);
    world.restart();
    for _ in 0..30 {
        assert_eq!(world.decision.as_ref().unwrap().standing, nobody);
        world.pass(seconds(1));
        world.look();
    }
    assert!(world.written.is_empty());
}

#[test]
fn when_all_are_deleted_the_table_stays_until_half_are_replaced() {
    let mut world = World::settled(4);
    world.leave(&["p0", "p1", "p2", "p3"]);
    let standing = world.decision.as_ref().unwrap().standing;
    assert_eq!(standing, Standing::Frozen { living: 0, of: 4 });
    world.come(&["a"]);
    world.pass(seconds(5));
    world.come(&["b"]);
    world.vanish(&["p0", "p1", "p2", "p3"]);
    assert_eq!(world.state("p0"), MemberState::Held);
    world.pass(seconds(9));
    assert!(world.written.is_empty());
    world.pass(seconds(1));
    // Two of four: the slots of the others go, for their pods have said that they leave.
    assert_eq!(world.owners().into_values().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(world.decision.as_ref().unwrap().standing, Standing::Current);
    world.come(&["c", "d"]);
    world.pass(seconds(10));
    assert_eq!(world.owners().len(), 4);
}

#[test]
fn the_only_pod_keeps_its_slot_until_it_is_replaced() {
    let mut world = World::settled(1);
    world.leave(&["p0"]);
    world.come(&["new"]);
    world.pass(seconds(9));
    assert_eq!(world.slot("p0"), Some(0));
    world.pass(seconds(1));
    assert_eq!(world.slot("new"), Some(0));
}

#[test]
fn what_a_table_has_changed_is_known_until_the_next_one() {
    let mut world = World::settled(3);
    let first = world.stored.clone().unwrap();
    world.leave(&["p1"]);
    let second = world.stored.clone().unwrap();
    world.pass(seconds(30));
    assert_eq!(world.memory.change_of(&second), Some("1 removed"));
    assert_eq!(world.memory.change_of(&first), None);
}
