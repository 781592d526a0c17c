//! What the outside can see: metrics, health, and why an instrument is kept or dropped.

pub mod admin;
mod counters;
pub mod coverage;
pub mod flow;
pub mod health;
mod labels;
pub mod levels;
pub mod log;
pub mod pages;
pub mod sufficiency;

pub use counters::mode_label;
