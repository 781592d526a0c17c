//! The files of one use of TLS, and what they hold.

use std::fmt;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::follow::{ReadError, read_file};

/// The longest file: a bundle of all public roots has a quarter of it.
const MAX_FILE_BYTES: usize = 1 << 20;

/// The files of one use. All are PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The section of the settings that names them, for errors.
    pub setting: &'static str,
    /// Certificate with its chain, and private key.
    pub pair: Option<(PathBuf, PathBuf)>,
    /// Roots that the other side's certificate must come from.
    pub ca: Option<PathBuf>,
}

/// The content of the files.
#[derive(Clone, PartialEq, Eq)]
pub struct Material {
    files: TlsFiles,
    pair: Option<(Vec<u8>, Vec<u8>)>,
    ca: Option<Vec<u8>>,
}

/// Files that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct TlsError {
    setting: &'static str,
    problem: TlsProblem,
}

/// What is wrong with them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsProblem {
    /// A file cannot be read.
    #[error("file {}: {problem}", .path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why not.
        problem: ReadError,
    },
    /// A file holds something else.
    #[error("file {}: must hold {what} in PEM", .path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
    },
    /// The certificate is not that of the key, or neither is of use.
    #[error("certificate {} with key {}: {reason}", .certificate.display(), .key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// In rustls' words, which hold nothing of either.
        reason: String,
    },
    /// Nothing can be made of them.
    #[error("{0}")]
    Unusable(String),
}

impl TlsFiles {
    /// Reads all of them.
    pub(super) fn read(&self) -> Result<Material, TlsError> {
        let read = |path: &Path| {
            read_file(path, MAX_FILE_BYTES).map_err(|problem| {
                let path = path.to_owned();
                self.error(TlsProblem::Unreadable { path, problem })
            })
        };
        let pair = match &self.pair {
            Some((certificate, key)) => Some((read(certificate)?, read(key)?)),
            None => None,
        };
        let ca = self.ca.as_deref().map(read).transpose()?;
        Ok(Material {
            files: self.clone(),
            pair,
            ca,
        })
    }

    pub(super) fn error(&self, problem: TlsProblem) -> TlsError {
        let setting = self.setting;
        TlsError { setting, problem }
    }

    /// Whether there is anything to follow.
    pub(super) fn are_none(&self) -> bool {
        self.pair.is_none() && self.ca.is_none()
    }
}

/// A certificate with its chain, and its key.
pub(super) type ReadPair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Material {
    /// The pair, if there is one.
    pub(super) fn pair(&self) -> Result<Option<ReadPair>, TlsProblem> {
        let (Some((certificate, key)), Some((certificate_file, key_file))) = (&self.pair, &self.files.pair)
        else {
            return Ok(None);
        };
        let chain = certificates(certificate, certificate_file)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsProblem::Content {
            path: key_file.clone(),
            what: "one private key",
        })?;
        Ok(Some((chain, key)))
    }

    /// The roots, if there is a file of them.
    pub(super) fn roots(&self) -> Result<Option<RootCertStore>, TlsProblem> {
        let (Some(ca), Some(path)) = (&self.ca, &self.files.ca) else {
            return Ok(None);
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca, path)? {
            roots.add(certificate).map_err(|_| TlsProblem::Content {
                path: path.clone(),
                what: "certificates of authorities",
            })?;
        }
        Ok(Some(roots))
    }

    /// rustls refuses the pair.
    pub(super) fn refused_pair(&self, error: &rustls::Error) -> TlsProblem {
        let reason = error.to_string();
        match self.files.pair.clone() {
            Some((certificate, key)) => TlsProblem::Pair {
                certificate,
                key,
                reason,
            },
            None => TlsProblem::Unusable(reason),
        }
    }
}

/// Shows where the content is from and nothing of it.
impl fmt::Debug for Material {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Material").field(&self.files).finish()
    }
}

fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsProblem> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found
        .ok()
        .filter(|certificates| !certificates.is_empty())
        .ok_or_else(|| TlsProblem::Content {
            path: path.to_owned(),
            what: "certificates",
        })
}
