//! The HTTP client of this kit: no redirects, so that a test sees them.

use std::sync::Once;

/// Installs the TLS provider: reqwest asks for one even where only plain HTTP is spoken.
pub(crate) fn install_tls_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error says that somebody in this process installed one before: as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// A client for plain HTTP on loopback.
pub(crate) fn build() -> reqwest::Result<reqwest::Client> {
    install_tls_provider();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        // No system certificates are needed, and a bare container has none.
        .tls_certs_only([])
        .build()
}
