//! Keys and certificates of one control plane.
//!
//! Invariants: one authority signs all, the API server's and its clients'; all are X.509 version 3, as rustls wants
//! them; keys are ECDSA P-256, which are made in no time.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use super::error::ClusterError;

/// A certificate and its key, as PEM.
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Who signs.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn create() -> Result<Self, ClusterError> {
        let name = "jevmetrics test authority";
        let make = || {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
            CertifiedIssuer::self_signed(params, KeyPair::generate()?)
        };
        let issuer = make().map_err(failed(name))?;
        Ok(Self { issuer })
    }

    /// The authority's certificate.
    pub(super) fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// For a server that is reached under these names and addresses.
    pub(super) fn server(&self, name: &str, reached: &[String]) -> Result<Identity, ClusterError> {
        let params = CertificateParams::new(reached).map_err(failed(name))?;
        self.sign(name, params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// For a client: Kubernetes takes the common name as the user and the organization as the group.
    pub(super) fn client(&self, user: &str, group: Option<&str>) -> Result<Identity, ClusterError> {
        let mut params = CertificateParams::default();
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        self.sign(user, params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        name: &str,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity, ClusterError> {
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(failed(name))?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed(name))?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// Signs the tokens of service accounts.
pub(super) struct SigningKey {
    pub(super) private: String,
    pub(super) public: String,
}

impl SigningKey {
    pub(super) fn create() -> Result<Self, ClusterError> {
        let key = KeyPair::generate().map_err(failed("service accounts"))?;
        Ok(Self {
            private: key.serialize_pem(),
            public: key.public_key_pem(),
        })
    }
}

fn failed(subject: &str) -> impl Fn(rcgen::Error) -> ClusterError {
    move |source| ClusterError::Certificate {
        subject: subject.to_owned(),
        source,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn identities_differ_and_are_pem() {
        let authority = Authority::create().unwrap();
        let one = authority.client("one", Some("group")).unwrap();
        let other = authority.client("other", None).unwrap();
        assert!(one.certificate.starts_with("-----BEGIN CERTIFICATE-----"));
        assert!(one.key.starts_with("-----BEGIN PRIVATE KEY-----"));
        assert_ne!(one.key, other.key);
        let server = authority.server("server", &["127.0.0.1".to_owned(), "localhost".to_owned()]);
        assert_ne!(server.unwrap().certificate, authority.certificate());
    }
}
