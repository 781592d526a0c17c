//! The live file: what acts within seconds, without a restart and without asking anything again.

use std::time::{Duration, Instant};

use bytes::Bytes;
use jevmetrics_testkit::otlp::is_companion;
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{LiveFile, Mode};
use jevmetrics_testkit::source::Generator;
use prost::Message as _;

use crate::messages::{SMALL_METRICS, SMALL_POINTS, attribute, small};
use crate::support::{Via, WITHIN, World};

/// A world in `Reduce` that has assessed [`small`]`(50)`: half of its points are dropped.
async fn reducing() -> (World, Generator) {
    let world = World::start(Mode::Reduce).await;
    let mut generator = small(50);
    world.learn(&generator.next_bytes(), SMALL_METRICS).await;
    assert_eq!(kept(&world, &mut generator).await, SMALL_POINTS / 2);
    (world, generator)
}

/// Points that arrive of one request, companions apart.
async fn kept(world: &World, generator: &mut Generator) -> u64 {
    world.sink.reset();
    world.deliver(Via::Grpc, &generator.next_bytes()).await;
    world.sink.counts().accepted.others.points
}

/// Waits until this many points are kept, shows that it stays so, and prints how long it took.
async fn acts(what: &str, world: &World, generator: &mut Generator, points: u64) {
    let begin = Instant::now();
    let acted = poll::until_some(what, WITHIN, async || {
        (kept(world, generator).await == points).then_some(())
    });
    acted.await.unwrap();
    println!("{what}: acted within {:?}", begin.elapsed());
    for _ in 0..10 {
        assert_eq!(kept(world, generator).await, points, "{what}");
    }
    assert_eq!(world.jev.requests().len(), 0, "{what}: no assessment was lost");
}

/// *Scenario*: `Reduce` becomes `Annotate`, and `Reduce` again.
/// *Guarantees*: no drop after it acts, companions from the same process, assessments kept.
#[tokio::test]
async fn the_mode_acts_without_a_restart() {
    let (world, mut generator) = reducing().await;
    world.plane.set_live(&LiveFile::new(Mode::Annotate)).unwrap();
    acts("Annotate", &world, &mut generator, SMALL_POINTS).await;
    let received = world.sink.received();
    let companions = received
        .iter()
        .flat_map(|request| jevmetrics_testkit::otlp::metrics(&request.message));
    let mut companions = companions.filter(|metric| is_companion(&metric.name));
    let Some(opentelemetry_proto::tonic::metrics::v1::metric::Data::Gauge(gauge)) =
        companions.next().and_then(|metric| metric.data.clone())
    else {
        panic!("no companions");
    };
    let id = attribute(&gauge.data_points[0].attributes, "jev.collector.id")
        .unwrap()
        .to_owned();
    let started = world.logged("collector_id=").await;
    assert!(started.contains(&id), "the process is the one that started");

    world.plane.set_live(&LiveFile::new(Mode::Reduce)).unwrap();
    acts("Reduce", &world, &mut generator, SMALL_POINTS / 2).await;
    world.logged_times("a new policy is in force", 3).await;
    world.settled().await;
}

/// *Scenario*: the drop threshold goes down to 0, so that what was dropped is uncertain, and up again.
/// *Guarantees*: no drop after it acts; assessments are kept.
#[tokio::test]
async fn a_threshold_acts_without_a_restart() {
    let (world, mut generator) = reducing().await;
    let mut live = LiveFile::new(Mode::Reduce);
    live.policy.retention.drop_threshold_percent = 0;
    world.plane.set_live(&live).unwrap();
    acts("threshold 0", &world, &mut generator, SMALL_POINTS).await;
    world.plane.set_live(&LiveFile::new(Mode::Reduce)).unwrap();
    acts("threshold 30", &world, &mut generator, SMALL_POINTS / 2).await;
    world.settled().await;
}

/// *Scenario*: one dropped name is protected, then a prefix that covers all.
/// *Guarantees*: exactly what is protected comes back; assessments are kept.
#[tokio::test]
async fn protection_acts_without_a_restart() {
    let (world, mut generator) = reducing().await;
    let name = generator.droppable_names().remove(0);
    let mut live = LiveFile::new(Mode::Reduce);
    live.policy.retention.protected_metrics.push(name.clone());
    world.plane.set_live(&live).unwrap();
    acts(
        "one more protected name",
        &world,
        &mut generator,
        SMALL_POINTS / 2 + 2,
    )
    .await;
    assert_eq!(world.sink.counts().accepted.points_of(&name), 2);
    assert_eq!(world.decision(&name).await["reason"], "protected");

    let prefixes = generator
        .names()
        .iter()
        .map(|name| name[..1].to_owned())
        .collect();
    live.policy.retention.protected_prefixes = prefixes;
    world.plane.set_live(&live).unwrap();
    acts("protected prefixes", &world, &mut generator, SMALL_POINTS).await;
    world.settled().await;
}

