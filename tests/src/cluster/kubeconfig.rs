//! Kubeconfig files: written as JSON, which is YAML.

use std::path::Path;

use serde_json::{Value, json};

/// What a user shows.
#[derive(Debug, Clone, Copy)]
pub(super) enum Credentials<'a> {
    /// Paths of PEM files.
    Certificate { certificate: &'a Path, key: &'a Path },
    /// A bearer token.
    Token(&'a str),
}

/// A file for one user of one server.
pub(super) fn kubeconfig(server: &str, authority: &Path, user: &str, credentials: Credentials<'_>) -> Value {
    let credentials = match credentials {
        Credentials::Certificate { certificate, key } => {
            json!({"client-certificate": certificate, "client-key": key})
        }
        Credentials::Token(token) => json!({"token": token}),
    };
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        "current-context": "test",
    })
}
