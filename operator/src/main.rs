//! Runs a data plane for every `JevMetricsPolicy`.

use std::process::ExitCode;

use clap::Parser as _;

/// As in the data plane.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    jevmetrics_operator::main(jevmetrics_operator::args::Arguments::parse())
}
