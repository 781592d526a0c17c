//! Replicas that share assessments and a budget over a real Redis: several data planes as child processes, mock Jev, a
//! sink for each, and what the scripts in Redis have recorded with its time.
//!
//! Each test says its *Scenario* and what it *Guarantees*. No time is asserted but those that the protocol promises, by
//! the clock of Redis; others are printed. Every scenario ends with a look at the keys and the budget.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test says what it saw and fails where it stands"
)]

mod redis;
mod structure;
