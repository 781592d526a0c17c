//! The chart, without a cluster: what it takes, what it makes of it, and that its documents say the same.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what it saw and fails where it stands"
)]

mod effects;
mod files;
mod notes;
mod readme;
mod refused;
mod rendered;
mod rights;
mod scope;
mod security;
mod upgrade;
mod values;
