//! Stopping: what was acknowledged is downstream, whatever happens to the process and to senders.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use jevmetrics_testkit::mock_jev::Behaviour;
use jevmetrics_testkit::otlp::metrics;
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::Mode;
use jevmetrics_testkit::sink::{Answer, Sink};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use tokio::task::JoinSet;

use crate::messages::{bytes, gauges};
use crate::support::{BOTH, Senders, Via, WITHIN, World};

fn slow(milliseconds: u64) -> Answer {
    Answer::Delay(Duration::from_millis(milliseconds), Box::new(Answer::Accept))
}

/// Three points that all carry `number`.
fn numbered(number: i64) -> Bytes {
    bytes(&gauges(&["shop.a", "shop.b", "shop.c"], number, ""))
}

/// How many points of each number the sink has.
fn numbers(sink: &Sink) -> BTreeMap<i64, usize> {
    let mut numbers = BTreeMap::new();
    for request in sink.received() {
        for metric in metrics(&request.message) {
            let Some(Data::Gauge(gauge)) = &metric.data else {
                panic!("{metric:?}")
            };
            let Some(Value::AsInt(number)) = gauge.data_points[0].value else {
                panic!("{gauge:?}")
            };
            *numbers.entry(number).or_default() += 1;
        }
    }
    numbers
}

/// What one sender saw.
#[derive(Default)]
struct Seen {
    acknowledged: Vec<i64>,
    failed: Vec<i64>,
}

/// Sends one numbered request after the other until one fails.
async fn send_until_told_otherwise(senders: Senders, via: Via, next: Arc<AtomicI64>) -> Seen {
    let mut seen = Seen::default();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let told = senders.send(via, &numbered(number)).await;
        if told.is_accepted() {
            seen.acknowledged.push(number);
        } else {
            assert!(!told.is_permanent(), "nobody may be told to give up: {told:?}");
            seen.failed.push(number);
            return seen;
        }
    }
}

/// *Scenario*: SIGTERM while eight senders send in closed loops over gRPC and HTTP to a sink that takes its time.
/// *Guarantees*: every acknowledged point is in the sink exactly once, what is there beside them had a sender that saw
/// an error, nobody is told to give up, and the process ends with status 0.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_under_load_loses_nothing_that_was_acknowledged() {
    let mut world = World::start(Mode::Annotate).await;
    world.jev.script().always(Behaviour::Silent);
    world.sink.script().always(slow(15));
    let next = Arc::new(AtomicI64::new(0));
    let mut senders = JoinSet::new();
    for index in 0..8 {
        // Connections of its own for each.
        let own = Senders::to(&world.plane);
        senders.spawn(send_until_told_otherwise(own, BOTH[index % 2], Arc::clone(&next)));
    }
    poll::until("traffic", WITHIN, || world.sink.counts().accepted.requests > 100)
        .await
        .unwrap();
    let begin = Instant::now();
    world.plane.signal("TERM").await.unwrap();
    let status = world.plane.wait(WITHIN).await.unwrap();
    println!("stopped under load within {:?}", begin.elapsed());
    assert_eq!(status.code(), Some(0), "{}", world.plane.printed());

    let seen = senders.join_all().await;
    let acknowledged: Vec<i64> = seen.iter().flat_map(|seen| &seen.acknowledged).copied().collect();
    let failed: Vec<i64> = seen.iter().flat_map(|seen| &seen.failed).copied().collect();
    let mut arrived = numbers(&world.sink);
    println!(
        "{} acknowledged, {} failed, {} arrived",
        acknowledged.len(),
        failed.len(),
        arrived.len()
    );
    for number in &acknowledged {
        assert_eq!(
            arrived.remove(number),
            Some(3),
            "request {number} was acknowledged"
        );
    }
    for (number, points) in arrived {
        assert!(
            failed.contains(&number) && points == 3,
            "request {number}: {points} points"
        );
    }
    assert!(world.lines("drained").len() == 1, "{}", world.plane.printed());
}

/// Waits until a request is under way downstream.
async fn under_way(sink: &Sink, requests: u64) {
    poll::until("a request under way", WITHIN, || {
        sink.counts().arrived >= requests
    })
    .await
    .unwrap();
}

