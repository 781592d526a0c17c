//! OTLP/gRPC to downstream: unary framing by hand over HTTP/2.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use tokio::time::{Instant, timeout_at};

use super::lanes::MAX_LANES;
use super::pack::{Compression, Packed, pack};
pub use super::pool::DownstreamTls;
use super::pool::{Failure, Lease, Pool, RequestBody};
use super::resolve::{EndpointError, GrpcEndpoint, Resolve};
use super::{HeaderSource, Sent, answer, translate};
use crate::grpc_timeout;
use crate::root_cause::root_cause;
use crate::verdict::Verdict;
use crate::wire_messages::{EXPORT_PATH, PREFIX_LEN, prefix};

/// Sends requests over all addresses of an endpoint in turn.
pub struct GrpcExporter {
    uri: Uri,
    fixed: HeaderMap,
    headers: HeaderSource,
    compression: Compression,
    pool: Pool,
}

/// What is known of a request that was not answered.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// Its connection is over and took it no more: it never left, or a goodbye did not reach its stream.
    Gone,
    /// Downstream says that it did not look at it.
    Refused,
    /// Anything may have happened to it.
    Unknown,
}

impl GrpcExporter {
    /// Finds addresses by the system's resolver.
    pub fn new(
        endpoint: &GrpcEndpoint,
        compression: Compression,
        headers: HeaderSource,
        connect_timeout: Duration,
    ) -> Result<Self, EndpointError> {
        let resolver = Arc::new(endpoint.clone());
        Self::with_resolver(endpoint, resolver, compression, headers, connect_timeout)
    }

    /// As [`Self::new`], for an endpoint with https.
    pub fn over_tls(
        endpoint: &GrpcEndpoint,
        tls: DownstreamTls,
        compression: Compression,
        headers: HeaderSource,
        connect_timeout: Duration,
    ) -> Result<Self, EndpointError> {
        let pool = Pool::new(Arc::new(endpoint.clone()), connect_timeout, Some(tls));
        Self::with_pool(endpoint, pool, compression, headers)
    }

    /// Finds addresses by `resolver`; `endpoint` only names downstream in requests.
    pub fn with_resolver(
        endpoint: &GrpcEndpoint,
        resolver: Arc<dyn Resolve>,
        compression: Compression,
        headers: HeaderSource,
        connect_timeout: Duration,
    ) -> Result<Self, EndpointError> {
        let pool = Pool::new(resolver, connect_timeout, None);
        Self::with_pool(endpoint, pool, compression, headers)
    }

    fn with_pool(
        endpoint: &GrpcEndpoint,
        pool: Pool,
        compression: Compression,
        headers: HeaderSource,
    ) -> Result<Self, EndpointError> {
        let uri = Uri::builder()
            .scheme(endpoint.scheme().clone())
            .authority(endpoint.authority().clone())
            .path_and_query(PathAndQuery::from_static(EXPORT_PATH))
            .build()
            .map_err(|_| EndpointError::Malformed)?;
        let mut fixed = HeaderMap::new();
        fixed.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        fixed.insert(TE, HeaderValue::from_static("trailers"));
        fixed.insert(USER_AGENT, HeaderValue::from_static(super::USER_AGENT));
        if compression == Compression::Gzip {
            fixed.insert("grpc-encoding", HeaderValue::from_static("gzip"));
        }
        Ok(Self {
            uri,
            fixed,
            headers,
            compression,
            pool,
        })
    }

    pub(super) async fn export(&self, body: Bytes, deadline: Instant) -> Sent {
        let packed = pack(self.compression, body).await;
        let bytes = (PREFIX_LEN + packed.payload.len()) as u64;
        let verdict = timeout_at(deadline, self.deliver(&packed, deadline)).await;
        Sent {
            verdict: verdict.unwrap_or_else(|_| translate::deadline()),
            bytes,
        }
    }

    /// Sends until something is known: a request that its connection took no more goes to the next one (each
    /// such connection is left, so this ends), one that was refused unseen goes once more.
    async fn deliver(&self, packed: &Packed, deadline: Instant) -> Verdict {
        let mut avoid = None;
        let mut refused = false;
        let mut gone = 0;
        loop {
            let lease = match self.pool.lease(avoid).await {
                Ok(lease) => lease,
                Err(reason) => return translate::transport(&reason),
            };
            let attempt = lease.attempt;
            let (fate, reason) = match self.attempt(lease, packed, deadline).await {
                Ok(verdict) => return verdict,
                Err(failure) => failure,
            };
            avoid = Some(attempt);
            let again = match fate {
                Fate::Gone => {
                    gone += 1;
                    self.pool.ended(attempt);
                    gone <= MAX_LANES
                }
                Fate::Refused => !std::mem::replace(&mut refused, true),
                Fate::Unknown => false,
            };
            if !again {
                return translate::transport(&reason);
            }
        }
    }

    async fn attempt(
        &self,
        lease: Lease,
        packed: &Packed,
        deadline: Instant,
    ) -> Result<Verdict, (Fate, String)> {
        let response = match lease.send(self.request(packed, deadline)).await {
            Ok(response) => response,
            Err(failed) if never_left(&failed) => return Err((Fate::Gone, root_cause(failed.error()))),
            Err(failed) => return Err((fate(failed.error()), root_cause(failed.error()))),
        };
        answer::read(response)
            .await
            .map_err(|error| (fate(&error), root_cause(&error)))
    }

    fn request(&self, packed: &Packed, deadline: Instant) -> Request<RequestBody> {
        let message = Bytes::copy_from_slice(&prefix(packed.compressed, packed.payload.len()));
        let mut request = Request::new(Full::new(message.chain(packed.payload.clone())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        let mut headers = self.fixed.clone();
        for (name, value) in &*(self.headers)() {
            headers.append(name, value.clone());
        }
        let left = grpc_timeout::format(deadline.saturating_duration_since(Instant::now()));
        if let Ok(left) = HeaderValue::try_from(left) {
            headers.insert("grpc-timeout", left);
        }
        *request.headers_mut() = headers;
        request
    }
}

/// Given back, or left behind by a connection that ended before the body could leave. hyper reports the second
/// as the user's error, and so it does a panic within the connection, of which nothing can be said.
fn never_left(failed: &Failure) -> bool {
    let error = failed.error();
    failed.message().is_some() || error.is_user() && root_cause(error) != "user code panicked"
}

/// `REFUSED_STREAM`, and a GOAWAY that does not reach our stream, mean "not processed" by the HTTP/2
/// specification. The h2 crate gives the second error to exactly the streams above GOAWAY's last one.
fn fate(error: &hyper::Error) -> Fate {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(cause) = cause
            .downcast_ref::<h2::Error>()
            .filter(|cause| cause.is_remote())
        {
            if cause.is_go_away() {
                return Fate::Gone;
            }
            if cause.is_reset() && cause.reason() == Some(h2::Reason::REFUSED_STREAM) {
                return Fate::Refused;
            }
        }
        source = cause.source();
    }
    Fate::Unknown
}
