//! The operator against a real API server, with controllers, scheduler and hollow pods.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test says what it saw and fails where it stands"
)]

mod chart;
mod coordination;
mod drift;
mod history;
mod idle;
mod inference;
mod interrupted;
mod leader;
mod lifecycle;
mod live;
mod membership;
mod outage;
mod policies;
mod real;
mod rights;
mod rollout;
mod rules;
mod scale;
mod site;
mod stage;
mod trouble;
mod voices;