/// Waits until readiness is gone.
async fn draining(world: &World) -> String {
    let seen = poll::until_some("not ready", WITHIN, async || {
        let (status, body) = world.plane.get("/readyz").await.unwrap();
        (status == 503).then_some(body)
    });
    seen.await.unwrap()
}

/// *Scenario*: SIGTERM while requests over gRPC and HTTP wait for a slow downstream.
/// *Guarantees*: readiness is gone while they finish, liveness stays, both are accepted, new connections are not
/// taken, and the process ends with status 0.
#[tokio::test]
async fn requests_under_way_finish_while_the_process_is_not_ready() {
    let mut world = World::start(Mode::Annotate).await;
    world.sink.script().always(slow(1_500));
    let mut sending = JoinSet::new();
    for via in BOTH {
        let senders = world.senders.clone();
        sending.spawn(async move { senders.send(via, &numbered(1)).await });
    }
    under_way(&world.sink, 2).await;
    world.plane.signal("TERM").await.unwrap();
    assert!(draining(&world).await.starts_with("draining\n"));
    assert_eq!(world.plane.get("/livez").await.unwrap().0, 200);
    let refused = poll::until_some("a refused connection", WITHIN, async || {
        tokio::net::TcpStream::connect(world.plane.listen().grpc)
            .await
            .is_err()
            .then_some(())
    });
    refused.await.unwrap();
    for told in sending.join_all().await {
        assert!(told.is_accepted(), "{told:?}");
    }
    let status = world.plane.wait(WITHIN).await.unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(world.sink.counts().accepted.requests, 2);
}

/// *Scenario*: SIGTERM while downstream hangs, then a second signal.
/// *Guarantees*: the process does not wait for the minute that exports may take; the sender sees an error and may
/// send again; the exit code tells it from a stop in good order.
#[tokio::test]
async fn a_second_signal_ends_at_once() {
    for second in ["TERM", "INT"] {
        let mut world = World::start_with(Mode::Annotate, |options| {
            options.settings.export.timeout_milliseconds = Some(600_000);
        })
        .await;
        world.sink.script().always(Answer::Hang);
        let mut sending = JoinSet::new();
        for via in BOTH {
            let senders = world.senders.clone();
            sending.spawn(async move { senders.send(via, &numbered(1)).await });
        }
        under_way(&world.sink, 2).await;
        world.plane.signal("TERM").await.unwrap();
        draining(&world).await;
        let begin = Instant::now();
        world.plane.signal(second).await.unwrap();
        let status = world.plane.wait(WITHIN).await.unwrap();
        println!("second signal {second}: ended within {:?}", begin.elapsed());
        // Not a clean stop, and whoever started it can see that.
        assert_eq!(status.code(), Some(1), "{}", world.plane.printed());
        assert_eq!(world.lines("second signal").len(), 1);
        for told in sending.join_all().await {
            assert!(!told.is_accepted() && !told.is_permanent(), "{told:?}");
        }
    }
}

/// *Scenario*: senders go away while downstream still thinks.
/// *Guarantees*: their points are counted as failed, abandoned; the equation holds and others are served.
#[tokio::test]
async fn a_sender_that_disconnects_is_counted_as_abandoned() {
    let world = World::start(Mode::Annotate).await;
    world.jev.script().always(Behaviour::Silent);
    world.sink.script().times(2, &Answer::Hang);
    for (index, via) in BOTH.into_iter().enumerate() {
        // Connections of its own, which end with it.
        let senders = Senders::to(&world.plane);
        let sending = tokio::spawn(async move { senders.send(via, &numbered(1)).await });
        under_way(&world.sink, index as u64 + 1).await;
        sending.abort();
        let counted = poll::until_some("abandoned points", WITHIN, async || {
            (world.equation().await.failed.abandoned == 3 * (index as u64 + 1)).then_some(())
        });
        counted.await.unwrap_or_else(|error| panic!("{via:?}: {error}"));
    }
    for via in BOTH {
        world.deliver(via, &numbered(2)).await;
    }
    let equation = world.settled().await;
    assert_eq!(
        (equation.received, equation.exported, equation.failed.abandoned),
        (12, 6, 6)
    );
}