/// Waits until `/readyz` says this of the live file.
async fn said(world: &World, text: &str) {
    let said = poll::until_some(text, WITHIN, async || {
        world.ready().await.contains(text).then_some(())
    });
    said.await.unwrap();
}

/// *Scenario*: the live file becomes broken, then unknown fields are in it, then it is removed, then it is good.
/// *Guarantees*: the last good policy stays in force all the time; page and log say what is wrong, once each and
/// without text from the file; good content acts again.
#[tokio::test]
async fn a_broken_or_removed_live_file_leaves_the_last_good_policy_in_force() {
    let (world, mut generator) = reducing().await;
    for (text, said_of_it) in [
        ("policy: {schema: 1, mode: Annotate", "not readable as YAML"),
        (
            "policy: {schema: 1, mode: Annotate, retension: hunter2}\n",
            "policy.retension: is not known here",
        ),
        (
            "policy: {schema: 1, mode: hunter2}\n",
            "policy.mode: must be Annotate or Reduce",
        ),
        ("", "policy.schema: must be given"),
    ] {
        world.plane.set_live_text(text).unwrap();
        said(&world, said_of_it).await;
        assert!(world.ready().await.contains("live: policy in force"));
        world.logged(said_of_it).await;
        assert_eq!(kept(&world, &mut generator).await, SMALL_POINTS / 2, "{text}");
    }
    world.plane.remove_live().unwrap();
    said(&world, "not found").await;
    assert_eq!(kept(&world, &mut generator).await, SMALL_POINTS / 2);
    assert!(!(world.plane.printed() + &world.ready().await).contains("hunter2"));

    world.plane.set_live(&LiveFile::new(Mode::Annotate)).unwrap();
    acts("a good file again", &world, &mut generator, SMALL_POINTS).await;
    assert!(world.ready().await.ends_with("live: policy in force\n"));
    world.settled().await;
}

/// *Scenario*: the process starts before its live file is there; later it comes.
/// *Guarantees*: until then everything is passed on byte for byte, nothing is added and nothing is asked; then it acts.
#[tokio::test]
async fn without_a_live_file_everything_is_kept_until_it_comes() {
    let world = World::start_with(Mode::Reduce, |options| options.live = None).await;
    let mut generator = small(50);
    assert!(world.ready().await.contains("live: no policy yet"));
    let sent: Vec<Bytes> = (0..4)
        .map(|_| generator.next_request().encode_to_vec().into())
        .collect();
    for message in &sent {
        world.deliver(Via::Http, message).await;
    }
    let received: Vec<Bytes> = world
        .sink
        .received()
        .into_iter()
        .map(|request| request.raw)
        .collect();
    assert_eq!(received, sent);
    assert_eq!(world.jev.counters().received, 0);
    let waiting =
        "jevmetrics_policy_datapoints_total{mode=\"none\",decision=\"keep\",reason=\"awaiting_policy\"}";
    assert_eq!(world.count(waiting).await, 4 * SMALL_POINTS);

    world.plane.set_live(&LiveFile::new(Mode::Reduce)).unwrap();
    let begin = Instant::now();
    let acted = poll::until_some("the first policy", WITHIN, async || {
        (kept(&world, &mut generator).await == SMALL_POINTS / 2).then_some(())
    });
    acted.await.unwrap();
    println!(
        "first policy: asked, assessed and acted within {:?}",
        begin.elapsed()
    );
    assert_eq!(world.jev.counters().received, SMALL_METRICS);
    world.settled().await;
}

/// *Scenario*: the live file changes while several senders send without pause.
/// *Guarantees*: not one request fails, and each arrives either whole or reduced, never in between.
#[tokio::test]
async fn no_request_fails_while_the_policy_changes() {
    let (world, mut generator) = reducing().await;
    let message = generator.next_bytes();
    world.sink.reset();
    let end = Instant::now() + Duration::from_secs(4);
    let mut senders = tokio::task::JoinSet::new();
    for via in [Via::Grpc, Via::Http] {
        let (senders_of, message) = (world.senders.clone(), message.clone());
        senders.spawn(async move {
            let mut sent = 0_u64;
            while Instant::now() < end {
                let told = senders_of.send(via, &message).await;
                assert!(told.is_accepted(), "{told:?}");
                sent += 1;
            }
            sent
        });
    }
    world.plane.set_live(&LiveFile::new(Mode::Annotate)).unwrap();
    let sent: u64 = senders.join_all().await.into_iter().sum();
    let received = world.sink.received();
    assert_eq!(received.len() as u64, sent);
    let mut seen = [0_u64; 2];
    for request in &received {
        let metrics = jevmetrics_testkit::otlp::metrics(&request.message).count() as u64;
        match metrics {
            // Half of the instruments; or all of them and four companions each.
            5 => seen[0] += 1,
            50 => seen[1] += 1,
            other => panic!("{other} metrics in one request"),
        }
    }
    assert!(seen.iter().all(|seen| *seen > 0), "{seen:?}");
    println!("{} requests reduced, {} annotated", seen[0], seen[1]);
    world.settled().await;
}
