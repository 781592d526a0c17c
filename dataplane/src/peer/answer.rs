//! One call: which method, then its answer.

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use jevmetrics_api::peer::{SELF_PATH, SelfReply, SelfRequest};
use prost::Message as _;

use super::heartbeat::Heartbeat;
use crate::receive::framing::FramingError;
use crate::receive::grpc::read_small;
use crate::receive::refusal::Refusal;
use crate::receive::reply::{ReplyBody, grpc_message, grpc_refusal};

/// A request without fields, and room for those that later versions may add.
const MAX_REQUEST_BYTES: usize = 1024;

/// Never fails: whatever happens, the caller gets an answer.
pub(super) async fn answer<B>(heartbeat: &Heartbeat, request: Request<B>) -> Response<ReplyBody>
where
    B: Body<Data = Bytes> + Unpin + Send,
{
    let (head, mut body) = request.into_parts();
    let message = match read_small(SELF_PATH, MAX_REQUEST_BYTES, &head, &mut body).await {
        Ok(message) => message,
        Err(refusal) => return grpc_refusal(&refusal),
    };
    if SelfRequest::decode(message).is_err() {
        return grpc_refusal(&Refusal::Framing(FramingError::NotProtobuf));
    }
    let document = heartbeat.document().to_json();
    grpc_message(&SelfReply { document })
}
