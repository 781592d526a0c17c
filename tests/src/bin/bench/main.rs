//! The in-process benchmarks: the engine against plain prost, and what its cost must not depend on.
//!
//! ```text
//! workload ──▶ engine  (warm, Reduce, half of the metrics dropped)
//!         └──▶ prost   (decode, retain, encode)          rows ──▶ table, target/bench/summary.json
//! ```
//! One thread, one process, one run: only ratios are promised. What a floor says is printed beside what was
//! measured; a row whose measurements disagree with themselves is not shown.
//!
//! `QUICK=1` shortens the rounds. `BENCH_ALLOW_MISSING=1` accepts that valgrind is missing.

mod agreement;
mod baseline;
mod error;
mod identities;
mod memory;
mod report;
mod rounds;
mod rules;
mod versus_prost;
mod warm;
mod workload;

use std::process::ExitCode;

use jevmetrics_testkit::benchmark::is_quick;

use crate::error::BenchError;
use crate::report::Report;
use crate::rounds::Effort;

/// As in the data plane.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        [] => bench(),
        ["instructions", "--rules", rules, "--iterations", iterations] => {
            rules::run_counted(rules, iterations).map(|()| ExitCode::SUCCESS)
        }
        _ => Err(BenchError::Arguments(arguments.join(" "))),
    };
    outcome.unwrap_or_else(|error| {
        report::complain(&error);
        ExitCode::FAILURE
    })
}

fn bench() -> Result<ExitCode, BenchError> {
    let effort = if is_quick() { Effort::QUICK } else { Effort::FULL };
    let mut report = Report::new(effort);
    versus_prost::row_a(effort, &mut report)?;
    versus_prost::row_b(effort, &mut report)?;
    identities::run(effort, &mut report)?;
    let is_complete = rules::run(&mut report)?;
    report.write_summary()?;
    let may_miss = std::env::var_os("BENCH_ALLOW_MISSING").is_some_and(|value| value == "1");
    Ok(if is_complete || may_miss {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
