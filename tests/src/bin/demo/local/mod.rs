//! The main job on this machine alone: mock Jev, data plane and sink, metrics from the OpenTelemetry SDK's own
//! exporters and from a source that adds the data types which the SDK lacks; first in Annotate, then switched live to
//! Reduce.

mod stage;
mod traffic;

use std::time::Duration;

use jevmetrics_testkit::process::{LiveFile, Mode};

use self::stage::Stage;
use self::traffic::Traffic;
use crate::{Failure, report};

/// Exports in each mode, once every instrument is judged.
const ROUNDS: u32 = 20;

/// Plays it; gives the last line, and whether all of it holds.
pub(crate) async fn play() -> Result<(String, bool), Failure> {
    println!("1. Starting a mock of Jev, a counting OTLP backend and the data plane (mode Annotate)");
    let mut stage = Stage::start().await?;
    stage.introduce();
    let mut traffic = Traffic::start(&stage).await?;

    println!("\n2. Annotate: everything is passed on while Jev is asked about each instrument, once");
    let mut rounds = 0;
    while stage.awaiting().await? > 0 || rounds < 2 {
        traffic.round().await?;
        rounds += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("   after {rounds} exports every instrument has an answer; {ROUNDS} more exports");
    for _ in 0..ROUNDS {
        traffic.round().await?;
    }
    let annotated = stage.summary().await?;
    report::decisions(async |path| stage.admin(&path).await, traffic.names()).await?;
    report::preview(&annotated);

    println!("\n3. Reduce: one line changed in the live file, no restart");
    let switched = std::time::Instant::now();
    stage.data_plane.set_live(&LiveFile::new(Mode::Reduce))?;
    stage.wait_for_mode("reduce").await?;
    println!(
        "   in force after {:.1} s; {ROUNDS} exports",
        switched.elapsed().as_secs_f64()
    );
    let before = stage.summary().await?;
    for _ in 0..ROUNDS {
        traffic.round().await?;
    }
    let after = stage.summary().await?;
    report::savings(&before, &after);

    println!("\n4. Where to look");
    stage.show_where_to_look();
    let sent = traffic.finish().await?;
    let summary = stage.summary().await?;
    let counts = stage.sink.counts();
    stage.hold().await;
    stage.stop().await?;
    Ok(report::equation(sent, &summary, &counts))
}
