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
        // Servers here end connections that were idle for 10 s: one must not be used again at that moment.
        .pool_idle_timeout(std::time::Duration::from_secs(3))
        // No system certificates are needed, and a bare container has none.
        .tls_certs_only([])
        .build()
}
