//! Epochs, whoever has touched the live object meanwhile.

use std::time::Duration;

use jevmetrics_api::routing::{
    Affinity, Header, MAX_EPOCH, MAX_EPOCH_IN_FORCE, MAX_TOLD_EPOCH, RoutingTable,
};

use super::super::{ASKING, HEARSAY_LAG, Memory};
use super::world::{World, seconds};

fn with_epoch(table: &RoutingTable, epoch: u64) -> RoutingTable {
    RoutingTable::new(epoch, table.header().clone(), table.owners().to_vec()).unwrap()
}

/// The next epoch if there is no table to go on from, and this is the highest that is told.
fn after(told: u64) -> u64 {
    told + HEARSAY_LAG + 1
}

/// The same without its last owner.
fn without_last(table: &RoutingTable, epoch: u64) -> RoutingTable {
    let owners = table.owners().split_last().unwrap().1.to_vec();
    RoutingTable::new(epoch, table.header().clone(), owners).unwrap()
}

#[test]
fn nothing_new_means_nothing_written() {
    let mut world = World::settled(5);
    for _ in 0..100 {
        world.look();
        world.pass(seconds(7));
    }
    assert!(world.written.is_empty());
    assert!(!world.is_awake());
}

#[test]
fn a_deleted_table_is_written_again_as_it_was() {
    let mut world = World::settled(5);
    let before = world.stored.take();
    world.look();
    assert_eq!(world.stored, before);
}

#[test]
fn a_table_that_was_deleted_while_nobody_looked_does_not_go_back() {
    let mut world = World::settled(5);
    world.leave(&["p1"]);
    let epoch = world.epoch();
    world.stored = None;
    world.restart();
    assert_eq!(world.stored, None, "everybody settles anew");
    world.pass(seconds(10));
    assert_eq!((world.epoch(), world.owners().len()), (after(epoch), 4));
}

/// *Scenario*: a table a second; the operator and the live object are lost before the status tells of the last ones, and no
/// pod answers.
#[test]
fn tables_that_nobody_has_told_of_do_not_come_twice() {
    let mut world = World::settled(5);
    let told = world.told;
    for round in 0..HEARSAY_LAG {
        let affinities = [Affinity::None, Affinity::Forward];
        world.desired.header.affinity = affinities[usize::try_from(round % 2).unwrap()];
        world.pass(seconds(1));
        world.look();
    }
    let last = world.epoch();
    assert_eq!(last, told + HEARSAY_LAG);
    (world.stored, world.told) = (None, told);
    world.restart();
    world.pass(seconds(20));
    assert_eq!(world.epoch(), last + 1);
}

#[test]
fn an_earlier_table_that_was_put_back_is_replaced_by_the_present_one() {
    let mut world = World::settled(5);
    let earlier = world.stored.clone().unwrap();
    world.leave(&["p1"]);
    let present = world.stored.clone();
    world.stored = Some(earlier);
    world.look();
    assert_eq!(world.stored, present);
}

#[test]
fn an_earlier_table_that_was_put_back_while_nobody_looked_gets_a_later_epoch() {
    let mut world = World::settled(5);
    let earlier = world.stored.clone().unwrap();
    world.leave(&["p1"]);
    let epoch = world.epoch();
    world.stored = Some(earlier);
    world.restart();
    assert_eq!(world.epoch(), after(epoch));
    assert_eq!(world.slot("p1"), None);
}

#[test]
fn a_table_that_was_edited_is_replaced_under_a_later_epoch() {
    let mut world = World::settled(5);
    world.pass(seconds(10));
    let present = world.stored.clone().unwrap();
    world.stored = Some(without_last(&present, present.epoch()));
    world.look();
    assert_eq!(world.stored, Some(with_epoch(&present, present.epoch() + 1)));
}

/// Also within the second in which there is no other table: replaced under its own epoch, it would stay with all that have
/// read it.
#[test]
fn a_table_that_was_edited_at_once_is_replaced_under_a_later_epoch() {
    let mut world = World::settled(5);
    world.leave(&["p1"]);
    let present = world.stored.clone().unwrap();
    world.now += Duration::from_millis(300);
    world.stored = Some(without_last(&present, present.epoch()));
    world.look();
    assert_eq!(world.stored, Some(with_epoch(&present, present.epoch() + 1)));
}

