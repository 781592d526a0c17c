//! What is no fault, or not at once: scripts that are forgotten, answers that come late.

use std::time::{Duration, Instant};

use jevmetrics_testkit::mock_jev::Behaviour;
use jevmetrics_testkit::poll;
use jevmetrics_testkit::redis::Passage;

use super::super::group::{Group, Setup, droppable, message};
use super::super::replica::{Replica, WITHIN};
use super::{HASTY, STEADY, is_skipped, loaded, more_exports, nothing_lost, reappeared};

/// *Scenario*: Redis forgets all scripts, again and again, while new instruments come.
/// *Guarantees*: nobody notices.
#[tokio::test(flavor = "multi_thread")]
async fn scripts_flushed_under_load_are_not_noticed() {
    if is_skipped() {
        return;
    }
    let (group, loads) = loaded(5_000).await;
    let before = reappeared(&group, &loads);
    for round in 0..20 {
        group.redis.flush_scripts().await.unwrap();
        let message = message(&droppable(&format!("round.{round}"), 5));
        group.learn(&message, 5).await;
    }
    for replica in &group.replicas {
        replica.is("healthy").await;
        assert_eq!(troubles(replica).await, Vec::<String>::new());
    }
    assert_eq!(reappeared(&group, &loads), before);
    nothing_lost(&group, &loads).await;
    group.finish().await;
}

/// What was wrong with calls so far, by its series.
async fn troubles(replica: &Replica) -> Vec<String> {
    let scrape = replica.plane.scrape().await.unwrap();
    let named = scrape.into_iter();
    let mut named: Vec<String> = named
        .filter(|(name, count)| name.starts_with("jevmetrics_coordination_troubles_total") && *count > 0.0)
        .map(|(name, _)| name)
        .collect();
    named.sort_unstable();
    named
}

/// *Scenario*: every answer of Redis takes half a second, which is within its deadline.
/// *Guarantees*: new instruments are assessed, later; traffic does not notice.
#[tokio::test(flavor = "multi_thread")]
async fn redis_slow_within_its_deadline_is_used() {
    if is_skipped() {
        return;
    }
    let setup = Setup {
        call: 10_000,
        through_proxy: true,
        ..Setup::default()
    };
    let group = Group::start(2, setup).await;
    group
        .proxy
        .as_ref()
        .unwrap()
        .set(Passage::Slow(Duration::from_millis(500)));
    let message = message(&droppable("shop", 50));
    let begin = Instant::now();
    group.learn(&message, 50).await;
    println!("50 instruments known to two replicas after {:?}", begin.elapsed());
    assert_eq!(group.asked(), 50);
    for replica in &group.replicas {
        assert_eq!(troubles(replica).await, Vec::<String>::new());
    }
    group.finish().await;
}

/// *Scenario*: every answer takes longer than its deadline, in the middle of questions under way.
/// *Guarantees*: nothing is asked twice at once; when Redis is quick again all are assessed; traffic does not notice.
#[tokio::test(flavor = "multi_thread")]
async fn redis_slow_beyond_its_deadline_is_borne() {
    if is_skipped() {
        return;
    }
    let (group, loads) = loaded(HASTY).await;
    let proxy = group.proxy.as_ref().unwrap();
    group
        .jev
        .script()
        .always(Behaviour::slow(Duration::from_millis(100)));
    let message = message(&droppable("shop", 40));
    group.replicas[0].deliver(&message).await;
    group.replicas[0].is("healthy").await;
    proxy.set(Passage::Slow(Duration::from_secs(1)));
    for replica in &group.replicas {
        let named = poll::eventually("the state", WITHIN, async || {
            replica.deliver(&message).await;
            let line = replica.coordination().await;
            if line.contains("no answer in time") {
                Ok(())
            } else {
                Err(line)
            }
        });
        named.await.unwrap();
    }
    more_exports(&loads, 20).await;
    proxy.set(Passage::Open);
    let begin = Instant::now();
    group.learn(&message, STEADY as u64 + 40).await;
    println!("slow: all known again after {:?}", begin.elapsed());
    nothing_lost(&group, &loads).await;
    group.finish().await;
}
