//! What the operator writes for a tier of Collectors in front, given to a real Collector, as it is: which data plane it
//! sends what to, and what becomes of it when one of them goes.
//!
//! ```text
//! load ─▶ Collector ─┬─▶ data plane 127.0.x.1 ─▶ sink
//!   rendered file ──▶├─▶ data plane 127.0.x.2 ─▶ sink
//!   /etc/hosts ─────▶└─▶ data plane 127.0.x.3 ─▶ sink
//! ```
//! Runs in the sandbox alone, for the names of a cluster are put into `/etc/hosts`: `make collector`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test says what it saw and fails where it stands"
)]

mod configuration;
mod hosts;
mod leaving;
mod load;
mod routes;
mod stage;
mod tier;
