//! The data plane's two files as it reads them: settings, fixed for a process, and the live policy.
//!
//! Optional fields left at `None` are left out, so that the data plane's own defaults count.

use std::net::SocketAddr;
use std::path::PathBuf;

use jevmetrics_api::routing::RoutingTable;
use serde::Serialize;

use super::coordination::{Budget, Coordination};
use super::tls::{ClientTls, Peer, ServerTls};

/// The settings file.
#[derive(Debug, Clone, Serialize)]
pub struct SettingsFile {
    /// Version of this layout.
    pub schema: u32,
    /// Free text of the user; part of the assessment version.
    pub revision: String,
    /// Where it listens.
    pub listen: Listen,
    /// Where the live policy is.
    pub live: Live,
    /// How other pods are spoken with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
    /// Limits of what comes in.
    pub ingest: Ingest,
    /// Where it goes.
    pub export: Export,
    /// Who judges.
    pub inference: Inference,
    /// With whom assessments and a budget are shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordination: Option<Coordination>,
}

/// `listen`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Listen {
    /// OTLP over gRPC.
    pub grpc: SocketAddr,
    /// OTLP over HTTP.
    pub http: SocketAddr,
    /// Other pods and the operator.
    pub peer: SocketAddr,
    /// Metrics and probes.
    pub metrics: SocketAddr,
    /// Pages for people.
    pub admin: SocketAddr,
}

/// `live`.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Live {
    /// A file.
    File {
        /// Its path; an empty one is filled in.
        file: PathBuf,
    },
    /// A `ConfigMap` read through the Kubernetes API.
    Object {
        /// Which.
        object: LiveObject,
    },
}

/// `live.object`.
#[derive(Debug, Clone, Serialize)]
pub struct LiveObject {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// `ingest`.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ingest {
    /// Bytes of a request as sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_request_bytes: Option<u64>,
    /// Bytes of a request after decompression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unpacked_bytes: Option<u64>,
    /// Connections at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    /// Age at which a connection is ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_age_seconds: Option<u32>,
    /// TLS of both ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServerTls>,
}

/// `export`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Export {
    /// `http://address:port`.
    pub endpoint: String,
    /// What it speaks.
    pub protocol: ExportProtocol,
    /// How it compresses.
    pub compression: Compression,
    /// Deadline of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_milliseconds: Option<u32>,
    /// Headers added to each request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Header>,
    /// TLS for an https endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTls>,
}

/// `export.protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ExportProtocol {
    /// gRPC.
    #[serde(rename = "GRPC")]
    Grpc,
    /// HTTP with protobuf.
    #[serde(rename = "HTTP")]
    Http,
}

/// `export.compression`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Compression {
    /// As it is.
    None,
    /// gzip.
    Gzip,
}

/// One of `export.headers`.
#[derive(Debug, Clone, Serialize)]
pub struct Header {
    /// Name.
    pub name: String,
    /// Where the value is.
    pub value: Source,
}

/// Where a secret value is.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Source {
    /// In a file.
    File {
        /// Its path.
        file: PathBuf,
    },
    /// In the environment.
    Env {
        /// The variable's name.
        env: String,
    },
}

/// `inference`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inference {
    /// Base URL with prefix.
    #[serde(rename = "baseURL")]
    pub base_url: String,
    /// Model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The key. `None` is filled in by [`super::DataPlane`] if it was given a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Source>,
    /// What identifies an instrument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// Deadline of one question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_milliseconds: Option<u32>,
    /// Questions at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// Questions that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_size: Option<u32>,
    /// Assessments kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_size: Option<u32>,
    /// Life of an assessment.
    #[serde(rename = "scoreTTLSeconds", skip_serializing_if = "Option::is_none")]
    pub score_ttl_seconds: Option<u32>,
    /// Budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second_per_replica: Option<u32>,
    /// Burst of the budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Resource attributes that the model may see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_attributes: Option<Vec<String>>,
    /// TLS for an https base URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTls>,
}

/// `inference.identity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Identity {
    /// All resource attributes.
    Complete,
    /// The allow-listed ones.
    Context,
}

/// The live file.
#[derive(Debug, Clone, Serialize)]
pub struct LiveFile {
    /// The policy.
    pub policy: Policy,
    /// The routing table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<serde_yaml::Value>,
}

