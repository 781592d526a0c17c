//! The product on a real node, installed by its chart: images, probes, drains, rollouts under load.
//!
//! Runs in the sandbox alone: `make e2e`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test says what it saw and fails where it stands"
)]

mod chart;
mod coordination;
mod disturbance;
mod members;
mod node;
mod person;
mod pods;
mod probes;
mod rollout;
mod secrets;
mod serve;
mod site;
mod traffic;
mod watch;
