//! OTLP/HTTP to downstream, with protobuf bodies.
//!
//! Redirects and proxies of the environment are not followed: requests carry secrets in their headers and go
//! where the configuration says. Connections are pooled; one that was closed before a request left on it is
//! replaced without a word.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use prost::Message;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, ClientBuilder, Response, Url, redirect};
use tokio::time::{Instant, timeout_at};

use super::answer::USED_BYTES;
use super::pack::{Compression, Packed, pack};
use super::{HeaderSource, Sent, translate};
use crate::root_cause::root_cause;
use crate::tls::http::{Clients, WatchedHttp};
use crate::tls::{self, TlsError, TlsFiles};
use crate::verdict::Verdict;
use crate::wire_messages::{ExportMetricsServiceResponse, Status};

/// The path of the metrics signal.
const METRICS_PATH: &str = "/v1/metrics";
/// An answer is read to its end, so that its connection can be used again, but not beyond this.
const ANSWER_BYTES: usize = 1 << 20;
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");

/// The exporter could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Not a URL.
    #[error("endpoint of an HTTP exporter must be an http:// or https:// URL without query and user")]
    Endpoint,
    /// The client could not be built.
    #[error("HTTP client cannot be set up")]
    Client(#[source] reqwest::Error),
    /// TLS could not be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

fn client_builder(connect_timeout: Duration) -> ClientBuilder {
    tls::install_provider();
    Client::builder()
        .user_agent(super::USER_AGENT)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .connect_timeout(connect_timeout)
        .tcp_nodelay(true)
}

/// Finds the addresses of this host, whatever name the URL has for TLS' sake.
struct Renamed(Arc<str>);

impl Resolve for Renamed {
    fn resolve(&self, _: Name) -> Resolving {
        let host = Arc::clone(&self.0);
        Box::pin(async move {
            // The port is that of the URL.
            let addresses: Vec<_> = tokio::net::lookup_host((&*host, 0)).await?.collect();
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// Sends requests to one URL.
pub struct HttpExporter {
    url: Url,
    clients: Clients,
    headers: HeaderSource,
    compression: Compression,
}

impl HttpExporter {
    /// `endpoint` is taken as it is; without a path, `/v1/metrics` is meant. For https the system's roots count.
    pub fn new(
        endpoint: &str,
        compression: Compression,
        headers: HeaderSource,
        connect_timeout: Duration,
    ) -> Result<Self, SetupError> {
        let url = metrics_url(endpoint).ok_or(SetupError::Endpoint)?;
        let mut builder = client_builder(connect_timeout);
        if url.scheme() == "http" {
            // Without TLS there is no need of root certificates, which a minimal image may lack.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(SetupError::Client)?;
        Ok(Self {
            url,
            clients: Clients::Fixed(client),
            headers,
            compression,
        })
    }

    /// As [`Self::new`], with the roots, the pair and perhaps the server's name of the settings. What must be followed
    /// comes with it. Where a server has a `name` of its own, requests carry that one as their host.
    pub fn over_tls(
        endpoint: &str,
        files: TlsFiles,
        name: Option<&str>,
        compression: Compression,
        headers: HeaderSource,
        connect_timeout: Duration,
    ) -> Result<(Self, WatchedHttp), SetupError> {
        let mut url = metrics_url(endpoint).ok_or(SetupError::Endpoint)?;
        let renamed = match name {
            Some(name) => {
                let host = url.host_str().ok_or(SetupError::Endpoint)?;
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                url.set_host(Some(name)).map_err(|_| SetupError::Endpoint)?;
                Some(host)
            }
            None => None,
        };
        let watched = tls::http::load(files, move || {
            let builder = client_builder(connect_timeout);
            match &renamed {
                Some(host) => builder.dns_resolver(Arc::new(Renamed(host.as_str().into()))),
                None => builder,
            }
        })?;
        let exporter = Self {
            url,
            clients: Clients::Following(Arc::clone(&watched)),
            headers,
            compression,
        };
        Ok((exporter, watched))
    }

    pub(super) async fn export(&self, body: Bytes, deadline: Instant) -> Sent {
        let packed = pack(self.compression, body).await;
        let bytes = packed.payload.len() as u64;
        let verdict = match timeout_at(deadline, self.deliver(packed)).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(error)) => translate::transport(&root_cause(&error.without_url())),
            Err(_) => translate::deadline(),
        };
        Sent { verdict, bytes }
    }

    async fn deliver(&self, packed: Packed) -> reqwest::Result<Verdict> {
        let mut request = self
            .clients
            .get()
            .post(self.url.clone())
            .headers((*(self.headers)()).clone())
            .header(CONTENT_TYPE, PROTOBUF);
        if packed.compressed {
            request = request.header(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        read(request.body(packed.payload).send().await?).await
    }
}

fn metrics_url(endpoint: &str) -> Option<Url> {
    let mut url = Url::parse(endpoint)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"))?;
    if url.query().is_some() || !url.username().is_empty() || url.password().is_some() {
        return None;
    }
    if url.path() == "/" {
        url.set_path(METRICS_PATH);
    }
    Some(url)
}

#[allow(clippy::disallowed_methods, reason = "Retry-After may be a date")]
async fn read(mut response: Response) -> reqwest::Result<Verdict> {
    let status = response.status();
    let protobuf = response.headers().get(CONTENT_TYPE).is_some_and(|value| {
        value
            .as_bytes()
            .get(..PROTOBUF.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(PROTOBUF.as_bytes()))
    });
    let wait = response.headers().get(RETRY_AFTER);
    let wait = wait.and_then(|value| translate::retry_after(value, SystemTime::now()));
    let body = match bounded_body(&mut response).await {
        Ok(body) => body,
        // The status of a refusal is a whole answer; only a success needs its body, for it may be partial.
        Err(_) if !status.is_success() => Bytes::new(),
        Err(error) => return Err(error),
    };
    Ok(verdict(status, if protobuf { &body } else { &[] }, wait))
}

fn verdict(status: StatusCode, body: &[u8], wait: Option<Duration>) -> Verdict {
    if status.is_success() {
        return translate::success(ExportMetricsServiceResponse::decode(body).unwrap_or_default());
    }
    let message = Status::decode(body)
        .map(|status| status.message)
        .unwrap_or_default();
    translate::http_status(status, &message, wait)
}

async fn bounded_body(response: &mut Response) -> reqwest::Result<Bytes> {
    let mut used = BytesMut::new();
    let mut read = 0;
    while let Some(chunk) = response.chunk().await? {
        read += chunk.len();
        used.extend_from_slice(&chunk[..chunk.len().min(USED_BYTES - used.len())]);
        if read > ANSWER_BYTES {
            break;
        }
    }
    Ok(used.freeze())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_path_of_the_signal_is_added_once() {
        for (endpoint, url) in [
            ("http://downstream:4318", "http://downstream:4318/v1/metrics"),
            ("http://downstream:4318/", "http://downstream:4318/v1/metrics"),
            ("https://downstream/otlp", "https://downstream/otlp"),
            (
                "http://downstream/otlp/v1/metrics",
                "http://downstream/otlp/v1/metrics",
            ),
        ] {
            assert_eq!(metrics_url(endpoint).unwrap().as_str(), url, "{endpoint}");
        }
    }

    #[test]
    fn what_is_not_a_plain_url_is_refused() {
        for endpoint in [
            "",
            "downstream:4318",
            "ftp://downstream",
            "http://a:b@downstream",
            "http://downstream?a=b",
        ] {
            assert_eq!(metrics_url(endpoint), None, "{endpoint}");
        }
    }
}
