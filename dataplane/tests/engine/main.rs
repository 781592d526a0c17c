//! The engine from bytes to bytes: what is kept, dropped, annotated, asked and counted.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod accounting;
mod chain;
mod collisions;
mod companions;
mod questions;
mod requests;
mod setup;
mod switches;
