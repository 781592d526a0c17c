//! The definition of the resource: what is committed is what the types say, and it keeps to the API conventions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod conventions;
mod generated;
