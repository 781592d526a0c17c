//! The data plane: OTLP in, decisions from cached assessments, OTLP out.

mod follow;
pub mod infer;
pub mod live;
pub mod retain;
pub mod secret;
pub mod verdict;
