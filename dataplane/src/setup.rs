//! From settings to the parts that they describe.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use jevmetrics_api::settings;
use jevmetrics_otlp::identity::{ContextAttributes, IdentityMode};

use crate::export::grpc::GrpcExporter;
use crate::export::http::HttpExporter;
use crate::export::pack::Compression;
use crate::export::resolve::GrpcEndpoint;
use crate::export::{self, Exporter};
use crate::export_headers::ExportHeaders;
use crate::infer::client::KeySource;
use crate::infer::{Budget, InferenceConfig};
use crate::retain::assessments::Assessments;
use crate::secret::WatchedSecret;
use crate::start_error::StartError;
use crate::tls::server::WatchedServer;
use crate::tls::{self, TlsFiles};

/// Room for the raw forms of shared identities: with `Context`, every instance of a service writes its own.
const CONTEXT_ALIASES: usize = 1 << 18;
/// Connecting to downstream may take this long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn entropy() -> Result<[u64; 6], StartError> {
    let mut seeds = [0; 6];
    for seed in &mut seeds {
        *seed = getrandom::u64().map_err(StartError::Randomness)?;
    }
    Ok(seeds)
}

pub(crate) fn assessments(inference: &settings::Inference) -> Assessments {
    let aliases = match inference.identity() {
        settings::Identity::Complete => inference.cache_size(),
        settings::Identity::Context => inference.cache_size().max(CONTEXT_ALIASES),
    };
    let lifetime = u32::try_from(inference.score_ttl().as_secs()).unwrap_or(u32::MAX);
    Assessments::new(inference.cache_size(), aliases, lifetime)
}

pub(crate) fn context(inference: &settings::Inference) -> ContextAttributes {
    ContextAttributes::new(inference.context_attributes().iter().cloned())
}

pub(crate) fn identity_mode(inference: &settings::Inference) -> IdentityMode {
    match inference.identity() {
        settings::Identity::Complete => IdentityMode::Complete,
        settings::Identity::Context => IdentityMode::Context(context(inference)),
    }
}

pub(crate) fn inference_config(
    inference: &settings::Inference,
    key: Option<Arc<WatchedSecret>>,
) -> InferenceConfig {
    let key = key.map(|secret| -> KeySource {
        Arc::new(move || {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", secret.get()?.expose())).ok()?;
            value.set_sensitive(true);
            Some(value)
        })
    });
    InferenceConfig {
        base_url: inference.base_url().to_owned(),
        model: inference.model().to_owned(),
        timeout: inference.timeout(),
        queue_size: NonZeroUsize::new(inference.queue_size()).unwrap_or(NonZeroUsize::MIN),
        budget: Budget {
            workers: NonZeroUsize::new(inference.workers()).unwrap_or(NonZeroUsize::MIN),
            requests_per_second: NonZeroU32::new(inference.requests_per_second()).unwrap_or(NonZeroU32::MIN),
            burst: NonZeroU32::new(inference.burst()).unwrap_or(NonZeroU32::MIN),
        },
        key,
    }
}

pub(crate) fn exporter(
    export: &settings::Export,
    headers: ExportHeaders,
    stats: export::stats::Stats,
) -> Result<Exporter, StartError> {
    let compression = match export.compression() {
        settings::Compression::None => Compression::None,
        settings::Compression::Gzip => Compression::Gzip,
    };
    let (endpoint, headers) = (export.endpoint(), headers.into_source());
    let failed = |error: &dyn std::fmt::Display| StartError::Export(error.to_string());
    let protocol = match export.protocol() {
        settings::Protocol::Grpc => {
            let endpoint = GrpcEndpoint::parse(&endpoint.url()).map_err(|error| failed(&error))?;
            let exporter = GrpcExporter::new(&endpoint, compression, headers, CONNECT_TIMEOUT);
            export::Protocol::Grpc(exporter.map_err(|error| failed(&error))?)
        }
        settings::Protocol::Http => {
            let exporter = HttpExporter::new(&endpoint.url(), compression, headers, CONNECT_TIMEOUT);
            export::Protocol::Http(exporter.map_err(|error| failed(&error))?)
        }
    };
    Ok(Exporter::new(protocol, stats))
}

/// TLS of the peer port: who connects must show a certificate from the same authority.
pub(crate) fn peer_tls(peer: &settings::Peer) -> Result<Option<WatchedServer>, StartError> {
    let Some(tls) = peer.tls() else { return Ok(None) };
    let files = TlsFiles {
        setting: "peer.tls",
        pair: Some(pair(tls.key_pair())),
        ca: Some(tls.ca_file().to_owned()),
    };
    Ok(Some(tls::server::load(files, tls::HTTP2)?))
}

fn pair(pair: &settings::KeyPair) -> (PathBuf, PathBuf) {
    (pair.certificate_file().to_owned(), pair.key_file().to_owned())
}
