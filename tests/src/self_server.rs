//! Answers `Self` in place of a data plane: what the operator hears of a pod that has no process.
//!
//! Invariants: it speaks gRPC over HTTP/2, with mutual TLS if it has a pair; dropping it closes its port and all
//! connections.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jevmetrics_api::member::Member;
use jevmetrics_api::peer::{SELF_PATH, SelfReply};
use prost::Message as _;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tonic::Code;

/// What it answers: a document, or that it is not available.
type Answer = Arc<dyn Fn() -> Option<Member> + Send + Sync>;

/// A running server.
#[derive(Debug)]
pub struct SelfServer(AbortHandle);

impl SelfServer {
    /// Listens at `address` when this returns, and calls `answer` for each question. Needs a runtime.
    ///
    /// # Errors
    /// The address cannot be taken.
    pub fn start(
        address: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
        answer: impl Fn() -> Option<Member> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        let socket = tokio::net::TcpListener::from_std(socket)?;
        let accepting = accept(socket, tls.map(TlsAcceptor::from), Arc::new(answer));
        Ok(Self(tokio::spawn(accepting).abort_handle()))
    }
}

impl Drop for SelfServer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn accept(socket: tokio::net::TcpListener, tls: Option<TlsAcceptor>, answer: Answer) {
    // Goes with this task, and its connections with it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            // A failed accept concerns that client only.
            accepted = socket.accept() => if let Ok((stream, _)) = accepted {
                let (tls, answer) = (tls.clone(), Arc::clone(&answer));
                connections.spawn(async move {
                    match tls {
                        None => serve(stream, answer).await,
                        Some(tls) => if let Ok(stream) = tls.accept(stream).await {
                            serve(stream, answer).await;
                        },
                    }
                });
            }
        }
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, answer: Answer) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = Arc::clone(&answer);
        async move { Ok::<_, std::convert::Infallible>(reply(request, &*answer).await) }
    });
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // Errors here are the client's going away.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn reply(
    request: Request<Incoming>,
    answer: &(dyn Fn() -> Option<Member> + Send + Sync),
) -> Response<http_body_util::combinators::BoxBody<Bytes, std::convert::Infallible>> {
    let is_known = request.uri().path() == SELF_PATH;
    // What it says is not looked at: the request has no fields.
    let _ = request.into_body().collect().await;
    let (code, body) = match (is_known, answer()) {
        (false, _) => (Code::Unimplemented, Bytes::new()),
        (true, None) => (Code::Unavailable, Bytes::new()),
        (true, Some(member)) => (Code::Ok, framed(&member)),
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(i32::from(code)));
    let body = Full::new(body).with_trailers(async move { Some(Ok(trailers)) });
    let mut response = Response::new(body.boxed());
    let content_type = HeaderValue::from_static("application/grpc");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, content_type);
    response
}

fn framed(member: &Member) -> Bytes {
    let message = SelfReply {
        document: member.to_json(),
    }
    .encode_to_vec();
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[0][..], &length, &message].concat().into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::Ipv4Addr;

    use jevmetrics_api::member::{InferenceReport, PolicyReport, State};

    use super::*;
    use crate::peer::ask;

    #[tokio::test]
    async fn what_it_is_given_is_what_a_peer_hears() {
        let port = crate::ports::free_port(Ipv4Addr::LOCALHOST.into()).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let member = Member {
            id: "pod-1".to_owned(),
            hostname: "pod".to_owned(),
            version: "1".to_owned(),
            started_at: 1,
            last_seen: 2,
            is_this_pod: false,
            leader_locks: Vec::new(),
            pod: None,
            uid: None,
            node: None,
            epoch: None,
            routing_policy: None,
            slot: None,
            zone: None,
            state: State::Serving,
            settings_digest: String::new(),
            revision: "1".to_owned(),
            policy: PolicyReport::default(),
            inference: InferenceReport::default(),
            coordination: None,
            coverage: None,
            counters: None,
        };
        let told = member.clone();
        let server = SelfServer::start(address, None, move || Some(told.clone())).unwrap();
        assert_eq!(ask(address).await.unwrap(), member);
        drop(server);
        crate::poll::eventually(
            "a closed port",
            std::time::Duration::from_secs(10),
            async || match ask(address).await {
                Ok(_) => Err("an answer"),
                Err(_) => Ok(()),
            },
        )
        .await
        .unwrap();
    }
}
