//! How long an assessment lives, and what comes before its end.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{Identity, Options};
use jevmetrics_testkit::redis::Passage;
use jevmetrics_testkit::steady::{self, Comparison, Steady};

use super::group::{Group, Setup, droppable, message};
use super::replica::WITHIN;

/// Two replicas, the second of which learns from the first when the assessments are no more young. Jev goes away. When
/// Redis has none of them any more, neither has a replica.
async fn nothing_outlives_redis(latency: Option<Duration>, adjust: [&dyn Fn(&mut Options); 2]) {
    const COUNT: usize = 5;
    let lifetime = 10;
    let setup = Setup {
        lifetime,
        through_proxy: latency.is_some(),
        ..Setup::default()
    };
    let mut group = Group::start(0, setup).await;
    if let Some((proxy, latency)) = group.proxy.as_ref().zip(latency) {
        proxy.set(Passage::Slow(latency));
    }
    for adjust in adjust {
        group.add(|options| adjust(options)).await;
    }
    let message = message(&droppable("shop", COUNT));
    group.replicas[0].learn(&message, COUNT as u64).await;
    let left = |lives: &[(String, i64)]| lives.iter().map(|(_, life)| *life).max();
    let aged = poll::eventually("assessments that have aged", WITHIN, async || {
        let lives = group.redis.lives("score:").await.unwrap();
        match left(&lives) {
            Some(life) if life < i64::from(lifetime) * 600 => Ok(()),
            life => Err(format!("{life:?}")),
        }
    });
    aged.await.unwrap();
    group.replicas[1].learn(&message, COUNT as u64).await;
    assert_eq!(group.asked(), COUNT as u64, "the second one asks nothing");
    for replica in &group.replicas {
        assert_eq!(replica.kept_of(&message).await, 0);
    }
    // Nothing can be refreshed from here on.
    group.jev.stop().await;
    let gone = poll::eventually("the end of all assessments", WITHIN, async || {
        let lives = group.redis.lives("score:").await.unwrap();
        if lives.is_empty() {
            Ok(())
        } else {
            Err(lives.len())
        }
    });
    gone.await.unwrap();
    for replica in &group.replicas {
        assert_eq!(
            replica.kept_of(&message).await,
            COUNT as u64,
            "all are kept again"
        );
    }
    let evidence = group.evidence().await;
    assert!(
        evidence
            .publications
            .iter()
            .all(|stored| stored.life == u64::from(lifetime) * 1000),
        "{:?}",
        evidence.publications
    );
    group.finish().await;
}

/// *Scenario*: a replica takes assessments over that have lived for a while; Jev goes away; Redis is near.
/// *Guarantees*: no replica uses an assessment that has ended in Redis.
#[tokio::test]
async fn an_assessment_lives_nowhere_longer_than_in_redis() {
    nothing_outlives_redis(None, [&|_| (), &|_| ()]).await;
}

/// *Scenario*: as before, and every answer of Redis comes 300 ms late.
/// *Guarantees*: as before: the time that an answer took is no part of a life.
#[tokio::test]
async fn an_assessment_lives_no_longer_because_redis_is_slow() {
    nothing_outlives_redis(Some(Duration::from_millis(300)), [&|_| (), &|_| ()]).await;
}

/// Sets the clock of a process wrong, but for the one that measures time.
fn wrong_by(library: &std::path::Path, offset: &str) -> impl Fn(&mut Options) {
    let library = library.display().to_string();
    let offset = offset.to_owned();
    move |options| {
        for (name, value) in [
            ("LD_PRELOAD", library.as_str()),
            ("FAKETIME", &offset),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("DONT_FAKE_MONOTONIC", "1"),
        ] {
            options.environment.push((name.to_owned(), value.to_owned()));
        }
    }
}

/// Debian's libfaketime.
fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok);
    let mut found = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    found.find(|path| path.is_file())
}

