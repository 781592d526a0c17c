//! From settings to the parts that they describe.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use jevmetrics_api::settings;
use jevmetrics_otlp::identity::{ContextAttributes, IdentityMode};
use rustls::pki_types::ServerName;

use crate::export::grpc::{DownstreamTls, GrpcExporter};
use crate::export::http::{HttpExporter, SetupError};
use crate::export::pack::Compression;
use crate::export::resolve::{EndpointError, GrpcEndpoint};
use crate::export::{self, Exporter, HeaderSource};
use crate::export_headers::ExportHeaders;
use crate::following::Following;
use crate::infer::client::KeySource;
use crate::infer::{self, InferenceConfig, Pace};
use crate::retain::assessments::Assessments;
use crate::secret::WatchedSecret;
use crate::start_error::StartError;
use crate::tls::client::WatchedClient;
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
    following: &mut Following,
) -> Result<InferenceConfig, StartError> {
    let clients = match inference.tls() {
        None => None,
        Some(tls) => {
            let files = client_files("inference.tls", Some(tls));
            let clients = tls::http::load(files, infer::client::client_builder)?;
            following.tls(&clients);
            Some(clients)
        }
    };
    let key = key.map(|secret| -> KeySource {
        Arc::new(move || {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", secret.get()?.expose())).ok()?;
            value.set_sensitive(true);
            Some(value)
        })
    });
    Ok(InferenceConfig {
        base_url: inference.base_url().to_owned(),
        model: inference.model().to_owned(),
        timeout: inference.timeout(),
        key,
        clients,
        pace: Pace {
            queue_size: NonZeroUsize::new(inference.queue_size()).unwrap_or(NonZeroUsize::MIN),
            workers: NonZeroUsize::new(inference.workers()).unwrap_or(NonZeroUsize::MIN),
            ttl: inference.score_ttl(),
        },
    })
}

pub(crate) fn exporter(
    export: &settings::Export,
    headers: ExportHeaders,
    stats: export::stats::Stats,
    following: &mut Following,
) -> Result<Exporter, StartError> {
    let compression = match export.compression() {
        settings::Compression::None => Compression::None,
        settings::Compression::Gzip => Compression::Gzip,
    };
    let headers = headers.into_source();
    let protocol = match export.protocol() {
        settings::Protocol::Grpc => {
            export::Protocol::Grpc(grpc_exporter(export, compression, headers, following)?)
        }
        settings::Protocol::Http => {
            export::Protocol::Http(http_exporter(export, compression, headers, following)?)
        }
    };
    Ok(Exporter::new(protocol, stats))
}

fn grpc_exporter(
    export: &settings::Export,
    compression: Compression,
    headers: HeaderSource,
    following: &mut Following,
) -> Result<GrpcExporter, StartError> {
    let failed = |error: EndpointError| StartError::Export(error.to_string());
    let endpoint = GrpcEndpoint::parse(&export.endpoint().url()).map_err(failed)?;
    if !export.endpoint().is_secure() {
        return GrpcExporter::new(&endpoint, compression, headers, CONNECT_TIMEOUT).map_err(failed);
    }
    let client = tls::client::load(client_files("export.tls", export.tls()), tls::HTTP2)?;
    following.tls(&client);
    let name = export.tls().and_then(settings::ClientTls::server_name);
    let name = name.unwrap_or_else(|| export.endpoint().host()).to_owned();
    let name = ServerName::try_from(name)
        .map_err(|_| StartError::Export("its host must be a DNS name or an address".to_owned()))?;
    let tls = DownstreamTls { client, name };
    GrpcExporter::over_tls(&endpoint, tls, compression, headers, CONNECT_TIMEOUT).map_err(failed)
}

fn http_exporter(
    export: &settings::Export,
    compression: Compression,
    headers: HeaderSource,
    following: &mut Following,
) -> Result<HttpExporter, StartError> {
    let failed = |error: SetupError| match error {
        SetupError::Tls(error) => StartError::Tls(error),
        error => StartError::Export(error.to_string()),
    };
    let url = export.endpoint().url();
    if !export.endpoint().is_secure() {
        return HttpExporter::new(&url, compression, headers, CONNECT_TIMEOUT).map_err(failed);
    }
    let files = client_files("export.tls", export.tls());
    let name = export.tls().and_then(settings::ClientTls::server_name);
    let (exporter, watched) =
        HttpExporter::over_tls(&url, files, name, compression, headers, CONNECT_TIMEOUT).map_err(failed)?;
    following.tls(&watched);
    Ok(exporter)
}

/// TLS of the ports that senders connect to.
pub(crate) fn ingest_tls(ingest: &settings::Ingest) -> Result<Option<WatchedServer>, StartError> {
    let Some(tls) = ingest.tls() else { return Ok(None) };
    let files = TlsFiles {
        setting: "ingest.tls",
        pair: Some(pair(tls.key_pair())),
        ca: tls.client_ca_file().map(Path::to_owned),
    };
    Ok(Some(tls::server::load(files, tls::HTTP2_OR_1)?))
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

/// TLS towards the peer ports of other pods: the same files, from the other side.
pub(crate) fn peer_client(peer: &settings::Peer) -> Result<Option<WatchedClient>, StartError> {
    let Some(tls) = peer.tls() else { return Ok(None) };
    let files = TlsFiles {
        setting: "peer.tls",
        pair: Some(pair(tls.key_pair())),
        ca: Some(tls.ca_file().to_owned()),
    };
    Ok(Some(tls::client::load(files, tls::HTTP2)?))
}

fn pair(pair: &settings::KeyPair) -> (PathBuf, PathBuf) {
    (pair.certificate_file().to_owned(), pair.key_file().to_owned())
}

pub(crate) fn client_files(setting: &'static str, tls: Option<&settings::ClientTls>) -> TlsFiles {
    TlsFiles {
        setting,
        pair: tls.and_then(settings::ClientTls::key_pair).map(pair),
        ca: tls.and_then(settings::ClientTls::ca_file).map(Path::to_owned),
    }
}
