//! The side that is connected to.

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::{
    HANDSHAKE_TIMEOUT, Material, Stream, TlsError, TlsFiles, TlsProblem, Watched, protocols, provider,
};

/// What connections are accepted with; follows its files.
pub type WatchedServer = Arc<Watched<Arc<ServerConfig>>>;

/// Reads the files of a server. With roots among them, clients must show a certificate that comes from these.
///
/// # Errors
/// See [`Watched::load`].
pub fn load(files: TlsFiles, protocols: &'static [&'static [u8]]) -> Result<WatchedServer, TlsError> {
    Watched::load(files, move |material| configuration(material, protocols))
}

fn configuration(material: &Material, names: &[&[u8]]) -> Result<Arc<ServerConfig>, TlsProblem> {
    let unusable = |error: &dyn std::fmt::Display| TlsProblem::Unusable(error.to_string());
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?;
    let builder = match material.roots()? {
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
            builder.with_client_cert_verifier(verifier.build().map_err(|error| unusable(&error))?)
        }
        None => builder.with_no_client_auth(),
    };
    let (chain, key) = material
        .pair()?
        .ok_or_else(|| unusable(&"a certificate and a key must be given"))?;
    let mut configuration = builder
        .with_single_cert(chain, key)
        .map_err(|error| material.refused_pair(&error))?;
    configuration.alpn_protocols = protocols(names);
    Ok(Arc::new(configuration))
}

/// Agrees with a client, within [`HANDSHAKE_TIMEOUT`].
pub(crate) async fn accept(server: &WatchedServer, stream: TcpStream) -> io::Result<Stream> {
    let agreeing = TlsAcceptor::from(server.get()).accept(stream);
    let stream = timeout(HANDSHAKE_TIMEOUT, agreeing)
        .await
        .map_err(|_| io::ErrorKind::TimedOut)??;
    Ok(Stream::Tls(Box::new(stream.into())))
}
