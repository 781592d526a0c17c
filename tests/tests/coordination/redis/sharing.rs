//! One replica asks, all know; the group has one budget.

use std::time::{Duration, Instant};

use jevmetrics_testkit::mock_jev::Behaviour;
use jevmetrics_testkit::process::Budget;
use jevmetrics_testkit::redis;
use jevmetrics_testkit::source::{Generator, Shape};

use super::evidence::{assert_asked_by_admission, assert_kept_to};
use super::group::{AMPLE, Group, Setup, distinct, droppable, message};
use super::replica::WITHIN;

/// *Scenario*: five replicas, each of which gets the same 1,000 instruments.
/// *Guarantees*: Jev is asked 1,000 times; all decide alike; at no moment more leases, and in no second of Redis more
/// admissions than the budget has.
#[tokio::test(flavor = "multi_thread")]
async fn five_replicas_ask_about_a_thousand_instruments_once() {
    const INSTRUMENTS: u64 = 1_000;
    let group = Group::start(5, Setup::default()).await;
    group
        .jev
        .script()
        .always(Behaviour::slow(Duration::from_millis(20)));
    let shape = Shape {
        metrics: 1_000,
        points: 1,
        resources: 1,
        scopes: 1,
        droppable_percent: 50,
    };
    let message = Generator::new(shape, 1).next_bytes();
    let begin = Instant::now();
    group.learn(&message, INSTRUMENTS).await;
    println!("five replicas know 1,000 instruments after {:?}", begin.elapsed());
    assert_eq!(group.asked(), INSTRUMENTS);
    for replica in &group.replicas {
        assert_eq!(replica.kept_of(&message).await, INSTRUMENTS / 2);
    }
    let evidence = group.evidence().await;
    assert_eq!(evidence.admissions.len() as u64, INSTRUMENTS);
    assert_eq!(evidence.publications.len() as u64, INSTRUMENTS);
    assert!(evidence.processes().len() > 1, "one alone does not ask for all");
    let (mut answered, mut found) = (0, 0);
    for replica in &group.replicas {
        answered += replica.count("jevmetrics_score_success_total").await;
        found += replica.count("jevmetrics_score_shared_total").await;
    }
    assert_eq!(answered, INSTRUMENTS);
    // What was looked up without a place in the queue is not among them.
    assert!((1..=4 * INSTRUMENTS).contains(&found), "{found}");
    group.finish().await;
}

/// *Scenario*: three replicas on a small budget; some questions fail, some are cut off by a replica that stops.
/// *Guarantees*: what failed and what was cancelled counts like the rest: nothing beyond the budget is asked.
#[tokio::test(flavor = "multi_thread")]
async fn what_fails_and_what_is_cancelled_counts_in_the_budget() {
    let budget = Budget {
        max_in_flight: 3,
        requests_per_second: 20,
        ..AMPLE
    };
    let mut group = Group::start(
        3,
        Setup {
            budget,
            ..Setup::default()
        },
    )
    .await;
    let script = group.jev.script();
    let slow = |behaviour| Behaviour::Slow(Duration::from_millis(100), Box::new(behaviour));
    for failure in [
        Behaviour::internal_error(),
        Behaviour::overloaded(),
        Behaviour::Truncated,
    ] {
        script.times(15, &slow(Behaviour::Answer));
        script.once(failure);
    }
    script.always(slow(Behaviour::Answer));
    let names = droppable("shop", 100);
    let message = message(&names);
    for replica in &group.replicas {
        replica.deliver(&message).await;
    }
    jevmetrics_testkit::poll::until("half of the questions", WITHIN, || {
        group.asked() >= 40 && group.jev.counters().in_flight > 0
    })
    .await
    .unwrap();
    let mut stopped = group.replicas.remove(0);
    stopped.plane.signal("TERM").await.unwrap();
    assert!(stopped.plane.wait(WITHIN).await.unwrap().success());
    group.learn(&message, 100).await;
    assert_eq!(distinct(group.asked_about()).len(), 100);
    let evidence = group.evidence().await;
    assert_asked_by_admission(&evidence, group.asked());
    assert!(evidence.cooldowns.len() >= 3, "{:?}", evidence.cooldowns);
    assert!(
        evidence
            .admissions
            .iter()
            .all(|admission| admission.returned.is_some())
    );
    assert_kept_to(&evidence, &[budget]);
    group.finish().await;
}

/// *Scenario*: a replica is given another namespace than its user may touch.
/// *Guarantees*: it is told what it lacks, asks nothing and writes nothing; the others share on.
#[tokio::test]
async fn a_user_reaches_no_other_namespace() {
    let group = Group::start(2, Setup::default()).await;
    let message = message(&droppable("shop", 5));
    let other = group
        .separate(|options| {
            let coordination = options.settings.coordination.as_mut().unwrap();
            coordination.namespace = "tests/other".to_owned();
        })
        .await;
    let named = jevmetrics_testkit::poll::eventually("the missing right", WITHIN, async || {
        assert_eq!(other.kept_of(&message).await, 5);
        let line = other.coordination().await;
        if line.contains("lacks a right") {
            Ok(())
        } else {
            Err(line)
        }
    });
    named.await.unwrap();
    assert_eq!(group.asked(), 0);
    group.learn(&message, 5).await;
    assert_eq!(other.kept_of(&message).await, 5);
    other.settled().await;
    group.finish().await;
}

/// *Scenario*: a server that evicts when it is full; the user may ask for that, and then may not.
/// *Guarantees*: the heartbeat says so if it can be known; sharing works either way.
#[tokio::test]
async fn a_server_that_evicts_is_told_by_who_may_ask() {
    let setup = || Setup {
        redis: redis::Options {
            eviction_policy: "allkeys-lru",
            ..redis::Options::default()
        },
        ..Setup::default()
    };
    for (may_ask, told) in [(true, Some("allkeys-lru")), (false, None)] {
        let group = Group::start(0, setup()).await;
        if may_ask {
            group.redis.change_user(&["+info"]).await.unwrap();
        }
        let message = message(&droppable("shop", 3));
        let replica = group.separate(|_| ()).await;
        replica.learn(&message, 3).await;
        let report = replica.plane.member().await.unwrap().coordination.unwrap();
        // What somebody else's server does is his.
        if redis::own_server().is_ok() {
            assert_eq!(report.eviction_policy.as_deref(), told);
        }
        assert_eq!(report.namespace, group.redis.namespace());
        group.finish().await;
    }
}

/// *Scenario*: a replica stops, one is killed, and others take their places.
/// *Guarantees*: the new ones find what is shared; Jev is not asked again.
#[tokio::test]
async fn a_restart_asks_nothing_again() {
    let mut group = Group::start(2, Setup::default()).await;
    let message = message(&droppable("shop", 20));
    group.learn(&message, 20).await;
    assert_eq!(group.asked(), 20);
    group.replicas[0].plane.signal("TERM").await.unwrap();
    group.replicas[0].plane.wait(WITHIN).await.unwrap();
    group.replicas[1].plane.kill().await.unwrap();
    group.replicas.clear();
    for _ in 0..2 {
        let begin = Instant::now();
        let replica = group.add(|_| ()).await;
        replica.learn(&message, 20).await;
        println!("a new replica drops {:?} after its start", begin.elapsed());
        assert_eq!(replica.kept_of(&message).await, 0);
        assert_eq!(
            replica
                .count("jevmetrics_coordination_lookups_total{result=\"hit\"}")
                .await,
            20
        );
    }
    assert_eq!(group.asked(), 20);
    group.finish().await;
}
