//! Scenarios over the real process: sources, data plane as a child process, mock Jev, sink.
//!
//! Each test says its *Scenario* and what it *Guarantees*. Nothing waits for a condition by sleeping, and no
//! time is asserted: times are printed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test says what it saw and fails where it stands"
)]

mod bad_input;
mod decisions;
mod downstream;
mod idle;
mod jev_trouble;
mod live;
mod live_object;
mod log_trouble;
mod memory;
mod messages;
mod pages;
mod peer;
mod routing_table;
mod sdk;
mod secrets;
mod start;
mod steady;
mod stop;
mod support;
mod tls;
mod wire;
