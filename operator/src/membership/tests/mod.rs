#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod changes;
mod epochs;
mod joins;
mod random;
mod rollouts;
mod trouble;
mod world;
