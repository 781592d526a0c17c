//! One question to one pod.

use std::time::Duration;

use http::uri::PathAndQuery;
use jevmetrics_api::member::{Member, MemberError};
use jevmetrics_api::peer::{PORT, SELF_PATH, SelfReply, SelfRequest};
use tonic::client::Grpc;
use tonic::transport::{ClientTlsConfig, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

/// All that one question may take.
const DEADLINE: Duration = Duration::from_secs(3);
/// A document with what gRPC adds to it.
const MAX_REPLY_BYTES: usize = jevmetrics_api::member::MAX_BYTES + 64;

/// Why a pod did not answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No connection.
    #[error("failed to connect: {0}")]
    Connect(#[from] tonic::transport::Error),
    /// No answer in time.
    #[error("no answer within {DEADLINE:?}")]
    Late,
    /// Another answer.
    #[error("refused: {0}")]
    Refused(#[from] Box<Status>),
    /// An answer that cannot be read.
    #[error(transparent)]
    Nonsense(#[from] MemberError),
}

/// Asks the pod at `address` how it is.
pub(super) async fn ask(address: &str, tls: Option<ClientTlsConfig>) -> Result<Member, AskError> {
    tokio::time::timeout(DEADLINE, exchange(address, tls))
        .await
        .map_err(|_| AskError::Late)?
}

async fn exchange(address: &str, tls: Option<ClientTlsConfig>) -> Result<Member, AskError> {
    let host = if address.contains(':') {
        format!("[{address}]")
    } else {
        address.to_owned()
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{host}:{PORT}"))?.connect_timeout(DEADLINE);
    if let Some(tls) = tls {
        endpoint = endpoint.tls_config(tls)?;
    }
    let channel = endpoint.connect().await?;
    let mut client = Grpc::new(channel).max_decoding_message_size(MAX_REPLY_BYTES);
    client.ready().await?;
    let codec = ProstCodec::<SelfRequest, SelfReply>::default();
    let path = PathAndQuery::from_static(SELF_PATH);
    let reply = client
        .unary(Request::new(SelfRequest {}), path, codec)
        .await
        .map_err(Box::new)?;
    Ok(Member::from_json(&reply.into_inner().document)?)
}
