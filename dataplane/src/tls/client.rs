//! The side that connects.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Material, Stream, TlsError, TlsFiles, TlsProblem, Watched, protocols, provider};

/// What is connected with; follows its files.
pub type WatchedClient = Arc<Watched<Arc<ClientConfig>>>;

/// Reads the files of a client. Without roots among them, those of the system are trusted.
///
/// # Errors
/// See [`Watched::load`]; also if the system has no roots while they are needed.
pub fn load(files: TlsFiles, protocols: &'static [&'static [u8]]) -> Result<WatchedClient, TlsError> {
    Watched::load(files, move |material| {
        configuration(material, protocols).map(Arc::new)
    })
}

/// What `material` makes of a client.
pub(crate) fn configuration(material: &Material, names: &[&[u8]]) -> Result<ClientConfig, TlsProblem> {
    let unusable = |error: rustls::Error| TlsProblem::Unusable(error.to_string());
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match material.roots()? {
        Some(roots) => builder.with_root_certificates(roots),
        None => builder.with_platform_verifier().map_err(unusable)?,
    };
    let mut configuration = match material.pair()? {
        Some((chain, key)) => builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| material.refused_pair(&error))?,
        None => builder.with_no_client_auth(),
    };
    configuration.alpn_protocols = protocols(names);
    Ok(configuration)
}

/// Agrees with a server that must be `name`. Whoever calls bounds the time.
pub(crate) async fn connect(
    client: &WatchedClient,
    name: ServerName<'static>,
    stream: TcpStream,
) -> io::Result<Stream> {
    let stream = TlsConnector::from(client.get()).connect(name, stream).await?;
    Ok(Stream::Tls(Box::new(stream.into())))
}
