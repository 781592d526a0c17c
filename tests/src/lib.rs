//! What tests, the demo and benchmarks put around the data plane: a mock of Jev ([`mock_jev`]), an OTLP
//! backend that counts ([`sink`]), OTLP clients and generated metrics ([`source`]), and the data plane as a
//! child process ([`process`]). Load that can be judged point by point ([`steady`]), and the stand-ins as processes of
//! their own ([`control`]). What tests put around the operator: a Kubernetes control plane and nodes without
//! containers ([`cluster`]), and one real node ([`node`]). For what lies around both: authorities and certificates
//! ([`certificates`]), TLS in between ([`tls_proxy`]), a Kubernetes API server of one object ([`fake_api`]), the
//! operator's question ([`peer`]), Redis ([`redis`]), and Helm ([`helm`]). And what benchmarks share ([`benchmark`]).
//!
//! ```text
//! source ──OTLP──▶ process (data plane) ──OTLP──▶ sink
//!                      └──HTTP──▶ mock_jev
//! ```
//!
//! Invariants: everything listens on loopback at a free port unless it is told where; nothing here knows the data
//! plane's code, only its protocols and its settings file; what is scripted happens exactly once per entry.

pub mod benchmark;
pub mod certificates;
pub mod cluster;
pub mod control;
pub mod fake_api;
pub mod helm;
mod http_client;
mod listener;
mod memory;
pub mod mock_jev;
pub mod node;
pub mod numbers;
pub mod otlp;
pub mod peer;
pub mod poll;
mod ports;
pub mod process;
mod raw_codec;
pub mod redis;
pub mod rpc;
pub mod script;
pub mod self_server;
mod signal;
pub mod sink;
pub mod source;
pub mod steady;
pub mod tls_proxy;
mod truncated;
