//! Where kept metrics go and how.

use std::time::Duration;

use http::HeaderName;

use super::secret::SecretSource;
use super::tls::ClientTls;
use super::url;
use crate::document::{Fields, Node, Problems, Read};

/// How kept metrics leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    endpoint: Endpoint,
    protocol: Protocol,
    compression: Compression,
    timeout: Duration,
    max_request_bytes: usize,
    headers: Vec<ExportHeader>,
    tls: Option<ClientTls>,
}

/// The protocol towards downstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// OTLP over gRPC.
    Grpc,
    /// OTLP over HTTP with protobuf bodies.
    Http,
}

/// Compression of what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// None.
    None,
    /// Gzip.
    Gzip,
}

/// The address of downstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    secure: bool,
    host: String,
    port: u16,
    path: String,
}

/// A header that every request to downstream carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportHeader {
    name: String,
    value: SecretSource,
}

impl Export {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Read<Self> {
        let protocol = fields.choice("protocol", [("GRPC", Protocol::Grpc), ("HTTP", Protocol::Http)]);
        let compression = fields.choice(
            "compression",
            [("None", Compression::None), ("Gzip", Compression::Gzip)],
        );
        let timeout = fields.integer("timeoutMilliseconds", 8000, 1..=600_000);
        let max_request_bytes = fields.integer("maxRequestBytes", 4 << 20, 1024..=256 << 20);
        let endpoint = fields.required_text("endpoint").and_then(|text| {
            // A wrong protocol was noted; the endpoint is then judged by the default one.
            Endpoint::parse(&text, protocol.unwrap_or(Protocol::Grpc))
                .map_err(|rule| fields.refuse("endpoint", rule))
        });
        let headers = read_headers(fields);
        let tls = fields.optional_section("tls", ClientTls::read);
        let (endpoint, tls) = (endpoint?, tls?);
        if tls.is_some() && !endpoint.secure {
            return Err(fields.refuse(
                "tls",
                "must not be given with an http:// endpoint: it would not be used",
            ));
        }
        Ok(Self {
            endpoint,
            protocol: protocol?,
            compression: compression?,
            timeout: Duration::from_millis(timeout?.into()),
            max_request_bytes: max_request_bytes? as usize,
            headers: headers?,
            tls,
        })
    }

    /// The address of downstream.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The protocol towards downstream.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Compression of what is sent.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// The longest time that a request may take downstream.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The largest request, before compression, to which companions may be added.
    pub fn max_request_bytes(&self) -> usize {
        self.max_request_bytes
    }

    /// Files and name for TLS; only with an `https` endpoint, which does without them as well.
    pub fn tls(&self) -> Option<&ClientTls> {
        self.tls.as_ref()
    }

    /// Headers of every request, no name twice.
    pub fn headers(&self) -> &[ExportHeader] {
        &self.headers
    }
}

impl Endpoint {
    fn parse(text: &str, protocol: Protocol) -> Result<Self, &'static str> {
        let parts = url::parse(text)?;
        let path = match (protocol, parts.path.as_str()) {
            (Protocol::Grpc, "" | "/") => "/",
            (Protocol::Grpc, _) => return Err("must have no path with protocol GRPC"),
            (Protocol::Http, "" | "/") => "/v1/metrics",
            (Protocol::Http, path) => path,
        };
        Ok(Self {
            secure: parts.secure,
            host: parts.host,
            port: parts.port.unwrap_or(if parts.secure { 443 } else { 80 }),
            path: path.to_owned(),
        })
    }

    /// Whether the scheme is https.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Host name or IP address, an IPv6 address without brackets: what is looked up.
    pub fn host(&self) -> &str {
        self.host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(&self.host)
    }

    /// The port; 80 or, with https, 443 if the URL has none.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as in a URL or a `host` header: an IPv6 address is in brackets.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The path of requests; `/` for gRPC, whose methods have paths of their own.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The whole URL.
    pub fn url(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority(), self.path)
    }
}

impl ExportHeader {
    fn read(fields: &mut Fields<'_>) -> Read<Self> {
        let name = fields
            .required_text("name")
            .and_then(|name| header_name(&name).map_err(|rule| fields.refuse("name", rule)));
        let value = match fields.take("value") {
            None => Err(fields.refuse("value", "must be given")),
            Some(node) => SecretSource::read(fields.problems(), &fields.path_of("value"), node),
        };
        Ok(Self {
            name: name?,
            value: value?,
        })
    }

    /// The name, in lower case.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its value is found.
    pub fn value(&self) -> &SecretSource {
        &self.value
    }
}

/// Most export headers.
const MAX_HEADERS: usize = 32;

/// Names that OTLP, gRPC or the HTTP connection set themselves.
const OWNED: [&str; 16] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

fn read_headers(fields: &mut Fields<'_>) -> Read<Vec<ExportHeader>> {
    let problems: &Problems = fields.problems();
    let mut seen: Vec<String> = Vec::new();
    let headers = fields.list("headers", MAX_HEADERS, |path, node: Node| {
        let header = Fields::read(path.clone(), node, problems, ExportHeader::read)?;
        if seen.contains(&header.name) {
            return Err(problems.refuse(&format!("{path}.name"), "must differ from the names before it"));
        }
        seen.push(header.name.clone());
        Ok(header)
    })?;
    Ok(headers.unwrap_or_default())
}

fn header_name(text: &str) -> Result<String, &'static str> {
    let name = HeaderName::from_bytes(text.as_bytes())
        .ok()
        .filter(|_| text.len() <= 256)
        .ok_or("must be an HTTP header name of at most 256 bytes")?;
    let name = name.as_str();
    if OWNED.contains(&name) || name.starts_with("grpc-") {
        return Err("must not be a header that OTLP, gRPC or HTTP sets itself");
    }
    if name.ends_with("-bin") {
        return Err("must not end in -bin: gRPC takes such headers as binary");
    }
    Ok(name.to_owned())
}
