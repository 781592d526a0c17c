//! Asks a data plane about itself, as the operator does.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jevmetrics_api::member::{Member, MemberError};
use jevmetrics_api::peer::{SELF_PATH, SelfReply, SelfRequest};
use prost::Message as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::{Code, Status};

/// For connecting and the whole call.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no document.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens, or the connection broke.
    #[error("the peer port cannot be reached: {0}")]
    Io(#[from] std::io::Error),
    /// No HTTP/2, or its end.
    #[error("the peer port does not speak HTTP/2 any more: {0}")]
    Http(#[from] hyper::Error),
    /// A status in place of an answer.
    #[error("the peer port answers {0:?}")]
    Refused(Code),
    /// An answer that is none.
    #[error("the peer port answers with something else")]
    Malformed,
    /// A document that cannot be read.
    #[error(transparent)]
    Document(#[from] MemberError),
    /// Silence.
    #[error("the peer port does not answer")]
    Silent,
}

/// Asks at `address`, without TLS.
///
/// # Errors
/// Any [`AskError`].
pub async fn ask(address: SocketAddr) -> Result<Member, AskError> {
    let asking = async { ask_over(TcpStream::connect(address).await?).await };
    timeout(PATIENCE, asking).await.map_err(|_| AskError::Silent)?
}

/// Asks over a connection on which TLS, if any, is agreed on.
///
/// # Errors
/// Any [`AskError`].
pub async fn ask_over<S>(stream: S) -> Result<Member, AskError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let reply = call(stream, SELF_PATH, &SelfRequest {}.encode_to_vec()).await?;
    let reply = SelfReply::decode(reply).map_err(|_| AskError::Malformed)?;
    Ok(Member::from_json(&reply.document)?)
}

/// Calls any method with any message, and gives the message of the answer.
///
/// # Errors
/// Any [`AskError`].
pub async fn call<S>(stream: S, path: &str, message: &[u8]) -> Result<Bytes, AskError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    let framed = [&[0][..], &length, message].concat();
    let request = Request::post(format!("http://peer{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from(framed)))
        .map_err(|_| AskError::Malformed)?;
    let answering = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?;
        let trailers = body.trailers().cloned().unwrap_or_default();
        let code = status(&head.headers).or_else(|| status(&trailers));
        match code {
            Some(Code::Ok) => {}
            code => return Err(code.map_or(AskError::Malformed, AskError::Refused)),
        }
        let framed = body.to_bytes();
        let prefix = framed.get(..5).ok_or(AskError::Malformed)?;
        let length = prefix[1..]
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        if prefix[0] != 0 || framed.len() != 5 + length {
            return Err(AskError::Malformed);
        }
        Ok(framed.slice(5..))
    };
    let answer = timeout(PATIENCE, answering).await.map_err(|_| AskError::Silent);
    connection.abort();
    answer?
}

fn status(headers: &HeaderMap) -> Option<Code> {
    Status::from_header_map(headers).map(|status| status.code())
}
