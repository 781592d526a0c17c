//! Secrets that are rotated, come late or never come.

use std::path::Path;

use jevmetrics_testkit::mock_jev::Authorization;
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{ExportProtocol, Header, Mode, Source};

use crate::messages::{SMALL_METRICS, SMALL_POINTS, bytes, gauges, small};
use crate::support::{Via, WITHIN, World};

/// Replaces a file by rename, as Kubernetes does.
fn put(file: &Path, text: &str) {
    let next = file.with_extension("next");
    std::fs::write(&next, text).unwrap();
    std::fs::rename(&next, file).unwrap();
}

/// *Scenario*: Jev's key is rotated while the process runs.
/// *Guarantees*: the new key is used without a restart; no question goes out with the old one afterwards.
#[tokio::test]
async fn a_rotated_api_key_acts_without_a_restart() {
    let world = World::start(Mode::Reduce).await;
    world.learn(&small(50).next_bytes(), SMALL_METRICS).await;
    world.jev.set_key("rotated-key-7f3a");
    world.plane.set_api_key("rotated-key-7f3a\n").unwrap();
    world.logged("a new secret is in use").await;
    let request = bytes(&gauges(&["shop.debug.new", "shop.new"], 1, ""));
    world.deliver(Via::Grpc, &request).await;
    world.assessed(SMALL_METRICS + 2).await;
    let asked = world.jev.requests();
    assert_eq!(asked.len(), 2);
    assert!(
        asked
            .iter()
            .all(|request| request.authorization == Authorization::Right)
    );
    assert!(!world.plane.printed().contains("rotated-key"));
}

/// *Scenario*: the key's file is not there at the start; later it comes.
/// *Guarantees*: the process serves, keeps everything and says what is missing; once the key is there, it asks.
#[tokio::test]
async fn a_key_that_comes_later_is_used() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    let world = World::start_with(Mode::Reduce, |options| {
        options.api_key = None;
        options.settings.inference.api_key = Some(Source::File { file: file.clone() });
    })
    .await;
    let ready = world.ready().await;
    assert!(ready.contains("inference: key_missing"), "{ready}");
    assert!(
        ready.contains(&format!("secret: secret file {}: not found", file.display())),
        "{ready}"
    );
    let mut generator = small(50);
    for via in [Via::Grpc, Via::Http, Via::Grpc] {
        world.deliver(via, &generator.next_bytes()).await;
    }
    assert_eq!(world.sink.counts().accepted.others.points, 3 * SMALL_POINTS);
    assert_eq!(world.jev.counters().received, 0);
    world.logged("the model cannot be asked as configured").await;

    put(&file, jevmetrics_testkit::mock_jev::KEY);
    let begin = std::time::Instant::now();
    let dropped = poll::until_some("drops", WITHIN, async || {
        world.sink.reset();
        world.deliver(Via::Grpc, &generator.next_bytes()).await;
        (world.sink.counts().accepted.others.points == SMALL_POINTS / 2).then_some(())
    });
    dropped.await.unwrap();
    println!(
        "late key: read, asked, assessed and acted within {:?}",
        begin.elapsed()
    );
    let ready = world.ready().await;
    assert!(
        ready.contains("inference: healthy") && !ready.contains("secret:"),
        "{ready}"
    );
    world.settled().await;
}

async fn a_rotated_header_reaches_the_sink(export: ExportProtocol) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    put(&file, "Bearer first");
    let world = World::start_with(Mode::Annotate, |options| {
        options.settings.export.protocol = export;
        options.environment.push(("TENANT".to_owned(), "blue".to_owned()));
        options.settings.export.headers = vec![
            Header {
                name: "Authorization".to_owned(),
                value: Source::File { file: file.clone() },
            },
            Header {
                name: "x-tenant".to_owned(),
                value: Source::Env {
                    env: "TENANT".to_owned(),
                },
            },
        ];
    })
    .await;
    let mut generator = small(0);
    world.deliver(Via::Grpc, &generator.next_bytes()).await;
    let carries = |value: &str| {
        let received = world.sink.received();
        let headers = &received.last().unwrap().headers;
        assert!(
            headers.contains(&("x-tenant".to_owned(), "blue".to_owned())),
            "{headers:?}"
        );
        headers.contains(&("authorization".to_owned(), value.to_owned()))
    };
    assert!(carries("Bearer first"));
    put(&file, "Bearer second\n");
    let rotated = poll::until_some("the new header", WITHIN, async || {
        world.deliver(Via::Http, &generator.next_bytes()).await;
        carries("Bearer second").then_some(())
    });
    rotated.await.unwrap();

    std::fs::remove_file(&file).unwrap();
    world.logged("the last good secret stays in use").await;
    assert!(world.ready().await.contains("secret: secret file"));
    world.deliver(Via::Http, &generator.next_bytes()).await;
    assert!(carries("Bearer second"), "the last good value stays in use");
    assert!(!world.plane.printed().contains("Bearer"));
    assert_eq!(world.settled().await.failed.all(), 0);
}

/// *Scenario*: a header of exports over gRPC is rotated, then its file goes.
/// *Guarantees*: the new value reaches the sink without a restart and stays in use; no request fails.
#[tokio::test]
async fn a_rotated_export_header_acts_over_grpc() {
    a_rotated_header_reaches_the_sink(ExportProtocol::Grpc).await;
}

/// *Scenario*: a header of exports over HTTP is rotated, then its file goes.
/// *Guarantees*: the new value reaches the sink without a restart and stays in use; no request fails.
#[tokio::test]
async fn a_rotated_export_header_acts_over_http() {
    a_rotated_header_reaches_the_sink(ExportProtocol::Http).await;
}
