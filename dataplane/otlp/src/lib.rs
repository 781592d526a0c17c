//! OTLP metrics on raw bytes. Pure: no I/O, no async, no clock, no unsafe code.
pub mod summary;
