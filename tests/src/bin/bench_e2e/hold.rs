//! One system under load for a while, so that a profiler can look at it.

use std::sync::Arc;
use std::time::Duration;

use crate::Failure;
use crate::client::Frames;
use crate::load::{Load, Trial, Window, measure};
use crate::plan::{IN_FLIGHT, settle};
use crate::sink::Sink;
use crate::system::{self, Output, System};
use crate::workload::Workload;

pub(crate) async fn run(name: &str, shape: &str, seconds: u64) -> Result<(), Failure> {
    let workload = Arc::new(match shape {
        "a" => Workload::a()?,
        "b" => Workload::b()?,
        "d" => Workload::d()?,
        _ => return Err(format!("shape is {shape:?}, must be a, b or d").into()),
    });
    let sink = Sink::start().await?;
    let system = match name {
        "ours" => System::data_plane(Output::Kept, &sink).await?,
        "deciding" => System::data_plane(Output::Whole, &sink).await?,
        "passthrough" => System::pass_through(&sink).await?,
        "collector" => {
            System::collector(&system::collector_binary().await?, &workload.droppable, &sink).await?
        }
        _ => {
            return Err(
                format!("system is {name:?}, must be ours, deciding, passthrough or collector").into(),
            );
        }
    };
    settle(&system, &workload, &sink).await?;
    println!("pid {}", system.pid());
    let window = Window {
        warm_up: Duration::from_secs(1),
        measured: Duration::from_secs(seconds),
    };
    let trial = Trial {
        load: Load::Closed { in_flight: IN_FLIGHT },
        frames: Frames::Default,
        window,
    };
    let measured = measure(&system, &workload, trial, &sink).await?;
    println!("{measured:#?}");
    Ok(())
}
