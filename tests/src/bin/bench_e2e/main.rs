//! The end-to-end benchmark: the data plane and the OpenTelemetry Collector, in turn, under the same load.
//!
//! ```text
//! core 0: generator ──OTLP/gRPC──▶ core 1: system ──OTLP/gRPC──▶ core 0: sink
//! ```
//! The primary figure is CPU time (user and system) of the system for each data point that it received. Only
//! ratios of one run are promised.
//!
//! `QUICK=1` shortens the rounds. Results go to `target/bench/summary.json` and `docs/benchmarks.md`.
//! `bench_e2e hold SYSTEM SHAPE SECONDS` keeps one system under load, for profilers.

#![allow(clippy::print_stdout, reason = "a benchmark talks to people")]

mod client;
mod cpu;
mod document;
mod hold;
mod load;
mod machine;
mod oracle;
mod plan;
mod report;
mod rounds;
mod sink;
mod system;
mod workload;

use std::process::ExitCode;
use std::time::Duration;

use jevmetrics_testkit::benchmark::is_quick;

use crate::load::Window;

/// Any failure ends the benchmark; its text is all that matters.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// As in the data plane.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// How long everything takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    rounds: usize,
    /// A measurement that others disturbed is repeated until so many were made; the quietest counts.
    tries: usize,
    /// Closed loop, at saturation.
    saturated: Window,
    /// Open loop, at a fixed rate.
    fixed: Window,
}

const FULL: Effort = Effort {
    rounds: 5,
    tries: 10,
    saturated: Window {
        warm_up: Duration::from_secs(1),
        measured: Duration::from_secs(4),
    },
    fixed: Window {
        warm_up: Duration::from_secs(1),
        measured: Duration::from_secs(6),
    },
};

const QUICK: Effort = Effort {
    rounds: 3,
    tries: 4,
    saturated: Window {
        warm_up: Duration::from_millis(500),
        measured: Duration::from_millis(1500),
    },
    fixed: Window {
        warm_up: Duration::from_millis(500),
        measured: Duration::from_secs(3),
    },
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("bench: failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<(), Failure> {
    // Children inherit it, so that a runtime in them counts one core; then they are moved to the other.
    cpu::pin(std::process::id(), cpu::HARNESS_CORE)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let is_quick = is_quick();
    match *arguments {
        [] => {
            let report = runtime.block_on(plan::run(if is_quick { QUICK } else { FULL }))?;
            report::write_summary(&report)?;
            document::write(&report, is_quick)
        }
        ["hold", system, shape, seconds] => runtime.block_on(hold::run(system, shape, seconds.parse()?)),
        _ => Err("arguments are none, or: hold ours|deciding|passthrough|collector a|b|d SECONDS".into()),
    }
}
