//! The control plane for tests, tested: what scenarios build on holds.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test says what it saw and fails where it stands"
)]

mod audit;
mod control_plane;
mod hollow;
mod leftovers;
mod workload;
