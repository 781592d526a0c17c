//! What tests, the demo and benchmarks put around the data plane: a mock of Jev ([`mock_jev`]), an OTLP
//! backend that counts ([`sink`]), OTLP clients and generated metrics ([`source`]), and the data plane as a
//! child process ([`process`]). What tests put around the operator: a Kubernetes control plane and nodes without
//! containers ([`cluster`]). For what lies around both: authorities and certificates ([`certificates`]), TLS in
//! between ([`tls_proxy`]), a Kubernetes API server of one object ([`fake_api`]), and the operator's question
//! ([`peer`]). And what benchmarks share ([`benchmark`]).
//!
//! ```text
//! source ──OTLP──▶ process (data plane) ──OTLP──▶ sink
//!                      └──HTTP──▶ mock_jev
//! ```
//!
//! Invariants: everything listens on loopback at a free port; nothing here knows the data
//! plane's code, only its protocols and its settings file; what is scripted happens exactly once per entry.

pub mod benchmark;
pub mod certificates;
pub mod cluster;
pub mod fake_api;
mod http_client;
mod listener;
mod memory;
pub mod mock_jev;
pub mod otlp;
pub mod peer;
pub mod poll;
mod ports;
pub mod process;
mod raw_codec;
pub mod rpc;
pub mod script;
pub mod self_server;
pub mod sink;
pub mod source;
pub mod tls_proxy;
mod truncated;
