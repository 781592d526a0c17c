//! OTLP metrics on raw bytes. Pure: no I/O, no async, no clock, no unsafe code.
//!
//! ```text
//! request bytes -> Walk::read -> alias of each metric -> (unknown alias: identity, summary)
//!                                                     -> splice(which to drop, which to annotate)
//!                          -> affinity key of each resource
//! ```
//!
//! What is kept leaves byte for byte as it came. What lies inside data points is not read.

pub mod affinity;
mod alias;
mod canonical;
mod check;
pub mod companion;
pub mod identity;
mod malformed;
mod shape;
mod splice;
mod structure;
pub mod summary;
mod value;
mod walk;
mod wire;

pub use alias::Keys;
pub use check::Checks;
pub use malformed::{Fault, Malformed, Place};
pub use splice::{Plan, Spliced, splice};
pub use walk::{MAX_ENTRIES, MetricRecord, Span, Walk};
