//! OTLP/HTTP with protobuf bodies, over HTTP/1.1 or HTTP/2.

use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http_body::Body;
use tokio::time::Instant;

use super::body::collect;
use super::in_flight::Held;
use super::media_type::{self, Coding};
use super::receiver::in_time;
use super::refusal::Refusal;
use super::unpack::unpack;
use super::{Request, SizeLimits};

/// The path of the metrics signal.
const METRICS_PATH: &str = "/v1/metrics";

pub(super) async fn read<B>(
    limits: SizeLimits,
    mut held: Held,
    head: &Parts,
    body: &mut B,
) -> Result<Request, Refusal>
where
    B: Body<Data = Bytes> + Unpin + Send,
{
    let coding = read_head(head)?;
    let reading = collect(body, limits.max_request_bytes, &mut held);
    let packed = in_time(Instant::now(), None, reading).await?;
    let wire_bytes = packed.len() as u64;
    let (body, held) = unpack(coding, packed, limits.max_unpacked_bytes, held).await?;
    Ok(Request {
        body,
        deadline: None,
        wire_bytes,
        held,
    })
}

/// Everything that can be said before the body is read.
fn read_head(head: &Parts) -> Result<Coding, Refusal> {
    if head.uri.path() != METRICS_PATH {
        return Err(Refusal::NotFound { path: METRICS_PATH });
    }
    if head.method != Method::POST {
        return Err(Refusal::WrongMethod);
    }
    if !media_type::is_protobuf(head.headers.get(CONTENT_TYPE)) {
        return Err(Refusal::UnsupportedMediaType);
    }
    media_type::coding(head.headers.get(CONTENT_ENCODING)).ok_or(Refusal::UnsupportedEncoding)
}
