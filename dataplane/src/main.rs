//! The data plane's process.

use std::process::ExitCode;

use clap::Parser;
use jevmetrics_dataplane::args::Args;
use jevmetrics_dataplane::run::run;

/// glibc trims its heap after each large request and pays for it in page faults.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    run(&Args::parse())
}
