//! Which Secrets a policy uses, and where pods find them.

use super::super::{ClientAuthentication, ClientTls, JevMetricsPolicySpec, SecretKeyRef};

pub(super) const API_KEY: &str = "api-key";
pub(super) const INGEST: &str = "ingest-tls";
pub(super) const EXPORT_AUTHORITY: &str = "export-ca";
pub(super) const EXPORT_CLIENT: &str = "export-tls";
pub(super) const INFERENCE_AUTHORITY: &str = "inference-ca";
pub(super) const COORDINATION_PASSWORD: &str = "coordination-password";
pub(super) const COORDINATION_AUTHORITY: &str = "coordination-ca";
pub(super) const COORDINATION_CLIENT: &str = "coordination-tls";
pub(super) const PEER: &str = "peer-tls";

/// The volume of the value of a header.
pub(super) fn header(index: usize) -> String {
    format!("header-{index}")
}

/// Where a volume is mounted.
pub(super) fn directory(volume: &str) -> String {
    format!("/etc/jevmetrics/{volume}")
}

/// A Secret that pods mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretUse {
    field: String,
    volume: String,
    name: String,
    items: Vec<(String, SecretFile)>,
    is_required: bool,
}

/// A file that is made of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretFile {
    /// Whatever the key of a [`SecretKeyRef`] holds.
    Value,
    Certificate,
    Key,
    Authority,
}

impl SecretFile {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Certificate => "tls.crt",
            Self::Key => "tls.key",
            Self::Authority => "ca.crt",
        }
    }
}

impl SecretUse {
    /// The field of the policy that names it.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The name of its volume.
    pub fn volume(&self) -> &str {
        &self.volume
    }

    /// Where pods see it.
    pub fn directory(&self) -> String {
        directory(&self.volume)
    }

    /// The name of the Secret.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Keys that are used, with the names of their files.
    pub fn items(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.items.iter().map(|(key, file)| (key.as_str(), file.name()))
    }

    /// Whether pods wait for it; otherwise they start without it.
    pub fn is_required(&self) -> bool {
        self.is_required
    }

    fn value(field: &str, volume: &str, reference: &SecretKeyRef) -> Self {
        Self {
            field: field.to_owned(),
            volume: volume.to_owned(),
            name: reference.name.clone(),
            items: vec![(reference.key.clone(), SecretFile::Value)],
            is_required: true,
        }
    }

    /// Without it the pod serves, keeps everything and says so.
    fn optional(field: &str, volume: &str, reference: &SecretKeyRef) -> Self {
        Self {
            is_required: false,
            ..Self::value(field, volume, reference)
        }
    }

    fn pair(field: &str, volume: &str, name: &str, with_authority: bool) -> Self {
        let mut files = vec![SecretFile::Certificate, SecretFile::Key];
        files.extend(with_authority.then_some(SecretFile::Authority));
        Self {
            field: field.to_owned(),
            volume: volume.to_owned(),
            name: name.to_owned(),
            items: files
                .into_iter()
                .map(|file| (file.name().to_owned(), file))
                .collect(),
            is_required: true,
        }
    }
}

/// Every Secret that `spec` names, in the order of its fields.
pub(super) fn used(spec: &JevMetricsPolicySpec) -> Vec<SecretUse> {
    let mut used = Vec::new();
    if let Some(tls) = spec.ingest.as_ref().and_then(|ingest| ingest.tls.as_ref()) {
        let with_authority = tls.client_authentication == ClientAuthentication::Require;
        let field = "spec.ingest.tls.secretName";
        used.push(SecretUse::pair(field, INGEST, &tls.secret_name, with_authority));
    }
    for (index, of) in spec.export.headers.iter().enumerate() {
        let field = format!("spec.export.headers[{index}].secretKeyRef");
        used.push(SecretUse::value(&field, &header(index), &of.secret_key_ref));
    }
    if let Some(tls) = &spec.export.tls {
        used.extend(client("spec.export.tls", tls, [EXPORT_AUTHORITY, EXPORT_CLIENT]));
    }
    if let Some(inference) = &spec.inference {
        if let Some(reference) = &inference.api_key_secret_ref {
            used.push(SecretUse::optional(
                "spec.inference.apiKeySecretRef",
                API_KEY,
                reference,
            ));
        }
        if let Some(tls) = &inference.tls {
            let field = "spec.inference.tls.caSecretRef";
            used.push(SecretUse::value(field, INFERENCE_AUTHORITY, &tls.ca_secret_ref));
        }
    }
    if let Some(coordination) = &spec.coordination {
        if let Some(reference) = &coordination.password_secret_ref {
            let field = "spec.coordination.passwordSecretRef";
            used.push(SecretUse::optional(field, COORDINATION_PASSWORD, reference));
        }
        if let Some(tls) = &coordination.tls {
            let volumes = [COORDINATION_AUTHORITY, COORDINATION_CLIENT];
            used.extend(client("spec.coordination.tls", tls, volumes));
        }
    }
    if let Some(tls) = spec.routing.as_ref().and_then(|routing| routing.tls.as_ref()) {
        used.push(SecretUse::pair(
            "spec.routing.tls.secretName",
            PEER,
            &tls.secret_name,
            true,
        ));
    }
    used
}

/// Those of TLS towards a server, with the volumes of its authorities and of the pair that is shown to it.
fn client(path: &str, tls: &ClientTls, [authority, pair]: [&str; 2]) -> Vec<SecretUse> {
    let reference = tls.ca_secret_ref.as_ref();
    let name = tls.client_secret_name.as_ref();
    let authority =
        reference.map(|reference| SecretUse::value(&format!("{path}.caSecretRef"), authority, reference));
    let pair = name.map(|name| SecretUse::pair(&format!("{path}.clientSecretName"), pair, name, false));
    authority.into_iter().chain(pair).collect()
}