#[test]
fn a_later_table_of_another_leader_is_gone_on_from() {
    let mut world = World::settled(5);
    world.pass(seconds(10));
    let present = world.stored.clone().unwrap();
    let later = without_last(&present, present.epoch() + 3);
    world.stored = Some(later.clone());
    world.look();
    // The pod that it left out is ready and joins as any other.
    let joined = with_epoch(&present, later.epoch() + 1);
    world.pass(seconds(20));
    assert_eq!(world.stored, Some(joined));
}

#[test]
fn a_table_of_a_stranger_is_replaced_and_its_epoch_outdone() {
    for remembers in [true, false] {
        let mut world = World::settled(5);
        world.pass(seconds(10));
        let present = world.stored.clone().unwrap();
        let mut header: Header = present.header().clone();
        header.cluster.policy = "another".to_owned();
        let strange = RoutingTable::new(70, header, present.owners()[..1].to_vec()).unwrap();
        world.stored = Some(strange);
        if remembers {
            world.look();
        } else {
            world.restart();
            world.pass(seconds(20));
        }
        let least = if remembers { 71 } else { after(present.epoch()) };
        assert_eq!(
            world.stored,
            Some(with_epoch(&present, least)),
            "remembers: {remembers}"
        );
    }
}

#[test]
fn an_epoch_that_a_pod_or_the_status_knows_is_outdone() {
    let mut world = World::settled(5);
    let present = world.stored.clone().unwrap();
    world.pass(seconds(10));
    world.told = 40;
    world.look();
    assert_eq!(world.stored, Some(with_epoch(&present, after(40))));
    world.pass(seconds(10));
    world.look();
    assert_eq!(world.epoch(), after(40), "written, it stays");
}

#[test]
fn who_claims_an_absurd_epoch_is_not_believed_and_hides_nobody() {
    for claim in [MAX_TOLD_EPOCH + 1, MAX_EPOCH - 1, MAX_EPOCH, u64::MAX] {
        let mut world = World::settled(5);
        world.pass(seconds(10));
        let epoch = world.epoch();
        world.claim = Some(claim);
        world.look();
        assert_eq!(world.epoch(), epoch, "{claim}");
        world.leave(&["p1"]);
        assert_eq!((world.epoch(), world.slot("p1")), (epoch + 1, None), "{claim}");
        world.vanish(&["p1"]);
        // The others are believed, also by a process that remembers nothing and finds no table.
        world.told = 40;
        world.stored = None;
        world.restart();
        world.pass(seconds(20));
        assert_eq!((world.epoch(), world.owners().len()), (after(40), 4), "{claim}");
    }
}

/// Whatever is believed, there is no end after it.
#[test]
fn after_the_highest_claim_that_is_believed_life_goes_on() {
    let mut world = World::settled(5);
    world.pass(seconds(10));
    world.claim = Some(MAX_TOLD_EPOCH);
    world.look();
    let epoch = after(MAX_TOLD_EPOCH);
    assert_eq!(world.epoch(), epoch);
    world.pass(seconds(10));
    world.leave(&["p1"]);
    assert_eq!((world.epoch(), world.slot("p1")), (epoch + 1, None));
    world.vanish(&["p1"]);
    world.restart();
    world.pass(seconds(10));
    world.leave(&["p2"]);
    assert_eq!((world.epoch(), world.slot("p2")), (epoch + 2, None));
    assert!(world.epoch() <= MAX_EPOCH_IN_FORCE);
}

#[test]
fn a_table_with_an_absurd_epoch_is_replaced_as_garbage_is() {
    let cases = [
        (true, MAX_EPOCH_IN_FORCE),
        (true, MAX_EPOCH_IN_FORCE + 1),
        (true, MAX_EPOCH - 1),
        (true, MAX_EPOCH),
        (false, MAX_TOLD_EPOCH + 1),
        (false, MAX_EPOCH - 1),
        (false, MAX_EPOCH),
    ];
    for (is_ours, epoch) in cases {
        let mut world = World::settled(5);
        world.pass(seconds(10));
        let present = world.stored.clone().unwrap();
        let mut header: Header = present.header().clone();
        if !is_ours {
            header.cluster.policy = "another".to_owned();
        }
        world.stored = Some(RoutingTable::new(epoch, header, present.owners().to_vec()).unwrap());
        world.look();
        assert_eq!(world.stored, Some(present), "is ours: {is_ours}, {epoch}");
        world.leave(&["p1"]);
        assert_eq!(world.slot("p1"), None);
    }
}

