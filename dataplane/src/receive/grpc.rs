//! OTLP/gRPC: unary framing by hand over HTTP/2.
//!
//! gRPC's own server stacks cost a tenth to a fifth more per request for what is one message in, one out.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Method, Version};
use http_body::Body;
use tokio::time::Instant;

use super::body::next_data;
use super::framing::{FramingError, Message, MessageReader};
use super::in_flight::Held;
use super::media_type::{self, Coding};
use super::receiver::in_time;
use super::refusal::Refusal;
use super::unpack::unpack;
use super::{Request, SizeLimits};
use crate::grpc_timeout;
use crate::wire_messages::{EXPORT_PATH, PREFIX_LEN};

pub(super) async fn read<B>(
    limits: SizeLimits,
    mut held: Held,
    head: &Parts,
    body: &mut B,
) -> Result<Request, Refusal>
where
    B: Body<Data = Bytes> + Unpin + Send,
{
    let arrived = Instant::now();
    let (coding, deadline) = read_head(head, EXPORT_PATH, arrived)?;
    let reading = read_message(limits.max_request_bytes, body, Some(&mut held));
    let message = in_time(arrived, deadline, reading).await?;
    let wire_bytes = (PREFIX_LEN + message.payload.len()) as u64;
    let coding = match (message.compressed, coding) {
        (false, _) => Coding::Identity,
        (true, Coding::Gzip) => Coding::Gzip,
        (true, Coding::Identity) => return Err(FramingError::FlagWithoutEncoding.into()),
    };
    let (body, held) = unpack(coding, message.payload, limits.max_unpacked_bytes, held).await?;
    Ok(Request {
        body,
        deadline,
        wire_bytes,
        held,
    })
}

/// Reads the small uncompressed message of a call to another service.
pub(crate) async fn read_small<B>(
    path: &'static str,
    limit: usize,
    head: &Parts,
    body: &mut B,
) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes> + Unpin + Send,
{
    let arrived = Instant::now();
    let (_, deadline) = read_head(head, path, arrived)?;
    let read = in_time(arrived, deadline, read_message(limit, body, None)).await;
    let message = read.map_err(|refusal| match refusal {
        // Its words name a setting of ours that is not about this service.
        Refusal::Framing(FramingError::TooLarge { .. }) => FramingError::NotProtobuf.into(),
        refusal => refusal,
    })?;
    if message.compressed {
        return Err(Refusal::UnsupportedEncoding);
    }
    Ok(message.payload)
}

/// Everything that can be said before the body is read.
fn read_head(
    head: &Parts,
    path: &'static str,
    arrived: Instant,
) -> Result<(Coding, Option<Instant>), Refusal> {
    if head.version != Version::HTTP_2 {
        return Err(Refusal::NeedsHttp2);
    }
    if head.method != Method::POST {
        return Err(Refusal::WrongMethod);
    }
    if !media_type::is_grpc_protobuf(head.headers.get(CONTENT_TYPE)) {
        return Err(Refusal::UnsupportedGrpcType);
    }
    if head.uri.path() != path {
        return Err(Refusal::NotFound { path });
    }
    let coding = media_type::coding(head.headers.get("grpc-encoding")).ok_or(Refusal::UnsupportedEncoding)?;
    let deadline = match head.headers.get("grpc-timeout") {
        // So far away that the clock does not reach it: none.
        Some(value) => arrived.checked_add(grpc_timeout::parse(value.as_bytes())?),
        None => None,
    };
    Ok((coding, deadline))
}

/// `held` takes the room for it, if it counts.
async fn read_message<B>(limit: usize, body: &mut B, mut held: Option<&mut Held>) -> Result<Message, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut reader = MessageReader::new(limit);
    while let Some(data) = next_data(body).await? {
        reader.push(data)?;
        if held.as_mut().is_some_and(|held| !held.arriving(reader.size())) {
            return Err(Refusal::NoRoom);
        }
    }
    Ok(reader.finish()?)
}
