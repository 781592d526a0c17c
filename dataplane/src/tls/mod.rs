//! TLS for all uses: where metrics come in, where they go out, where Jev is asked, between pods.
//!
//! ```text
//! files -> Material -> server | client configuration -> Watched -> accept | connect -> Stream
//!   ^---- looked at every second ----------------------'
//! ```
//! Invariants: files must be good at start; later, what was good last stays in use until there is something better.
//! No error, log line or `Debug` holds a byte of a file. ring is the one provider.

pub mod client;
mod files;
pub mod http;
pub mod server;
mod stream;
mod watched;

use std::time::Duration;

pub use self::files::{Material, TlsError, TlsFiles, TlsProblem};
pub use self::stream::Stream;
pub use self::watched::Watched;

/// How long the two sides may take to agree: a few round trips, and no place for somebody who stays silent.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// HTTP/2 alone, as gRPC has it.
pub(crate) const HTTP2: &[&[u8]] = &[b"h2"];
/// HTTP/2, or else HTTP/1.1.
pub(crate) const HTTP2_OR_1: &[&[u8]] = &[b"h2", b"http/1.1"];

/// Makes ring the TLS provider. Harmless when called again; must come before any HTTP client is built, for reqwest is
/// built without a provider of its own.
pub(crate) fn install_provider() {
    // An error means that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// TLS 1.2 and 1.3 with ring: rustls' own defaults.
fn provider() -> std::sync::Arc<rustls::crypto::CryptoProvider> {
    std::sync::Arc::new(rustls::crypto::ring::default_provider())
}

fn protocols(names: &[&[u8]]) -> Vec<Vec<u8>> {
    names.iter().map(|name| name.to_vec()).collect()
}

#[cfg(test)]
mod tests;
