//! The data plane: OTLP in, decisions from cached assessments, OTLP out.

mod accept;
pub mod args;
#[cfg(test)]
mod asking_tests;
mod batched_io;
mod chance;
pub mod clock;
pub mod cluster;
pub mod coordinate;
pub mod export;
pub mod export_headers;
mod follow;
mod following;
mod grpc_timeout;
pub mod infer;
mod listeners;
pub mod live;
pub mod member;
pub mod observe;
mod outcomes;
pub mod peer;
pub mod pipeline;
pub mod receive;
pub mod retain;
mod room;
mod root_cause;
pub mod routing;
pub mod run;
pub mod secret;
mod setup;
mod signals;
pub mod start_error;
#[cfg(test)]
mod test_identity;
pub mod tls;
pub mod verdict;
mod wire_messages;
