//! Faults that come under load and go again: the same is guaranteed in all of them.

use std::time::{Duration, Instant};

use jevmetrics_testkit::poll;

use super::super::group::{droppable, message};
use super::super::replica::WITHIN;
use super::{Fault, HASTY, STEADY, is_skipped, loaded, more_exports, nothing_lost, reappeared};

async fn is_borne(fault: Fault) {
    if is_skipped() {
        return;
    }
    let (mut group, loads) = loaded(HASTY).await;
    // Known to one replica and to Redis.
    let shared = message(&droppable("shared", 3));
    group.replicas[0].learn(&shared, STEADY as u64 + 3).await;
    let (asked, before) = (group.asked(), reappeared(&group, &loads));
    let resident = [0, 1].map(|number: usize| group.replicas[number].plane.resident_bytes().unwrap());

    fault.begin(&mut group).await;
    let unknown = [droppable("here", 20), droppable("there", 20)].map(|names| message(&names));
    for (replica, unknown) in group.replicas.iter().zip(&unknown) {
        let named = poll::eventually("the state", WITHIN, async || {
            assert_eq!(replica.kept_of(unknown).await, 20);
            let line = replica.coordination().await;
            let is_named = fault.names().iter().any(|name| line.contains(name));
            if line.starts_with("failing") && is_named {
                Ok(line)
            } else {
                Err(line)
            }
        });
        println!("{fault:?}: {}", named.await.unwrap());
    }
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        for (replica, unknown) in group.replicas.iter().zip(&unknown) {
            assert_eq!(replica.kept_of(unknown).await, 20, "unscored is kept");
        }
        more_exports(&loads, 5).await;
    }
    if fault.is_readable() {
        group.replicas[1].drops(&shared).await;
    } else {
        assert_eq!(group.replicas[1].kept_of(&shared).await, 3);
    }
    assert_eq!(reappeared(&group, &loads), before, "fresh decisions stay");
    assert_eq!(group.asked(), asked, "nobody asks on his own");
    for (replica, resident) in group.replicas.iter().zip(resident) {
        let now = replica.plane.resident_bytes().unwrap();
        assert!(now < resident + (24 << 20), "{resident} {now}");
    }

    let ended = Instant::now();
    fault.end(&mut group).await;
    for (replica, unknown) in group.replicas.iter().zip(&unknown) {
        replica.drops(unknown).await;
        println!("{fault:?}: works again within {:?}", ended.elapsed());
        replica.is("healthy").await;
    }
    assert_eq!(reappeared(&group, &loads), before, "fresh decisions stay");
    nothing_lost(&group, &loads).await;
    group.finish().await;
}

/// *Scenario*: Redis is killed and comes back empty, under load.
/// *Guarantees*: no export fails and no point is lost; what is fresh stays dropped, what is unknown is kept, and nothing is
/// asked; memory stays flat; the state is named; all works again when Redis does.
#[tokio::test(flavor = "multi_thread")]
async fn redis_killed_and_restarted_empty_is_borne() {
    is_borne(Fault::Killed).await;
}

/// *Scenario*: Redis is paused: it holds connections and says nothing.
/// *Guarantees*: as when it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn redis_paused_is_borne() {
    is_borne(Fault::Paused).await;
}

/// *Scenario*: the network swallows everything.
/// *Guarantees*: as when it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn redis_behind_a_black_hole_is_borne() {
    is_borne(Fault::BlackHole).await;
}

/// *Scenario*: the network cuts every connection.
/// *Guarantees*: as when it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn redis_cut_off_is_borne() {
    is_borne(Fault::Cut).await;
}

/// *Scenario*: Redis becomes a read-only replica, and the primary again.
/// *Guarantees*: as when it is killed; what is shared is read meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn redis_demoted_is_borne_and_still_read() {
    is_borne(Fault::Demoted).await;
}

/// *Scenario*: Redis has no memory left, and evicts nothing.
/// *Guarantees*: as when it is killed; what is shared is read meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn redis_out_of_memory_is_borne_and_still_read() {
    is_borne(Fault::OutOfMemory).await;
}

/// *Scenario*: the password changes, first in Redis, later in the file.
/// *Guarantees*: as when it is killed; the file is read again, without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_password_is_borne_and_taken_up() {
    is_borne(Fault::Password).await;
}

/// *Scenario*: the user loses one of the documented rights, and gets it back.
/// *Guarantees*: as when it is killed; what is shared is read meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_is_borne_and_named() {
    is_borne(Fault::Rights).await;
}
