//! The one TLS provider of this process.

/// Makes ring the TLS provider. Harmless when called again; must come before any HTTP client is built, for reqwest is
/// built without a provider of its own.
pub(crate) fn install_provider() {
    // An error means that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