/// *Scenario*: the clock of one replica is a day ahead, that of the other a day behind.
/// *Guarantees*: nothing lives longer or shorter for it.
#[tokio::test]
async fn wrong_clocks_make_no_life_longer() {
    let Some(library) = faketime() else {
        println!("skipped: wrong clocks need Debian's libfaketime");
        return;
    };
    nothing_outlives_redis(None, [&wrong_by(&library, "+1d"), &wrong_by(&library, "-1d")]).await;
}

/// *Scenario*: two replicas under a steady load for three lives of their assessments.
/// *Guarantees*: every assessment is replaced before its end, once for both; no drop reappears.
#[tokio::test(flavor = "multi_thread")]
async fn assessments_in_use_are_replaced_before_they_end_once_for_the_group() {
    const LIFETIME: u32 = 10;
    const INSTRUMENTS: usize = 10;
    let setup = Setup {
        lifetime: LIFETIME,
        ..Setup::default()
    };
    let mut group = Group::start(0, setup).await;
    for _ in 0..2 {
        group
            .add(|options| options.settings.inference.identity = Some(Identity::Context))
            .await;
    }
    let load = |number: usize| {
        Steady::start(steady::Options {
            requests_per_second: 20.0,
            metrics: INSTRUMENTS,
            name: format!("replica-{number}"),
            ..steady::Options::new(&group.replicas[number].plane.grpc_endpoint())
        })
        .unwrap()
    };
    let loads = [load(0), load(1)];
    for replica in &group.replicas {
        let known = poll::eventually("assessments", WITHIN, async || match replica.identities().await {
            (known, false) if known >= INSTRUMENTS as u64 => Ok(()),
            other => Err(format!("{other:?}")),
        });
        known.await.unwrap();
    }
    // What was under way when the last one was learnt has passed.
    let seen: Vec<u64> = loads.iter().map(|load| load.counts().requests + 10).collect();
    poll::until("more exports", WITHIN, || {
        loads
            .iter()
            .zip(&seen)
            .all(|(load, seen)| load.counts().requests > *seen)
    })
    .await
    .unwrap();
    let told_before = loads.each_ref().map(Steady::counts);
    let droppable_before: Vec<u64> = reappeared(&group, &told_before);
    let end = Instant::now() + Duration::from_secs(u64::from(3 * LIFETIME));
    poll::until("three lives", 2 * WITHIN, || Instant::now() >= end)
        .await
        .unwrap();
    let told = [loads[0].stop().await, loads[1].stop().await];
    assert_eq!(reappeared(&group, &told), droppable_before, "no drop reappears");
    for (told, replica) in told.iter().zip(&group.replicas) {
        let found = Comparison::new(told, &replica.sink.ledger());
        assert!(told.failed_exports == 0 && found.is_complete(), "{found}");
    }

    let evidence = group.evidence().await;
    let mut by_instrument = std::collections::BTreeMap::<&str, Vec<u64>>::new();
    for stored in &evidence.publications {
        by_instrument.entry(&stored.about).or_default().push(stored.at);
    }
    assert_eq!(by_instrument.len(), INSTRUMENTS);
    for (about, times) in &by_instrument {
        assert!(times.len() >= 4, "{about}: {times:?}");
        for pair in times.windows(2) {
            let age = pair[1] - pair[0];
            // A second one for the same life would come sooner: only what has little left is asked about, a fifth and two
            // seconds for rounding.
            assert!(
                age >= u64::from(LIFETIME) * 800 - 2_000,
                "{about}: twice within {age} ms"
            );
            assert!(age <= u64::from(LIFETIME) * 1000, "{about}: {age} ms, too late");
        }
    }
    assert_eq!(group.asked(), evidence.publications.len() as u64);
    println!(
        "{} questions about {INSTRUMENTS} instruments in three lives",
        group.asked()
    );
    group.finish().await;
}

fn reappeared(group: &Group, told: &[steady::Counts; 2]) -> Vec<u64> {
    let replicas = told.iter().zip(&group.replicas);
    replicas
        .map(|(told, replica)| Comparison::new(told, &replica.sink.ledger()).droppable_delivered)
        .collect()
}
