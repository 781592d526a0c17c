//! A log that cannot be written: its reader is gone, its disk is full.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{LiveFile, Mode, find_binary};

use crate::messages::{SMALL_METRICS, SMALL_POINTS, small};
use crate::support::{Via, WITHIN, World};

/// *Scenario*: standard error takes nothing, from the start to the end.
/// *Guarantees*: only the lines are lost: instruments are judged, the live switch acts, the stop is graceful.
#[tokio::test]
async fn lost_log_lines_harm_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let binary = directory.path().join("with-a-full-log");
    let script = format!(
        "#!/bin/sh\nexec '{}' \"$@\" 2>/dev/full\n",
        find_binary().unwrap().display()
    );
    fs::write(&binary, script).unwrap();
    fs::set_permissions(&binary, Permissions::from_mode(0o755)).unwrap();
    let mut world = World::start_with(Mode::Reduce, |options| options.binary = Some(binary)).await;

    let mut generator = small(50);
    world.learn(&generator.next_bytes(), SMALL_METRICS).await;
    world.sink.reset();
    world.deliver(Via::Grpc, &generator.next_bytes()).await;
    assert_eq!(world.sink.counts().accepted.others.points, SMALL_POINTS / 2);

    world.plane.set_live(&LiveFile::new(Mode::Annotate)).unwrap();
    let acted = poll::until_some("Annotate", WITHIN, async || {
        world.sink.reset();
        world.deliver(Via::Http, &generator.next_bytes()).await;
        (world.sink.counts().accepted.others.points == SMALL_POINTS).then_some(())
    });
    acted.await.unwrap();

    world.plane.signal("TERM").await.unwrap();
    assert_eq!(world.plane.wait(WITHIN).await.unwrap().code(), Some(0));
    assert_eq!(world.plane.printed(), "");
}