/// `policy`.
#[derive(Debug, Clone, Serialize)]
pub struct Policy {
    /// Version of this layout.
    pub schema: u32,
    /// What is done with drops.
    pub mode: Mode,
    /// When something is dropped.
    pub retention: Retention,
    /// How much replicas ask together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordination: Option<Budget>,
}

/// `policy.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Mode {
    /// Everything goes on, with companions.
    Annotate,
    /// Drops are dropped.
    Reduce,
}

/// `policy.retention`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retention {
    /// Keep at or above.
    pub keep_threshold_percent: u8,
    /// Drop at or below.
    pub drop_threshold_percent: u8,
    /// Names never dropped.
    pub protected_metrics: Vec<String>,
    /// Prefixes never dropped.
    pub protected_prefixes: Vec<String>,
}

impl SettingsFile {
    /// From sink `export_endpoint` and mock `base_url`; all else at the data plane's defaults. Addresses and
    /// the live file are filled in by [`super::DataPlane`].
    pub fn new(export_endpoint: &str, base_url: &str) -> Self {
        let unset = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            schema: 1,
            revision: "1".to_owned(),
            listen: Listen {
                grpc: unset,
                http: unset,
                peer: unset,
                metrics: unset,
                admin: unset,
            },
            live: Live::File { file: PathBuf::new() },
            peer: None,
            ingest: Ingest::default(),
            export: Export {
                endpoint: export_endpoint.to_owned(),
                protocol: ExportProtocol::Grpc,
                compression: Compression::None,
                timeout_milliseconds: None,
                headers: Vec::new(),
                tls: None,
            },
            inference: Inference {
                base_url: base_url.to_owned(),
                model: None,
                api_key: None,
                identity: None,
                timeout_milliseconds: None,
                workers: None,
                queue_size: None,
                cache_size: None,
                score_ttl_seconds: None,
                requests_per_second_per_replica: None,
                burst: None,
                context_attributes: None,
                tls: None,
            },
            coordination: None,
        }
    }
}

impl LiveFile {
    /// The product's default thresholds and protection.
    pub fn new(mode: Mode) -> Self {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let retention = Retention {
            keep_threshold_percent: 70,
            drop_threshold_percent: 30,
            protected_metrics: texts(&["up"]),
            protected_prefixes: texts(&["otelcol_", "scrape_", "target_"]),
        };
        Self {
            policy: Policy {
                schema: 1,
                mode,
                retention,
                coordination: None,
            },
            routing: None,
        }
    }

    /// With this routing table.
    ///
    /// # Errors
    /// None: what is written can be read.
    pub fn with_table(mut self, table: &RoutingTable) -> Result<Self, serde_yaml::Error> {
        self.routing = Some(serde_yaml::from_str(&table.to_yaml())?);
        Ok(self)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::{Header, LiveFile, Mode, SettingsFile, Source};

    #[test]
    fn the_files_have_the_agreed_layout() {
        let mut settings = SettingsFile::new("http://127.0.0.1:1", "http://127.0.0.1:2/p");
        settings.inference.score_ttl_seconds = Some(2);
        settings.inference.api_key = Some(Source::File { file: "/k".into() });
        settings.export.headers.push(Header {
            name: "x".into(),
            value: Source::Env { env: "X".into() },
        });
        let text = serde_yaml::to_string(&settings).unwrap();
        let read: Value = serde_yaml::from_str(&text).unwrap();
        assert_eq!(read["revision"], "1");
        assert_eq!(read["listen"]["grpc"], "127.0.0.1:0");
        assert_eq!(
            read["export"],
            json!({"endpoint": "http://127.0.0.1:1", "protocol": "GRPC", "compression": "None",
                "headers": [{"name": "x", "value": {"env": "X"}}]})
        );
        assert_eq!(
            read["inference"],
            json!({"baseURL": "http://127.0.0.1:2/p", "apiKey": {"file": "/k"}, "scoreTTLSeconds": 2})
        );
        let live: Value =
            serde_yaml::from_str(&serde_yaml::to_string(&LiveFile::new(Mode::Reduce)).unwrap()).unwrap();
        assert_eq!(live["policy"]["mode"], "Reduce");
        assert_eq!(
            live["policy"]["retention"]["protectedPrefixes"],
            json!(["otelcol_", "scrape_", "target_"])
        );
    }
}
