//! The data plane: OTLP in, decisions from cached assessments, OTLP out.

pub mod infer;
pub mod retain;
pub mod verdict;
