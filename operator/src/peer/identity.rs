//! The certificate that the operator shows to pods: the pair of the peer port's Secret.

use jevmetrics_api::peer::SERVER_NAME;
use jevmetrics_api::policy::JevMetricsPolicy;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt as _};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// Why pods with a TLS peer port cannot be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum IdentityError {
    /// The Secret could not be fetched.
    #[error("failed to fetch the Secret of spec.routing.tls: {0}")]
    Fetch(#[from] Box<kube::Error>),
    /// A key is missing.
    #[error("the Secret of spec.routing.tls must have the key {0}")]
    Lacks(&'static str),
}

/// None if the peer port of `policy` speaks plain text.
pub(super) async fn client_tls(
    client: &Client,
    policy: &JevMetricsPolicy,
) -> Result<Option<ClientTlsConfig>, IdentityError> {
    let Some(tls) = policy
        .spec
        .routing
        .as_ref()
        .and_then(|routing| routing.tls.as_ref())
    else {
        return Ok(None);
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &policy.namespace().unwrap_or_default());
    let secret = secrets.get(&tls.secret_name).await.map_err(Box::new)?;
    let data = secret.data.unwrap_or_default();
    let value = |key| {
        data.get(key)
            .map(|value| &value.0)
            .ok_or(IdentityError::Lacks(key))
    };
    Ok(Some(
        ClientTlsConfig::new()
            .domain_name(SERVER_NAME)
            .ca_certificate(Certificate::from_pem(value("ca.crt")?))
            .identity(Identity::from_pem(value("tls.crt")?, value("tls.key")?)),
    ))
}
