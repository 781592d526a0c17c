//! The data plane: OTLP in, decisions from cached assessments, OTLP out.

pub mod export;
mod grpc_timeout;
pub mod infer;
pub mod receive;
pub mod retain;
pub mod verdict;
mod wire_messages;
