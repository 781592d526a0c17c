//! What pods read, made of a spec. What the user left out is left out.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::super::{ClientAuthentication, Compression, Identity, JevMetricsPolicySpec, Protocol};
use super::secrets::{self, SecretFile};
use crate::settings::SCHEMA;

/// The settings file.
pub(super) fn settings(namespace: &str, name: &str, spec: &JevMetricsPolicySpec) -> String {
    let mut document = json!({
        "schema": SCHEMA,
        "revision": spec.revision,
        "live": {"object": {"namespace": namespace, "name": live_name(name)}},
        "export": export(spec),
    });
    for (section, fields) in [
        ("ingest", ingest(spec)),
        ("inference", inference(spec)),
        ("peer", peer(spec)),
    ] {
        if !fields.is_empty() {
            document[section] = Value::Object(fields);
        }
    }
    yaml(&document)
}

/// The key `policy` of the live object.
pub(super) fn live(spec: &JevMetricsPolicySpec) -> String {
    let mut document = json!({"schema": SCHEMA, "mode": spec.mode});
    let retention = fields(&spec.retention);
    if !retention.is_empty() {
        document["retention"] = Value::Object(retention);
    }
    yaml(&document)
}

pub(super) fn live_name(policy: &str) -> String {
    format!("{policy}-live")
}

/// The path in a spec of what stands at `path` in a document.
pub(super) fn path_in_spec(path: &str) -> String {
    let path = path.strip_prefix("policy.").unwrap_or(path);
    match path.strip_suffix(".value") {
        Some(header) if header.starts_with("export.headers[") => format!("{header}.secretKeyRef"),
        _ => path.to_owned(),
    }
}

fn ingest(spec: &JevMetricsPolicySpec) -> Map<String, Value> {
    let mut fields = fields(&spec.ingest);
    fields.remove("service");
    if let Some(tls) = spec.ingest.as_ref().and_then(|ingest| ingest.tls.as_ref()) {
        let mut files = pair(secrets::INGEST);
        if tls.client_authentication == ClientAuthentication::Require {
            files["clientCAFile"] = path(secrets::INGEST, SecretFile::Authority);
        }
        fields.insert("tls".to_owned(), files);
    }
    fields
}

fn export(spec: &JevMetricsPolicySpec) -> Map<String, Value> {
    let mut fields = fields(&spec.export);
    leave_out(&mut fields, "protocol", &Protocol::default());
    leave_out(&mut fields, "compression", &Compression::default());
    let headers = spec.export.headers.iter().enumerate().map(|(index, header)| {
        let file = path(&secrets::header(index), SecretFile::Value);
        json!({"name": header.name, "value": {"file": file}})
    });
    if fields.contains_key("headers") {
        fields.insert("headers".to_owned(), headers.collect());
    }
    if let Some(tls) = &spec.export.tls {
        let mut files = match tls.client_secret_name {
            Some(_) => pair(secrets::EXPORT_CLIENT),
            None => json!({}),
        };
        if tls.ca_secret_ref.is_some() {
            files["caFile"] = path(secrets::EXPORT_AUTHORITY, SecretFile::Value);
        }
        if let Some(name) = &tls.server_name {
            files["serverName"] = json!(name);
        }
        fields.insert("tls".to_owned(), files);
    }
    fields
}

fn inference(spec: &JevMetricsPolicySpec) -> Map<String, Value> {
    let mut fields = fields(&spec.inference);
    let Some(inference) = &spec.inference else {
        return fields;
    };
    leave_out(&mut fields, "identity", &Identity::default());
    fields.remove("apiKeySecretRef");
    if inference.api_key_secret_ref.is_some() {
        let file = path(secrets::API_KEY, SecretFile::Value);
        fields.insert("apiKey".to_owned(), json!({"file": file}));
    }
    if inference.tls.is_some() {
        let file = path(secrets::INFERENCE_AUTHORITY, SecretFile::Value);
        fields.insert("tls".to_owned(), json!({"caFile": file}));
    }
    fields
}

fn peer(spec: &JevMetricsPolicySpec) -> Map<String, Value> {
    let mut fields = Map::new();
    if spec.routing.as_ref().is_some_and(|routing| routing.tls.is_some()) {
        let mut files = pair(secrets::PEER);
        files["caFile"] = path(secrets::PEER, SecretFile::Authority);
        fields.insert("tls".to_owned(), files);
    }
    fields
}

/// A certificate and its key.
fn pair(volume: &str) -> Value {
    json!({
        "certificateFile": path(volume, SecretFile::Certificate),
        "keyFile": path(volume, SecretFile::Key),
    })
}

fn path(volume: &str, file: SecretFile) -> Value {
    Value::String(format!("{}/{}", secrets::directory(volume), file.name()))
}

/// The API server fills in a default that a later definition brings: it must not change the settings of whoever never
/// spoke of it.
fn leave_out(fields: &mut Map<String, Value>, name: &str, default: &impl Serialize) {
    if serde_json::to_value(default).ok().as_ref() == fields.get(name) {
        fields.remove(name);
    }
}

/// The fields of a section of the spec; none if it is absent.
fn fields(section: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(section) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

fn yaml(document: &Value) -> String {
    // Plain text, numbers and lists cannot fail; what is empty would not validate.
    serde_yaml::to_string(document).unwrap_or_default()
}
