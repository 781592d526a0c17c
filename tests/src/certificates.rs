//! Authorities and certificates of tests, made anew for each.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tempfile::TempDir;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// It could not be made.
    #[error("a certificate cannot be made: {0}")]
    Made(#[from] rcgen::Error),
    /// Its file could not be written.
    #[error("the file of a certificate cannot be written: {0}")]
    File(#[from] io::Error),
    /// rustls does not take it.
    #[error("rustls refuses a certificate: {0}")]
    Refused(#[from] rustls::Error),
}

/// Signs certificates, and keeps their files in a directory of its own, which goes with it.
#[derive(Debug)]
pub struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
    directory: TempDir,
}

impl Authority {
    /// A new authority that nobody knows.
    ///
    /// # Errors
    /// No certificate, no directory.
    pub fn new() -> Result<Self, CertificateError> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        Ok(Self {
            certificate: params.self_signed(&key)?,
            issuer: Issuer::new(params, key),
            directory: tempfile::tempdir()?,
        })
    }

    /// Where [`Self::ca_file`] is put.
    pub fn ca_path(&self) -> PathBuf {
        self.directory.path().join("ca.crt")
    }

    /// Writes the authority's own certificate.
    pub fn ca_file(&self) -> PathBuf {
        let path = self.ca_path();
        replace(&path, &self.certificate.pem());
        path
    }

    /// A new pair for the host `name`, in `<file>.crt` and `<file>.key`: the certificate, then the key. Files that are
    /// there already are replaced.
    ///
    /// # Panics
    /// It cannot be made or written.
    #[allow(clippy::expect_used, reason = "for tests alone")]
    pub fn pair(&self, file: &str, name: &str) -> (PathBuf, PathBuf) {
        let (certificate, key) = self.sign(name).expect("a pair can be made");
        let path = |extension: &str| self.directory.path().join(format!("{file}.{extension}"));
        let paths = (path("crt"), path("key"));
        replace(&paths.0, &certificate.pem());
        replace(&paths.1, &key.serialize_pem());
        paths
    }

    fn sign(&self, name: &str) -> Result<(rcgen::Certificate, KeyPair), CertificateError> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new([name.to_owned()])?.signed_by(&key, &self.issuer)?;
        Ok((certificate, key))
    }

    fn roots(&self) -> Result<RootCertStore, CertificateError> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone())?;
        Ok(roots)
    }

    fn chain(
        &self,
        name: &str,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), CertificateError> {
        let (certificate, key) = self.sign(name)?;
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())
            .map_err(|_| rustls::Error::General("a key that cannot be read".to_owned()))?;
        Ok((vec![certificate.der().clone()], key))
    }

    /// A client over HTTP/2 that trusts this authority, and shows a certificate of `shown`.
    ///
    /// # Errors
    /// No certificate.
    pub fn client(&self, shown: Option<&Self>) -> Result<Arc<ClientConfig>, CertificateError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(self.roots()?);
        let mut client = match shown {
            Some(authority) => {
                let (chain, key) = authority.chain("client")?;
                builder.with_client_auth_cert(chain, key)?
            }
            None => builder.with_no_client_auth(),
        };
        client.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(client))
    }

    /// A server that is `name`, over HTTP/2 or HTTP/1.1; clients need no certificate.
    ///
    /// # Errors
    /// No certificate.
    pub fn server(&self, name: &str) -> Result<Arc<ServerConfig>, CertificateError> {
        let (chain, key) = self.chain(name)?;
        let mut server = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(server))
    }

    /// A server over HTTP/2 that is `name` and answers only clients with a certificate of this authority.
    ///
    /// # Errors
    /// No certificate.
    pub fn mutual_server(&self, name: &str) -> Result<Arc<ServerConfig>, CertificateError> {
        let (chain, key) = self.chain(name)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(self.roots()?), provider());
        let verifier = verifier
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut server = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)?;
        server.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(server))
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[allow(clippy::expect_used, reason = "for tests alone")]
fn replace(path: &Path, text: &str) {
    let next = path.with_extension("next");
    std::fs::write(&next, text).expect("a file can be written");
    std::fs::rename(&next, path).expect("a file can be renamed");
}
