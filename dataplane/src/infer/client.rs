//! The HTTP client of `POST {base}/v1/systemone`.
//!
//! Invariants: one deadline for the whole exchange; redirects are never followed, for the key would go along;
//! replies are read up to 1 MiB; the key is read for each request, so that rotating it needs no restart; neither the
//! key nor the state nor anything of a body appears in errors, logs or `Debug`.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response, StatusCode, Url};
use tokio::time::{Instant, timeout_at};

use jevmetrics_otlp::summary::Summary;

use super::ask::{Ask, Asking};
use super::failure::{Cause, Failure};
use super::questions::Request;
use super::reply::{self, BadReply, Reply};
use crate::root_cause::root_cause;
use crate::tls;
use crate::tls::http::{Clients, WatchedHttp};

/// Longest reply that is read.
const REPLY_BYTES: usize = 1024 * 1024;
/// Longest reason of a failed connection that is shown, in bytes.
const REASON_BYTES: usize = 200;
const PATH: &str = "/v1/systemone";

/// Gives the present value of the `Authorization` header, marked as sensitive; `None` while there is no key.
pub type KeySource = Arc<dyn Fn() -> Option<HeaderValue> + Send + Sync>;

/// Why there can be no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The base URL is of no use. Its text is not shown: it may hold a password.
    #[error("inference.baseURL {0}")]
    BaseUrl(&'static str),
    /// TLS could not be set up; most often there are no root certificates.
    #[error("TLS for inference cannot be set up: {0}")]
    Tls(String),
}

/// Everything about the HTTP client but its roots.
pub(crate) fn client_builder() -> ClientBuilder {
    tls::install_provider();
    Client::builder()
        .redirect(Policy::none())
        // A proxy from the environment would see the key over plain HTTP, and nobody configured it for this.
        .no_proxy()
        .user_agent(concat!("jevmetrics/", env!("CARGO_PKG_VERSION")))
}

/// Asks Jev over HTTP.
pub struct JevClient {
    clients: Clients,
    endpoint: Url,
    model: String,
    timeout: Duration,
    key: Option<KeySource>,
}

impl JevClient {
    /// A client for the server at `base_url`, which may have a path before `/v1/systemone`.
    /// Without a `key` source no `Authorization` is sent, as local servers like it.
    pub fn new(
        base_url: &str,
        model: String,
        timeout: Duration,
        key: Option<KeySource>,
    ) -> Result<Self, ClientError> {
        let endpoint = endpoint(base_url)?;
        let mut builder = client_builder();
        if endpoint.scheme() == "http" {
            // Without TLS there is no need of root certificates, which a minimal image may lack.
            builder = builder.tls_certs_only([]);
        }
        let http = builder
            .build()
            .map_err(|error| ClientError::Tls(bounded(&root_cause(&error))))?;
        Ok(Self {
            clients: Clients::Fixed(http),
            endpoint,
            model,
            timeout,
            key,
        })
    }

    /// A client for an https server whose certificate comes from other roots than the system's.
    pub fn over_tls(
        base_url: &str,
        clients: WatchedHttp,
        model: String,
        timeout: Duration,
        key: Option<KeySource>,
    ) -> Result<Self, ClientError> {
        Ok(Self {
            clients: Clients::Following(clients),
            endpoint: endpoint(base_url)?,
            model,
            timeout,
            key,
        })
    }

    /// Whether a key would cross a network unencrypted: worth a warning at the start.
    pub fn exposes_key(&self) -> bool {
        self.key.is_some() && self.endpoint.scheme() == "http" && !is_loopback(&self.endpoint)
    }

