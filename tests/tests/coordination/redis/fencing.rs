//! Owners that stop, die or are late.

use jevmetrics_testkit::mock_jev::{Behaviour, Opinion};
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::Budget;
use jevmetrics_testkit::redis::{Passage, Proxy};

use super::group::{Group, SHORT, Setup, message};
use super::replica::WITHIN;

/// *Scenario*: an owner is paused beyond its lease, after Jev has answered it. Another replica asks anew, and Jev has
/// changed its mind. Then the first one goes on.
/// *Guarantees*: what it was told is neither published nor used; the newer answer stands, for both.
#[tokio::test]
async fn a_paused_owner_publishes_nothing_and_takes_the_newer_answer() {
    const NAME: &str = "shop.orders";
    let mut group = Group::start(2, Setup::hasty()).await;
    let message = message(&[NAME]);
    group.jev.judge().set(NAME, Opinion::with_keep(0.9));
    group
        .jev
        .script()
        .once(Behaviour::slow(std::time::Duration::from_millis(500)));
    group.replicas[0].deliver(&message).await;
    group.jev_is_asked(1).await;
    group.replicas[0].plane.signal("STOP").await.unwrap();
    group.jev_is_asked(0).await;
    group.jev.judge().set(NAME, Opinion::with_keep(0.1));
    group.replicas[1].learn(&message, 1).await;
    assert_eq!(group.asked(), 2);
    let stored = group.evidence().await.publications;
    assert_eq!(stored.len(), 1, "{stored:?}");

    group.replicas[0].plane.signal("CONT").await.unwrap();
    let decided = poll::eventually("a decision of the one that was paused", WITHIN, async || {
        group.replicas[0].deliver(&message).await;
        let row = group.replicas[0].decision(NAME).await.unwrap();
        if row["reason"] == "awaiting_assessment" {
            Err(row)
        } else {
            Ok(row)
        }
    });
    let row = decided.await.unwrap();
    assert_eq!(
        (&row["decision"], &row["answers"]["keep_probability"]),
        (&"drop".into(), &0.1.into())
    );
    let evidence = group.evidence().await;
    assert_eq!(evidence.publications, stored, "nobody has written since");
    assert_eq!(group.asked(), 2);
    let [first, second] = evidence.admissions.as_slice() else {
        panic!("{evidence:?}");
    };
    assert!(second.at >= first.ends, "{evidence:?}");
    println!("asked again {} ms after the lease", second.at - first.ends);
    group.finish().await;
}

/// *Scenario*: what an owner publishes in time is held up on its way, beyond its lease. Another replica asks anew, and Jev
/// has changed its mind. Then what was held up arrives.
/// *Guarantees*: it overwrites nothing: the newer answer stands, for both.
#[tokio::test]
async fn an_answer_that_arrives_after_its_lease_overwrites_nothing() {
    const NAME: &str = "shop.orders";
    let mut group = Group::start(0, Setup::hasty()).await;
    let proxy = Proxy::before(group.redis.entrance()).await.unwrap();
    let port = proxy.address().port();
    group
        .add(|options| options.settings.coordination.as_mut().unwrap().port = port)
        .await;
    group.add(|_| ()).await;
    let message = message(&[NAME]);
    group.jev.judge().set(NAME, Opinion::with_keep(0.9));
    group
        .jev
        .script()
        .once(Behaviour::slow(std::time::Duration::from_millis(300)));
    group.replicas[0].deliver(&message).await;
    group.jev_is_asked(1).await;
    proxy.set(Passage::Held);
    let published = poll::eventually("a publication on its way", WITHIN, async || {
        let series = "jevmetrics_coordination_round_trips_total{script=\"publish\"}";
        match group.replicas[0].count(series).await {
            0 => Err("none"),
            _ => Ok(()),
        }
    });
    published.await.unwrap();
    group.jev.judge().set(NAME, Opinion::with_keep(0.1));
    group.replicas[1].drops(&message).await;
    let stored = group.evidence().await.publications;
    assert_eq!(stored.len(), 1, "{stored:?}");

    proxy.set(Passage::Open);
    group.replicas[0].drops(&message).await;
    assert_eq!(
        group.evidence().await.publications,
        stored,
        "nobody has written since"
    );
    assert_eq!(group.asked(), 2);
    group.finish().await;
}

/// *Scenario*: the only place is held by a replica that is killed; another one wants to ask about something else.
/// *Guarantees*: the place is free when the lease is over, not before.
#[tokio::test]
async fn the_place_of_a_killed_owner_is_free_after_its_lease() {
    let mut group = Group::start(2, Setup::hasty()).await;
    group.jev.script().once(Behaviour::Silent);
    group.replicas[0].deliver(&message(&["shop.a"])).await;
    group.jev_is_asked(1).await;
    let mut killed = group.replicas.remove(0);
    killed.plane.kill().await.unwrap();
    group.replicas[0].learn(&message(&["shop.b"]), 1).await;
    let evidence = group.evidence().await;
    let [first, second] = evidence.admissions.as_slice() else {
        panic!("{evidence:?}");
    };
    assert_eq!(first.returned, None);
    assert!(second.at >= first.ends, "{evidence:?}");
    println!(
        "the place was taken {} ms after the lease",
        second.at - first.ends
    );
    group.finish().await;
}

/// *Scenario*: as before, with a long lease, and the replica is told to stop.
/// *Guarantees*: it gives its place back at once, and ends well.
#[tokio::test]
async fn the_place_of_a_stopped_owner_is_free_at_once() {
    let budget = Budget {
        lease_ttl_seconds: 600,
        ..SHORT
    };
    let setup = Setup {
        budget,
        question: 300_000,
        ..Setup::default()
    };
    let mut group = Group::start(2, setup).await;
    group.jev.script().once(Behaviour::Silent);
    group.replicas[0].deliver(&message(&["shop.a"])).await;
    group.jev_is_asked(1).await;
    let locks = group.replicas[0].plane.member().await.unwrap().leader_locks;
    assert_eq!(locks.len(), 1, "the lease is told in the heartbeat");
    let mut stopped = group.replicas.remove(0);
    stopped.plane.signal("TERM").await.unwrap();
    assert!(stopped.plane.wait(WITHIN).await.unwrap().success());
    group.replicas[0].learn(&message(&["shop.b"]), 1).await;
    let evidence = group.evidence().await;
    let [first, second] = evidence.admissions.as_slice() else {
        panic!("{evidence:?}");
    };
    let returned = first.returned.expect("given back");
    assert!(second.at >= returned && second.at < first.ends, "{evidence:?}");
    println!("given back after {} ms of a lease of 600 s", returned - first.at);
    assert!(evidence.cooldowns.is_empty(), "that was no failure of Jev");
    group.finish().await;
}

/// *Scenario*: a replica is killed while it asks, and nobody else is there; a new one comes.
/// *Guarantees*: the instrument is asked about when the lease is over, and known to the new one.
#[tokio::test]
async fn a_killed_owner_leaves_its_question_to_others() {
    let mut group = Group::start(1, Setup::hasty()).await;
    let message = message(&["shop.a"]);
    group.jev.script().once(Behaviour::Silent);
    group.replicas[0].deliver(&message).await;
    group.jev_is_asked(1).await;
    group.replicas.remove(0).plane.kill().await.unwrap();
    group.add(|_| ()).await.learn(&message, 1).await;
    assert_eq!(group.asked(), 2);
    group.finish().await;
}
