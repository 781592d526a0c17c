//! The endpoint of downstream and its addresses.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use http::Uri;
use http::uri::{Authority, Scheme};

/// The port that OTLP/gRPC has where none is named.
const DEFAULT_PORT: u16 = 4317;

/// Where to send OTLP/gRPC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcEndpoint {
    scheme: Scheme,
    authority: Authority,
    port: u16,
}

/// An endpoint that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not an address.
    #[error("endpoint must be host:port, http://host:port or https://host:port")]
    Malformed,
    /// Another scheme.
    #[error("endpoint must start with http:// or https://, or name no scheme")]
    Scheme,
    /// More than an address.
    #[error("endpoint of a gRPC exporter must not have a path, a query or a user")]
    Path,
}

impl GrpcEndpoint {
    /// Reads `host:port`, `http://host:port`, `https://host:port` or any of them without port.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let text = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        let uri: Uri = text.parse().map_err(|_| EndpointError::Malformed)?;
        let scheme = uri
            .scheme()
            .filter(|scheme| **scheme == Scheme::HTTP || **scheme == Scheme::HTTPS)
            .cloned()
            .ok_or(EndpointError::Scheme)?;
        let authority = uri.authority().cloned().ok_or(EndpointError::Malformed)?;
        if uri.path() != "/" || uri.query().is_some() || authority.as_str().contains('@') {
            return Err(EndpointError::Path);
        }
        if authority.host().is_empty() {
            return Err(EndpointError::Malformed);
        }
        let port = authority.port_u16().unwrap_or(DEFAULT_PORT);
        Ok(Self {
            scheme,
            authority,
            port,
        })
    }

    /// As it stands in requests.
    pub(super) fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// As it stands in requests.
    pub(super) fn authority(&self) -> &Authority {
        &self.authority
    }
}

/// The future of [`Resolve::resolve`].
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Finds the addresses of downstream.
pub trait Resolve: Send + Sync + 'static {
    /// All addresses there are now.
    fn resolve(&self) -> Resolving<'_>;
}

impl Resolve for GrpcEndpoint {
    /// By the system's resolver. An address needs none.
    fn resolve(&self) -> Resolving<'_> {
        let host = self
            .authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']');
        Box::pin(async move { Ok(tokio::net::lookup_host((host, self.port)).await?.collect()) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn endpoints_are_read_with_and_without_scheme_and_port() {
        for (text, authority, port) in [
            ("collector:14317", "collector:14317", 14317),
            ("http://collector.ns.svc:4317", "collector.ns.svc:4317", 4317),
            ("http://collector/", "collector", 4317),
            ("[::1]:1", "[::1]:1", 1),
            ("https://collector:443", "collector:443", 443),
        ] {
            let endpoint = GrpcEndpoint::parse(text).unwrap();
            assert_eq!(
                (endpoint.authority.as_str(), endpoint.port),
                (authority, port),
                "{text}"
            );
        }
    }

    #[test]
    fn what_would_be_ignored_is_refused() {
        for (text, error) in [
            ("", EndpointError::Malformed),
            ("ftp://collector:4317", EndpointError::Scheme),
            ("http://collector:4317/v1/metrics", EndpointError::Path),
            ("http://user:word@collector", EndpointError::Path),
        ] {
            assert_eq!(GrpcEndpoint::parse(text).unwrap_err(), error, "{text}");
        }
    }
}
