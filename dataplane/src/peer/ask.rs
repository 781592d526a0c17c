//! Asks another pod who it is, as the operator does.
//!
//! ```text
//! connect -> TLS? -> HTTP/2 -> Peer/Self -> heartbeat document
//! ```
//! Invariants: one connection a question; time and bytes are bounded.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jevmetrics_api::member::{MAX_BYTES, Member, MemberError};
use jevmetrics_api::peer::{SELF_PATH, SERVER_NAME, SelfReply, SelfRequest};
use prost::Message as _;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::Code;

use crate::root_cause::root_cause;
use crate::tls::client::WatchedClient;
use crate::tls::{self, Stream};
use crate::wire_messages::{PREFIX_LEN, prefix};

/// All that one question may take.
const DEADLINE: Duration = Duration::from_secs(3);
/// A document with what gRPC adds to it.
const MAX_REPLY_BYTES: usize = MAX_BYTES + 64;

/// Why a pod did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// No connection, or its end.
    #[error("no connection: {0}")]
    Connection(String),
    /// No answer in time.
    #[error("no answer within {DEADLINE:?}")]
    Late,
    /// Another answer.
    #[error("refused: {0}")]
    Refused(Code),
    /// An answer that is none.
    #[error("an answer of another form")]
    Malformed,
    /// An answer that cannot be read.
    #[error(transparent)]
    Nonsense(#[from] MemberError),
}

/// Asks the pod whose peer port is at `address`.
pub(crate) async fn ask(address: SocketAddr, tls: Option<&WatchedClient>) -> Result<Member, AskError> {
    tokio::time::timeout(DEADLINE, exchange(address, tls))
        .await
        .map_err(|_| AskError::Late)?
}

async fn exchange(address: SocketAddr, tls: Option<&WatchedClient>) -> Result<Member, AskError> {
    let stream = open(address, tls).await?;
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| AskError::Connection(root_cause(&error)))?;
    // Ends with this call, answered or not.
    let mut driving = JoinSet::new();
    driving.spawn(connection);
    let message = SelfRequest {}.encode_to_vec();
    let framed = [&prefix(false, message.len())[..], &message].concat();
    let request = Request::post(format!("http://{SERVER_NAME}{SELF_PATH}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from(framed)))
        .map_err(|_| AskError::Malformed)?;
    let (head, body) = sender
        .send_request(request)
        .await
        .map_err(|error| AskError::Connection(root_cause(&error)))?
        .into_parts();
    if let Some(code) = code(&head.headers)
        && code != Code::Ok
    {
        return Err(AskError::Refused(code));
    }
    let body = Limited::new(body, MAX_REPLY_BYTES)
        .collect()
        .await
        .map_err(|_| AskError::Malformed)?;
    match body.trailers().and_then(code) {
        Some(Code::Ok) => {}
        Some(code) => return Err(AskError::Refused(code)),
        None => return Err(AskError::Malformed),
    }
    let framed = body.to_bytes();
    let (head, message) = framed.split_at_checked(PREFIX_LEN).ok_or(AskError::Malformed)?;
    if head != prefix(false, message.len()) {
        return Err(AskError::Malformed);
    }
    let reply = SelfReply::decode(message).map_err(|_| AskError::Malformed)?;
    Ok(Member::from_json(&reply.document)?)
}

async fn open(address: SocketAddr, tls: Option<&WatchedClient>) -> Result<Stream, AskError> {
    let failed = |error: std::io::Error| AskError::Connection(root_cause(&error));
    let stream = TcpStream::connect(address).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let Some(client) = tls else {
        return Ok(Stream::Plain(stream));
    };
    let name = ServerName::try_from(SERVER_NAME).map_err(|_| AskError::Malformed)?;
    tls::client::connect(client, name, stream).await.map_err(failed)
}

/// What the headers or trailers of an answer say of it.
fn code(headers: &HeaderMap) -> Option<Code> {
    Some(Code::from_bytes(headers.get("grpc-status")?.as_bytes()))
}

#[cfg(test)]
#[path = "ask_tests.rs"]
mod tests;
