//! The data plane: OTLP in, decisions from cached assessments, OTLP out.

pub mod export;
mod follow;
mod grpc_timeout;
pub mod infer;
pub mod live;
pub mod receive;
pub mod retain;
pub mod secret;
pub mod verdict;
mod wire_messages;
