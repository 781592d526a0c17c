//! What is measured, in which order.

use std::sync::Arc;
use std::time::Duration;

use jevmetrics_testkit::poll;

use crate::client::Frames;
use crate::load::{Load, Trial, try_once};
use crate::report::{Bound, PairRow, Report, Sides};
use crate::rounds::compare;
use crate::sink::Sink;
use crate::system::{self, Output, System};
use crate::workload::Workload;
use crate::{Effort, Failure};

/// Requests in flight at saturation.
pub(crate) const IN_FLIGHT: usize = 8;
/// Requests a second of the row at a fixed rate.
pub(crate) const FIXED_RATE: u32 = 200;
/// A process without load has given back what its start took.
const IDLE: Duration = Duration::from_secs(3);
/// Until every instrument has its answer.
const WARM: Duration = Duration::from_mins(1);

/// Everything, in turn.
pub(crate) async fn run(effort: Effort) -> Result<Report, Failure> {
    let (a, b, d) = (Workload::a()?, Workload::b()?, Workload::d()?);
    let collector = system::collector_binary().await?;
    let mut droppable: Vec<String> = [&a, &b, &d].iter().flat_map(|w| w.droppable.clone()).collect();
    droppable.sort();
    droppable.dedup();
    let (a, b, d) = (Arc::new(a), Arc::new(b), Arc::new(d));

    let sink = Sink::start().await?;
    let ours = System::data_plane(Output::Kept, &sink).await?;
    tokio::time::sleep(IDLE).await;
    let mut report = Report::new(effort, [("A", &a), ("B", &b), ("D", &d)]);
    report.value("rss_idle_mib", ours.resident_mib()?, Bound::at_most(30.0, 20.0));

    let theirs = System::collector(&collector, &droppable, &sink).await?;
    for workload in [&a, &b, &d] {
        settle(&ours, workload, &sink).await?;
        settle(&theirs, workload, &sink).await?;
    }
    let saturated = Trial {
        load: Load::Closed { in_flight: IN_FLIGHT },
        frames: Frames::Default,
        window: effort.saturated,
    };
    let fixed = Trial {
        load: Load::Open {
            per_second: FIXED_RATE,
        },
        window: effort.fixed,
        ..saturated
    };
    let large_frames = Trial {
        frames: Frames::Negotiated,
        ..saturated
    };
    for (key, workload, trial, bound) in [
        (
            "e2e_grpc_a_vs_filter",
            &a,
            saturated,
            Some(Bound::at_least(6.0, 9.0)),
        ),
        (
            "e2e_grpc_b_vs_filter",
            &b,
            saturated,
            Some(Bound::at_least(6.0, 9.0)),
        ),
        (
            "e2e_grpc_d_vs_filter",
            &d,
            saturated,
            Some(Bound::at_least(2.2, 3.0)),
        ),
        (
            "e2e_grpc_a_fixed_vs_filter",
            &a,
            fixed,
            Some(Bound::at_least(3.0, 4.5)),
        ),
        ("e2e_grpc_a_large_frames_vs_filter", &a, large_frames, None),
    ] {
        let pair = compare([&ours, &theirs], workload, trial, effort, &sink).await?;
        report.pair(PairRow {
            key,
            sides: Sides::OURS_AND_COLLECTOR,
            load: trial.load,
            bound,
            pair,
        });
    }

    // Ours costs what it costs only while nothing else is on its core: idle systems are ended before the next.
    drop((ours, theirs));
    let passing = System::pass_through(&sink).await?;
    let deciding = System::data_plane(Output::Whole, &sink).await?;
    settle(&passing, &a, &sink).await?;
    settle(&deciding, &a, &sink).await?;
    let pair = compare([&passing, &deciding], &a, saturated, effort, &sink).await?;
    report.pair(PairRow {
        key: "decide_overhead",
        sides: Sides::PASSING_AND_DECIDING,
        load: saturated.load,
        bound: Some(Bound::at_most(1.25, 1.15)),
        pair,
    });
    Ok(report)
}

/// Sends every request until what comes out is what must come out, and nothing waits for an assessment.
pub(crate) async fn settle(system: &System, workload: &Arc<Workload>, sink: &Sink) -> Result<(), Failure> {
    let mut last = String::new();
    let settled = poll::until_some("all decisions to be made", WARM, async || {
        match once(system, workload, sink).await {
            Ok(()) => Some(()),
            Err(error) => {
                last = error.to_string();
                None
            }
        }
    });
    let settled = settled.await;
    settled.map_err(|error| format!("{error}: {last}").into())
}

async fn once(system: &System, workload: &Arc<Workload>, sink: &Sink) -> Result<(), Failure> {
    try_once(system, workload, sink).await??;
    match system.awaiting().await? {
        0 => Ok(()),
        awaiting => Err(format!("{awaiting} instruments await an assessment").into()),
    }
}
