//! What the crate promises of OTLP on raw bytes, with prost as the judge.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss
)]

mod affinity;
mod build;
mod companions;
mod cost;
mod identity_golden;
mod identity_properties;
mod identity_random;
mod invalid_identity;
mod merge;
mod read;
mod refusal;
mod splice;
mod splice_property;
mod summary;
mod wire;
