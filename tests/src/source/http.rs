//! Sends any body to an OTLP/HTTP endpoint, and says everything that came back.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use prost::Message as _;

use super::{PartialSuccess, partial_success};
use crate::{http_client, rpc};

/// How to send one body, which is sent as it is: compress it with [`super::gzip`].
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// `content-type`; none if `None`.
    pub content_type: Option<String>,
    /// `content-encoding`; none if `None`.
    pub content_encoding: Option<String>,
    /// More headers.
    pub headers: Vec<(String, String)>,
    /// Gives up after this.
    pub timeout: Option<Duration>,
    /// Path.
    pub path: &'static str,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            content_type: Some("application/x-protobuf".to_owned()),
            content_encoding: None,
            headers: Vec::new(),
            timeout: None,
            path: "/v1/metrics",
        }
    }
}

/// What came back.
#[derive(Debug, Clone)]
pub struct HttpOutcome {
    /// The status.
    pub status: u16,
    /// All headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// `Retry-After` in seconds.
    pub retry_after: Option<Duration>,
    /// What an accepting answer said was rejected.
    pub partial_success: Option<PartialSuccess>,
    /// The `google.rpc.Status` in the body of a refusal.
    pub rpc_status: Option<rpc::Status>,
}

/// There was no answer.
#[derive(Debug, thiserror::Error)]
#[error("no answer over HTTP: {0}: {cause}", cause = root_cause(.0))]
pub struct HttpError(#[from] reqwest::Error);

/// The innermost words: the outer ones say only that something failed.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// A client of one endpoint; clones share its connections.
#[derive(Debug, Clone)]
pub struct HttpSender {
    client: reqwest::Client,
    endpoint: String,
}

impl HttpSender {
    /// For `http://address:port`; connects when sending.
    ///
    /// # Errors
    /// The client could not be built.
    pub fn new(endpoint: &str) -> Result<Self, HttpError> {
        Ok(Self {
            client: http_client::build()?,
            endpoint: endpoint.to_owned(),
        })
    }

    /// Sends one body by POST.
    ///
    /// # Errors
    /// No complete answer came.
    pub async fn send(&self, body: Bytes, options: &HttpOptions) -> Result<HttpOutcome, HttpError> {
        let mut request = self
            .client
            .post(format!("{}{}", self.endpoint, options.path))
            .body(body);
        if let Some(content_type) = &options.content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        if let Some(encoding) = &options.content_encoding {
            request = request.header(CONTENT_ENCODING, encoding);
        }
        for (name, value) in &options.headers {
            request = request.header(name, value);
        }
        if let Some(timeout) = options.timeout {
            request = request.timeout(timeout);
        }
        let response = request.send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes().await?;
        let is_protobuf = headers
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes() == b"application/x-protobuf");
        Ok(HttpOutcome {
            status: status.as_u16(),
            retry_after: headers
                .get(RETRY_AFTER)
                .and_then(|value| value.to_str().ok()?.parse().ok())
                .map(Duration::from_secs),
            partial_success: if status.is_success() {
                partial_success(&body)
            } else {
                None
            },
            rpc_status: if status.is_success() || !is_protobuf {
                None
            } else {
                rpc::Status::decode(body.clone()).ok()
            },
            headers,
            body,
        })
    }
}
