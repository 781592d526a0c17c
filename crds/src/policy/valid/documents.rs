//! What pods read, made of a spec. What the user left out is left out.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::super::{ClientAuthentication, ClientTls, Compression, Identity, JevMetricsPolicySpec, Protocol};
use super::secrets::{self, SecretFile};
use crate::live::Budget;
use crate::settings::SCHEMA;

/// Fields of `coordination` that act without a rollout.
const BUDGET: [&str; 3] = ["leaseTTLSeconds", "maxInFlight", "requestsPerSecond"];

/// The settings file. `shared` is the name under which pods share.
pub(super) fn settings(namespace: &str, name: &str, shared: &str, spec: &JevMetricsPolicySpec) -> String {
    let mut document = json!({
        "schema": SCHEMA,
        "revision": spec.revision,
        "live": {"object": {"namespace": namespace, "name": live_name(name)}},
        "export": export(spec),
    });
    for (section, fields) in [
        ("ingest", ingest(spec)),
        ("inference", inference(spec)),
        ("coordination", coordination(shared, spec)),
        ("peer", peer(spec)),
    ] {
        if !fields.is_empty() {
            document[section] = Value::Object(fields);
        }
    }
    yaml(&document)
}

/// The key `policy` of the live object, as far as the user has spoken of it.
pub(super) fn live(spec: &JevMetricsPolicySpec) -> Value {
    let mut document = json!({"schema": SCHEMA, "mode": spec.mode});
    let mut budget = fields(&spec.coordination);
    budget.retain(|name, _| BUDGET.contains(&name.as_str()));
    for (section, fields) in [("retention", fields(&spec.retention)), ("coordination", budget)] {
        if !fields.is_empty() {
            document[section] = Value::Object(fields);
        }
    }
    document
}

/// `live` with all of `budget` as that of this generation, if it has one. Written out, for pods that know other defaults
/// must not take it for another budget of the same generation.
pub(super) fn with_budget(mut live: Value, budget: &Budget, generation: u32) -> Value {
    live["coordination"] = json!({
        "leaseTTLSeconds": budget.lease().as_secs(),
        "maxInFlight": budget.max_in_flight(),
        "requestsPerSecond": budget.requests_per_second(),
    });
    if generation > 0 {
        live["coordination"]["generation"] = json!(generation);
    }
    live
}

/// The name of the live object of the policy with this name.
pub fn live_name(policy: &str) -> String {
    format!("{policy}-live")
}

/// The path in a spec of what stands at `path` in a document.
pub(super) fn path_in_spec(path: &str) -> String {
    let path = path.strip_prefix("policy.").unwrap_or(path);
    match path.strip_suffix(".value") {
        Some(header) if header.starts_with("export.headers[") => format!("{header}.secretKeyRef"),
        _ if path == "coordination.password" => "coordination.passwordSecretRef".to_owned(),
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
        let files = client(tls, secrets::EXPORT_AUTHORITY, secrets::EXPORT_CLIENT);
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

/// All but the budget, which is in the live object.
fn coordination(shared: &str, spec: &JevMetricsPolicySpec) -> Map<String, Value> {
    let mut fields = fields(&spec.coordination);
    let Some(coordination) = &spec.coordination else {
        return fields;
    };
    fields.retain(|name, _| !BUDGET.contains(&name.as_str()));
    fields.insert("namespace".to_owned(), json!(shared));
    fields.remove("passwordSecretRef");
    if coordination.password_secret_ref.is_some() {
        let file = path(secrets::COORDINATION_PASSWORD, SecretFile::Value);
        fields.insert("password".to_owned(), json!({"file": file}));
    }
    if let Some(tls) = &coordination.tls {
        let files = client(tls, secrets::COORDINATION_AUTHORITY, secrets::COORDINATION_CLIENT);
        fields.insert("tls".to_owned(), files);
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

/// TLS towards a server.
fn client(tls: &ClientTls, authority: &str, shown: &str) -> Value {
    let mut files = match tls.client_secret_name {
        Some(_) => pair(shown),
        None => json!({}),
    };
    if tls.ca_secret_ref.is_some() {
        files["caFile"] = path(authority, SecretFile::Value);
    }
    if let Some(name) = &tls.server_name {
        files["serverName"] = json!(name);
    }
    files
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

pub(super) fn yaml(document: &Value) -> String {
    // Plain text, numbers and lists cannot fail; what is empty would not validate.
    serde_yaml::to_string(document).unwrap_or_default()
}