    #[allow(clippy::disallowed_methods, reason = "Retry-After may be a date")]
    async fn exchange(&self, summary: &Summary) -> Result<Reply, Failure> {
        let mut request = self
            .clients
            .get()
            .post(self.endpoint.clone())
            .header(ACCEPT, "application/json");
        if let Some(key) = &self.key {
            let mut value = key().ok_or_else(|| Failure::new(Cause::KeyMissing))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.json(&Request::new(&self.model, summary));

        let deadline = Instant::now() + self.timeout;
        let sent = timeout_at(deadline, request.send()).await;
        let mut response = sent
            .map_err(|_| Failure::new(Cause::Timeout))?
            .map_err(|e| transport(&e))?;
        let body = match timeout_at(deadline, read(&mut response)).await {
            Ok(body) => body,
            Err(_) => Body::Broken(Failure::new(Cause::Timeout)),
        };
        conclude(response.status(), response.headers(), body, SystemTime::now())
    }
}

impl Ask for JevClient {
    fn obstacle(&self) -> Option<Cause> {
        let key = self.key.as_ref()?;
        key().is_none().then_some(Cause::KeyMissing)
    }

    fn ask<'a>(&'a self, summary: &'a Summary) -> Asking<'a> {
        Box::pin(self.exchange(summary))
    }
}

impl fmt::Debug for JevClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JevClient")
            .field("endpoint", &self.endpoint.as_str())
            .field("model", &self.model)
            .field("timeout", &self.timeout)
            .field("has_key_source", &self.key.is_some())
            .finish_non_exhaustive()
    }
}

/// What came of a reply's body.
enum Body {
    Complete(Vec<u8>),
    /// Longer than [`REPLY_BYTES`].
    TooLong,
    /// It did not come to its end.
    Broken(Failure),
}

async fn read(response: &mut Response) -> Body {
    if response
        .content_length()
        .is_some_and(|announced| announced > REPLY_BYTES as u64)
    {
        return Body::TooLong;
    }
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > REPLY_BYTES => return Body::TooLong,
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Body::Complete(body),
            Err(error) => return Body::Broken(transport(&error)),
        }
    }
}

/// Only a 200 needs its body; any other status says enough, also if the rest did not come.
fn conclude(status: StatusCode, headers: &HeaderMap, body: Body, now: SystemTime) -> Result<Reply, Failure> {
    let bad = |bad| Failure::bad_reply(headers, bad);
    match (status, body) {
        (StatusCode::OK, Body::Complete(body)) => reply::parse(&body).map_err(bad),
        (StatusCode::OK, Body::TooLong) => Err(bad(BadReply::TooLong { limit: REPLY_BYTES })),
        (StatusCode::OK, Body::Broken(failure)) => Err(failure),
        (_, Body::Complete(body)) => Err(Failure::response(status, headers, &body, now)),
        (_, Body::TooLong | Body::Broken(_)) => Err(Failure::response(status, headers, &[], now)),
    }
}

fn endpoint(base_url: &str) -> Result<Url, ClientError> {
    let mut url = Url::parse(base_url).map_err(|_| ClientError::BaseUrl("must be an absolute URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(ClientError::BaseUrl("must begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ClientError::BaseUrl(
            "must not hold a user or password: use a key",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(ClientError::BaseUrl("must not have a query or a fragment"));
    }
    let path = format!("{}{PATH}", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// reqwest's own text is not used: it holds the URL, and HTTP/2 errors may hold words of the server.
fn transport(error: &reqwest::Error) -> Failure {
    if error.is_timeout() {
        Failure::new(Cause::Timeout)
    } else if error.is_connect() {
        Failure::connect(connect_reason(error))
    } else if error.is_builder() {
        Failure::new(Cause::Internal)
    } else {
        Failure::new(Cause::Interrupted)
    }
}

/// What the operating system or rustls said of a failed connection.
fn connect_reason(error: &reqwest::Error) -> Option<String> {
    let mut reason = None;
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            // The source of an io::Error skips the error that it wraps.
            let tls = io
                .get_ref()
                .and_then(|inner| inner.downcast_ref::<rustls::Error>());
            reason = Some(tls.map_or_else(|| io.to_string(), ToString::to_string));
        } else if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            reason = Some(tls.to_string());
        }
        next = error.source();
    }
    reason.map(|text| bounded(&text))
}

fn bounded(text: &str) -> String {
    let mut end = text.len().min(REASON_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].replace(char::is_control, " ")
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
