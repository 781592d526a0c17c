//! The port for other pods and the operator, and the question that is put to it.
//!
//! ```text
//! connection -> TLS? -> HTTP/2 -> Peer/Self -> heartbeat document
//! ```
//! Invariants: nothing here touches metrics or waits for anybody; what a stranger can take is bounded (places, time,
//! headers, bytes); with TLS in the settings nobody without a certificate from the CA gets as far as HTTP.

mod answer;
pub(crate) mod ask;
pub mod heartbeat;
pub mod serve;
