//! Rows `otlp_a_vs_prost` and `otlp_b_vs_prost`: the warm engine, half of the metrics dropped, against decode,
//! retain and encode with prost.

use std::hint::black_box;

use bytes::Bytes;
use jevmetrics_otlp::{Keys, Walk};
use jevmetrics_testkit::source::{Shape, shape_a, shape_b};

use crate::error::BenchError;
use crate::report::{Bound, Report};
use crate::rounds::{Effort, compare, time};
use crate::warm::{Warm, keys};
use crate::workload::Workload;
use crate::{agreement, baseline};

/// 100 metrics of 10 points.
pub(crate) fn row_a(effort: Effort, report: &mut Report) -> Result<(), BenchError> {
    row("a", shape_a(), 15.0, effort, report)
}

/// 1,000 metrics of 1 point.
pub(crate) fn row_b(effort: Effort, report: &mut Report) -> Result<(), BenchError> {
    row("b", shape_b(), 6.0, effort, report)
}

fn row(
    letter: &str,
    shape: Shape,
    floor: f64,
    effort: Effort,
    report: &mut Report,
) -> Result<(), BenchError> {
    let workload = Workload::new(shape);
    let engine = learned(&workload, shape, &workload.droppable)?;
    agreement::check(&engine, &workload)?;
    let mut ours = || {
        each(&workload.requests, |request| {
            engine.process(request).map(drop_output)
        })
    };
    let mut theirs = || {
        each(&workload.requests, |request| {
            black_box(baseline::process(request, &workload.droppable)?);
            Ok(())
        })
    };
    let paired = compare(effort, &mut ours, &mut theirs)?;
    report.ratio(&format!("otlp_{letter}_vs_prost"), Bound::AtLeast(floor), paired);
    if let Some(paired) = paired {
        report.speed(&format!("engine_{letter}"), paired.first, &workload);
        report.speed(&format!("prost_{letter}"), paired.second, &workload);
    }
    shares(letter, shape, &workload, effort, report)
}

/// What the parts of the engine take: reading alone, reading and deciding (nothing to write).
fn shares(
    letter: &str,
    shape: Shape,
    workload: &Workload,
    effort: Effort,
    report: &mut Report,
) -> Result<(), BenchError> {
    let (mut walk, keys): (Walk, Keys) = (Walk::default(), keys());
    let mut reads = || {
        each(&workload.requests, |request| {
            walk.read(request, &keys)?;
            black_box(walk.metrics());
            Ok(())
        })
    };
    report.speed(&format!("walk_{letter}"), time(effort, &mut reads)?, workload);
    let keeps_all = learned(workload, shape, &[].into())?;
    let mut decides = || {
        each(&workload.requests, |request| {
            keeps_all.process(request).map(drop_output)
        })
    };
    report.speed(
        &format!("keep_all_{letter}"),
        time(effort, &mut decides)?,
        workload,
    );
    Ok(())
}

fn learned(
    workload: &Workload,
    shape: Shape,
    droppable: &std::collections::HashSet<String>,
) -> Result<Warm, BenchError> {
    let engine = Warm::new(shape.metrics * workload.requests.len(), &[], &[])?;
    each(&workload.requests, |request| engine.learn(request, droppable))?;
    Ok(engine)
}

fn drop_output<T>(output: T) {
    drop(black_box(output));
}

fn each(
    requests: &[Bytes],
    mut process: impl FnMut(&Bytes) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    requests.iter().try_for_each(&mut process)
}
