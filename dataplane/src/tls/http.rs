//! HTTP clients over TLS that follow their files: a client keeps the configuration it was built with, so new files
//! make a new client. Requests on their way end on the old one.

use std::sync::Arc;

use reqwest::{Client, ClientBuilder};

use super::{HTTP2_OR_1, TlsError, TlsFiles, TlsProblem, Watched, client};

/// Whom requests are sent with.
#[derive(Debug, Clone)]
pub enum Clients {
    /// Always this one.
    Fixed(Client),
    /// The one of the last good files.
    Following(WatchedHttp),
}

/// A client that follows its files.
pub type WatchedHttp = Arc<Watched<Client>>;

impl Clients {
    /// The client for the next request.
    pub fn get(&self) -> Client {
        match self {
            Self::Fixed(client) => client.clone(),
            Self::Following(watched) => watched.get(),
        }
    }
}

/// Reads the files; `build` sets up everything but TLS.
///
/// # Errors
/// See [`client::load`].
pub fn load(
    files: TlsFiles,
    build: impl Fn() -> ClientBuilder + Send + Sync + 'static,
) -> Result<WatchedHttp, TlsError> {
    Watched::load(files, move |material| {
        let configuration = client::configuration(material, HTTP2_OR_1)?;
        let client = build().tls_backend_preconfigured(configuration).build();
        client.map_err(|error| TlsProblem::Unusable(crate::root_cause::root_cause(&error)))
    })
}