/// *Scenario*: somebody puts our own table back with an epoch that could hardly be higher.
#[test]
fn whatever_epoch_our_own_table_is_given_later_ones_come_into_force() {
    for below in [0, 1, 2, 1 << 20, 1 << 31, 1 << 32, (1 << 32) + 1, 1 << 33] {
        let mut world = World::settled(5);
        world.pass(seconds(10));
        let present = world.stored.clone().unwrap();
        world.stored = Some(without_last(&present, MAX_EPOCH_IN_FORCE - below));
        world.restart();
        world.pass(seconds(60));
        for pod in ["p1", "p2"] {
            let epoch = world.epoch();
            world.leave(&[pod]);
            world.pass(seconds(10));
            assert!(world.epoch() > epoch, "{below}");
            assert!(world.epoch() <= MAX_EPOCH_IN_FORCE, "{below}");
            assert_eq!(world.slot(pod), None, "{below}");
        }
    }
}

/// Nobody but pods knows what was in force last: a table that follows none waits until they were asked.
#[test]
fn a_first_table_waits_for_what_pods_may_know_but_not_for_ever() {
    let forgotten = || {
        let mut world = World::settled(5);
        world.pass(seconds(10));
        (world.stored, world.is_asked) = (None, false);
        (world.told, world.memory) = (0, Memory::default());
        world.written.clear();
        world.look();
        world
    };
    let mut world = forgotten();
    world.pass(seconds(15));
    assert!(world.written.is_empty(), "nobody was asked yet");
    (world.told, world.is_asked) = (7, true);
    world.look();
    assert_eq!((world.epoch(), world.owners().len()), (after(7), 5));

    let mut world = forgotten();
    world.pass((seconds(10) + ASKING).saturating_sub(Duration::from_millis(1)));
    assert!(world.written.is_empty());
    world.pass(Duration::from_millis(1));
    assert_eq!((world.epoch(), world.owners().len()), (1, 5), "nobody answers");

    // Also where the status knows an epoch: pods may know a later one.
    let mut world = forgotten();
    world.told = 7;
    world.look();
    world.pass(seconds(15));
    assert!(world.written.is_empty(), "nobody was asked yet");
    (world.claim, world.is_asked) = (Some(900), true);
    world.look();
    assert_eq!((world.epoch(), world.owners().len()), (after(900), 5));
}

#[test]
fn a_change_of_affinity_is_an_epoch_with_the_same_owners() {
    let mut world = World::settled(5);
    let (epoch, owners) = (world.epoch(), world.owners());
    world.pass(seconds(10));
    world.desired.header.affinity = Affinity::None;
    world.look();
    assert_eq!((world.epoch(), world.owners()), (epoch + 1, owners));
}

/// Also while owners are frozen: it says nothing about who is there.
#[test]
fn a_change_of_affinity_reaches_a_frozen_table() {
    let mut world = World::settled(5);
    let (epoch, owners) = (world.epoch(), world.owners());
    world.ready(&["p0", "p1", "p2"], false);
    world.pass(seconds(60));
    world.desired.header.affinity = Affinity::Upstream;
    world.look();
    assert_eq!((world.epoch(), world.owners()), (epoch + 1, owners));
}

#[test]
fn a_table_that_could_not_be_written_is_decided_again() {
    let mut world = World::settled(5);
    world.pass(seconds(10));
    world.pod("p1").is_leaving = true;
    let first = world.decide();
    // The write fails: only what was seen is remembered.
    world.memory = first.memory.clone();
    world.now += Duration::from_millis(300);
    let second = world.decide();
    assert_eq!(second.table, first.table);
    assert_eq!(second.table.unwrap().epoch(), world.epoch() + 1);
}

/// The write succeeds, and its reply is lost: the next look finds what it has brought about.
#[test]
fn a_table_whose_write_was_not_confirmed_counts_as_written() {
    let mut world = World::settled(50);
    for index in 0..8 {
        world.pod(&format!("p{index}")).is_ready = false;
    }
    world.look();
    world.now += seconds(15);
    let decision = world.decide();
    assert_eq!(decision.table.as_ref().unwrap().owners().len(), 45);
    world.memory = decision.memory;
    world.stored = decision.table;
    world.told = world.epoch();
    world.now += Duration::from_millis(300);
    world.look();
    world.pass(seconds(59));
    assert_eq!(world.owners().len(), 45, "the limit is not spent twice");
    world.pass(seconds(2));
    assert_eq!(world.owners().len(), 42);
}
