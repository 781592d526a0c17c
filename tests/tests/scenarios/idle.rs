//! What a process costs that does nothing.

use jevmetrics_testkit::process::Mode;

use crate::support::World;

/// What an idle process of a release build may hold, with default settings.
const MOST_MEBIBYTES: f64 = 30.0;

/// *Scenario*: a process with the default table has just become ready and sees no traffic.
/// *Guarantees*: its resident memory is printed; in a release build it is at most 30 MiB.
#[tokio::test]
async fn an_idle_process_is_small() {
    let world = World::start(Mode::Annotate).await;
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    let mebibytes = world.plane.resident_bytes().unwrap() as f64 / f64::from(1 << 20);
    println!("idle resident: {mebibytes:.1} MiB");
    if !cfg!(debug_assertions) {
        assert!(mebibytes <= MOST_MEBIBYTES, "idle resident: {mebibytes:.1} MiB");
    }
}
