//! Sends any bytes as an OTLP message over gRPC, and says everything that came back.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use prost::Message as _;
use tonic::client::Grpc;
use tonic::codec::CompressionEncoding;
use tonic::metadata::{MetadataKey, MetadataMap, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use super::{PartialSuccess, partial_success};
use crate::raw_codec::{EXPORT_PATH, RawCodec};
use crate::rpc;

/// How to send one message.
#[derive(Debug, Clone, Default)]
pub struct GrpcOptions {
    /// Compress it.
    pub gzip: bool,
    /// Sent as `grpc-timeout`, and kept by the client too.
    pub deadline: Option<Duration>,
    /// Metadata in text; what is not valid is left out.
    pub metadata: Vec<(String, String)>,
    /// Another path than OTLP's.
    pub path: Option<&'static str>,
}

/// What came back. A connection that failed is a status too, as gRPC has it.
#[derive(Debug, Clone)]
pub struct GrpcOutcome {
    /// `Ok` if the message was accepted.
    pub code: Code,
    /// The status message.
    pub message: String,
    /// The wait in `RetryInfo`.
    pub retry_after: Option<Duration>,
    /// What an accepting answer said was rejected.
    pub partial_success: Option<PartialSuccess>,
    /// Metadata of the answer or of the status.
    pub metadata: MetadataMap,
    /// Whether somebody said so. If not, the status is this client's own: no connection, or one that broke, or its
    /// own deadline.
    pub is_answered: bool,
}

/// One connection; clones share it.
#[derive(Debug, Clone)]
pub struct GrpcSender {
    channel: Channel,
}

impl GrpcSender {
    /// Connects to `http://address:port`.
    ///
    /// # Errors
    /// The endpoint is no URL, or nobody listens.
    pub async fn connect(endpoint: &str) -> Result<Self, tonic::transport::Error> {
        let channel = endpoint_of(endpoint)?.connect().await?;
        Ok(Self { channel })
    }

    /// Connects at the first message, and again when the connection was lost.
    ///
    /// # Errors
    /// The endpoint is no URL.
    pub fn lazy(endpoint: &str) -> Result<Self, tonic::transport::Error> {
        Ok(Self {
            channel: endpoint_of(endpoint)?.connect_lazy(),
        })
    }

    /// Sends one message.
    pub async fn send(&self, message: Bytes, options: &GrpcOptions) -> GrpcOutcome {
        match self.call(message, options).await {
            Ok(response) => {
                let (metadata, answer, _) = response.into_parts();
                GrpcOutcome {
                    code: Code::Ok,
                    message: String::new(),
                    retry_after: None,
                    partial_success: partial_success(&answer),
                    metadata,
                    is_answered: true,
                }
            }
            Err(status) => GrpcOutcome {
                code: status.code(),
                message: status.message().to_owned(),
                retry_after: rpc::Status::decode(status.details())
                    .ok()
                    .and_then(|status| status.retry_after()),
                partial_success: None,
                metadata: status.metadata().clone(),
                // What a server says has no cause here.
                is_answered: status.source().is_none(),
            },
        }
    }

    async fn call(&self, message: Bytes, options: &GrpcOptions) -> Result<tonic::Response<Bytes>, Status> {
        let mut client = Grpc::new(self.channel.clone()).max_decoding_message_size(usize::MAX);
        if options.gzip {
            client = client.send_compressed(CompressionEncoding::Gzip);
        }
        let mut request = Request::new(message);
        if let Some(deadline) = options.deadline {
            request.set_timeout(deadline);
        }
        for (name, value) in &options.metadata {
            if let (Ok(name), Ok(value)) = (
                MetadataKey::from_bytes(name.as_bytes()),
                MetadataValue::try_from(value),
            ) {
                request.metadata_mut().insert(name, value);
            }
        }
        client
            .ready()
            .await
            .map_err(|error| Status::from_error(error.into()))?;
        let path = PathAndQuery::from_static(options.path.unwrap_or(EXPORT_PATH));
        client.unary(request, path, RawCodec).await
    }
}

fn endpoint_of(endpoint: &str) -> Result<Endpoint, tonic::transport::Error> {
    Ok(Endpoint::from_shared(endpoint.to_owned())?
        .tcp_nodelay(true)
        .connect_timeout(Duration::from_secs(10)))
}
