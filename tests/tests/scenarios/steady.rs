//! A steady load of numbered points through the data plane: what the source was told is what the sink has.

use std::time::Duration;

use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::Mode;
use jevmetrics_testkit::sink::{Answer, Refusal};
use jevmetrics_testkit::steady::{Comparison, Counts, Options, Protocol, Retry, Steady};

use crate::support::{WITHIN, World};

const SOURCES: usize = 2;
const METRICS: usize = 10;

fn options(endpoint: &str, protocol: Protocol) -> Options {
    Options {
        protocol,
        requests_per_second: 200.0,
        metrics: METRICS,
        sources: SOURCES,
        connections: 2,
        retry: Retry {
            first: Duration::from_millis(20),
            most: Duration::from_millis(100),
            ..Retry::default()
        },
        ..Options::new(endpoint)
    }
}

/// A load that runs until it is stopped, and all of whose instruments are assessed.
async fn assessed_load(world: &World, protocol: Protocol) -> Steady {
    let endpoint = match protocol {
        Protocol::Grpc => world.plane.grpc_endpoint(),
        Protocol::Http => world.plane.http_endpoint(),
    };
    let load = Steady::start(options(&endpoint, protocol)).unwrap();
    let sent = || load.counts().requests >= SOURCES as u64;
    poll::until("an export of each source", WITHIN, sent)
        .await
        .unwrap();
    world.assessed((SOURCES * METRICS) as u64).await;
    load.pause();
    let idle = || load.counts().in_flight == 0;
    poll::until("the end of what is in flight", WITHIN, idle)
        .await
        .unwrap();
    load
}

/// Goes on until the script is played, and a while longer.
async fn play(world: &World, load: &Steady) -> Counts {
    load.resume();
    let played = || world.sink.script().queued() == 0;
    poll::until("the end of the script", WITHIN, played)
        .await
        .unwrap();
    let enough = load.counts().requests + 50;
    poll::until("more exports", WITHIN, || load.counts().requests >= enough)
        .await
        .unwrap();
    load.stop().await
}

/// *Scenario*: a load in Reduce, over either protocol, while the backend refuses some requests, delays some, and takes
/// some without its answer getting through.
/// *Guarantees*: no export fails beyond its retries; of instruments to be kept every point that was acknowledged is in
/// the sink, and no other; what came twice is exactly what the backend took and denied.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_source_was_told_is_what_the_sink_has() {
    for protocol in [Protocol::Grpc, Protocol::Http] {
        let world = World::start(Mode::Reduce).await;
        let load = assessed_load(&world, protocol).await;
        let later = Answer::Refuse(Refusal::temporary("later"));
        let full = Refusal::overloaded("full").after(Duration::from_millis(30));
        let late = Answer::Delay(Duration::from_millis(50), Box::new(Answer::Accept));
        let script = world.sink.script();
        script.times(6, &later);
        script.times(20, &late);
        script.times(3, &Answer::Refuse(full));
        script.times(4, &Answer::AcceptThen(Box::new(later)));
        let told = play(&world, &load).await;
        assert_eq!((told.failed_exports, told.rejected), (0, 0), "{told:?}");
        assert_eq!(told.retries, 6 + 3 + 4, "{told:?}");
        assert_eq!(told.points_acknowledged, told.requests * METRICS as u64);

        let found = Comparison::new(&told, &world.sink.ledger());
        println!("{protocol:?}: {found}");
        assert!(found.is_complete(), "{found}");
        assert_eq!(
            (found.acknowledged, found.unconfirmed),
            (told.points_acknowledged / 2, 0)
        );
        // Of each denied request, the half that is kept.
        assert_eq!(found.duplicates, 4 * METRICS as u64 / 2, "{found}");
        let kept = |name: &String| told.kept_instruments.contains(name);
        assert!(found.doubled.keys().all(|(_, name)| kept(name)), "{found:?}");
        let equation = world.settled().await;
        let accepted = world.sink.counts().accepted.others.points;
        assert_eq!(equation.exported + found.duplicates, accepted, "{equation:?}");
        assert!(equation.dropped > 0, "{equation:?}");
    }
}

/// *Scenario*: the backend ends its connections again and again under load, with requests in flight on them.
/// *Guarantees*: every point that was acknowledged is in the sink, and the source fails in nothing.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_break_under_load_lose_nothing() {
    for protocol in [Protocol::Grpc, Protocol::Http] {
        let world = World::start(Mode::Annotate).await;
        let load = assessed_load(&world, protocol).await;
        let late = Answer::Delay(Duration::from_millis(20), Box::new(Answer::Accept));
        for _ in 0..5 {
            world.sink.script().times(10, &late);
            world.sink.script().once(Answer::Close);
        }
        let told = play(&world, &load).await;
        assert_eq!(
            (told.failed_exports, told.points_acknowledged),
            (0, told.points_sent),
            "{told:?}"
        );
        let found = Comparison::new(&told, &world.sink.ledger());
        println!("{protocol:?}: retries={} {found}", told.retries);
        assert!(found.is_complete() && found.unconfirmed == 0, "{found}");
        // In Annotate what may be dropped arrives as well.
        assert_eq!(
            found.acknowledged + found.droppable_delivered,
            told.points_sent,
            "{found}"
        );
    }
}

/// *Scenario*: the backend is away for longer than an export may take.
/// *Guarantees*: the source says that those exports failed, and nothing is lost that it does not know of.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_that_outlives_retries_is_seen_as_failed_exports() {
    let world = World::start(Mode::Annotate).await;
    let mut options = options(&world.plane.grpc_endpoint(), Protocol::Grpc);
    options.retry.give_up = Duration::from_millis(100);
    let away = Answer::Refuse(Refusal::temporary("away"));
    world.sink.script().always(away);
    let load = Steady::start(options).unwrap();
    poll::until("exports given up", WITHIN, || load.counts().failed_exports >= 5)
        .await
        .unwrap();
    world.sink.script().always(Answer::Accept);
    poll::until("exports that arrive", WITHIN, || {
        load.counts().points_acknowledged > 0
    })
    .await
    .unwrap();
    let told = load.stop().await;
    assert!(told.failed_exports >= 5, "{told:?}");
    assert_eq!(
        told.points_acknowledged + told.points_failed,
        told.points_sent,
        "{told:?}"
    );
    let found = Comparison::new(&told, &world.sink.ledger());
    assert!(found.is_complete() && found.unconfirmed == 0, "{found}");
    let failed: u64 = told.sources.values().map(|source| source.failed.count()).sum();
    assert_eq!(failed, told.failed_exports);
}
