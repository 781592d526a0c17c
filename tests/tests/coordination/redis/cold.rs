//! Many instruments at once: a replica that knows nothing, and a queue that nobody empties.

use std::time::{Duration, Instant};

use bytes::Bytes;
use jevmetrics_testkit::mock_jev::Behaviour;
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{Budget, Options};

use super::group::{AMPLE, Group, Setup, droppable, message};
use super::replica::{Replica, WITHIN};

const MANY: usize = 10_000;
/// Instruments in a message.
const PIECE: usize = 1_000;

fn messages() -> Vec<Bytes> {
    droppable("shop", MANY).chunks(PIECE).map(message).collect()
}

fn roomy(options: &mut Options) {
    options.settings.inference.cache_size = Some(20_000);
    options.settings.inference.workers = Some(32);
}

/// Sends all until all are known.
async fn learn_all(replica: &Replica, messages: &[Bytes]) {
    let learnt = poll::eventually("assessments of all", 3 * WITHIN, async || {
        for message in messages {
            replica.deliver(message).await;
        }
        match replica.identities().await {
            (known, false) if known >= MANY as u64 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    learnt.await.unwrap();
}

/// *Scenario*: one replica has learnt 10,000 instruments; a second one starts and gets them all.
/// *Guarantees*: it knows all of them after at most 100 round trips, and Jev is not asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_cold_replica_learns_ten_thousand_shared_assessments_in_a_hundred_round_trips() {
    let budget = Budget {
        max_in_flight: 64,
        requests_per_second: 10_000,
        ..AMPLE
    };
    let setup = Setup {
        budget,
        ..Setup::default()
    };
    let mut group = Group::start(0, setup).await;
    let messages = messages();
    let begin = Instant::now();
    learn_all(group.add(roomy).await, &messages).await;
    println!("{MANY} instruments asked about in {:?}", begin.elapsed());
    assert_eq!(group.asked(), MANY as u64);

    let calls = group.evidence().await.calls;
    let cold = group.add(roomy).await;
    let begin = Instant::now();
    learn_all(cold, &messages).await;
    let took = begin.elapsed();
    let trips = cold
        .count("jevmetrics_coordination_round_trips_total{script=\"lookup\"}")
        .await;
    println!("a cold replica knows {MANY} shared assessments after {took:?} and {trips} round trips");
    assert_eq!(
        cold.count("jevmetrics_coordination_round_trips_total{script=\"admit\"}")
            .await,
        0
    );
    assert!(trips <= 100, "{trips}");
    // One more may be its text.
    let called = group.evidence().await.calls - calls;
    assert!(
        (trips..=trips + 1).contains(&called),
        "{called} calls, {trips} told"
    );
    for message in &messages {
        assert_eq!(group.replicas[1].kept_of(message).await, 0);
    }
    assert_eq!(group.asked(), MANY as u64);
    group.finish().await;
}

/// *Scenario*: the only place of the budget is taken by a question that Jev does not answer; another replica gets 10,000
/// instruments that nobody knows.
/// *Guarantees*: none of its workers waits with them; what waits is bounded, and so is memory; all are kept; when the
/// place is free, asking goes on.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_that_wait_cost_no_worker_and_bounded_memory() {
    let budget = Budget {
        max_in_flight: 1,
        lease_ttl_seconds: 600,
        ..AMPLE
    };
    let setup = Setup {
        budget,
        question: 300_000,
        ..Setup::default()
    };
    let mut group = Group::start(2, setup).await;
    group.jev.script().once(Behaviour::Silent);
    group.replicas[0].deliver(&message(&["shop.slow"])).await;
    group.jev_is_asked(1).await;
    let waiting = &group.replicas[1];
    let messages = messages();
    // Room for what is seen of each instrument, which has nothing to do with waiting.
    let all = async |rounds: usize| {
        for _ in 0..rounds {
            for message in &messages {
                assert_eq!(waiting.kept_of(message).await, PIECE as u64);
            }
        }
    };
    all(2).await;
    let before = waiting.plane.resident_bytes().unwrap();
    let begin = Instant::now();
    let mut most = (0, 0);
    while begin.elapsed() < Duration::from_secs(5) {
        all(1).await;
        let asking = waiting.count("jevmetrics_inference_asking").await;
        let parked = waiting.count("jevmetrics_inference_waiting").await;
        most = (most.0.max(asking), most.1.max(parked));
    }
    let after = waiting.plane.resident_bytes().unwrap();
    println!(
        "asking={} waiting={} resident before={before} after={after}",
        most.0, most.1
    );
    assert_eq!(most.0, 0, "no worker is taken");
    assert!((1..=256).contains(&most.1), "{most:?}");
    assert!(after < before + (16 << 20), "{before} {after}");
    assert_eq!(group.asked(), 1);

    group.replicas[0].plane.signal("TERM").await.unwrap();
    group.replicas[0].plane.wait(WITHIN).await.unwrap();
    group.replicas.remove(0);
    let goes_on = poll::eventually("more questions", WITHIN, async || {
        group.replicas[0].deliver(&messages[0]).await;
        match group.asked() {
            asked if asked > 20 => Ok(()),
            asked => Err(asked),
        }
    });
    goes_on.await.unwrap();
    group.finish().await;
}
