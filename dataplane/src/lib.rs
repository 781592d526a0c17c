//! The data plane: OTLP in, decisions from cached assessments, OTLP out.

pub mod args;
mod batched_io;
pub mod clock;
pub mod export;
pub mod export_headers;
mod follow;
mod grpc_timeout;
pub mod infer;
pub mod live;
pub mod member;
pub mod observe;
mod outcomes;
pub mod pipeline;
pub mod receive;
pub mod retain;
pub mod run;
pub mod secret;
mod setup;
pub mod start_error;
mod tls;
pub mod verdict;
mod wire_messages;
