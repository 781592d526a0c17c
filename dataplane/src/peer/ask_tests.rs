#![allow(clippy::unwrap_used, clippy::panic)]

use std::convert::Infallible;
use std::path::PathBuf;

use http::Response;
use hyper::body::Incoming;
use hyper::server::conn::http2 as server;
use hyper::service::service_fn;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::*;
use crate::receive::refusal::Refusal;
use crate::receive::reply::{ReplyBody, grpc_message, grpc_refusal};
use crate::tls::TlsFiles;
use crate::tls::server::WatchedServer;

/// A pod that gives `reply` to every question.
async fn pod(
    tls: Option<WatchedServer>,
    reply: impl Fn() -> Response<ReplyBody> + Clone + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let stream = match &tls {
                None => Stream::Plain(stream),
                Some(tls) => match tls::server::accept(tls, stream).await {
                    Ok(stream) => stream,
                    Err(_) => continue,
                },
            };
            let reply = reply.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let is_asked = request.uri().path() == SELF_PATH;
                let reply = if is_asked {
                    reply()
                } else {
                    grpc_refusal(&Refusal::Aborted)
                };
                async move { Ok::<_, Infallible>(reply) }
            });
            let connection = server::Builder::new(TokioExecutor::new());
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

fn document(document: Vec<u8>) -> impl Fn() -> Response<ReplyBody> + Clone + Send + 'static {
    move || {
        grpc_message(&SelfReply {
            document: document.clone(),
        })
    }
}

#[tokio::test]
async fn a_pod_says_who_it_is() {
    let address = pod(None, document(b"{\"id\":\"a\"}".to_vec())).await;
    assert_eq!(ask(address, None).await.unwrap().id, "a");
    // A field of a later version makes it as long as it may be.
    let (begin, end) = ("{\"id\":\"b\",\"later\":\"", "\"}");
    let filling = "x".repeat(MAX_BYTES - begin.len() - end.len());
    let largest = [begin, &filling, end].concat().into_bytes();
    let address = pod(None, document(largest)).await;
    assert_eq!(ask(address, None).await.unwrap().id, "b");
}

#[tokio::test]
async fn what_is_no_answer_is_told_apart() {
    let nonsense = pod(None, document(b"nonsense".to_vec())).await;
    assert!(matches!(ask(nonsense, None).await, Err(AskError::Nonsense(_))));
    let long = pod(None, document(vec![b' '; MAX_REPLY_BYTES + 1])).await;
    assert!(matches!(ask(long, None).await, Err(AskError::Malformed)));
    let refusing = pod(None, || grpc_refusal(&Refusal::NotFound { path: "/" })).await;
    assert!(matches!(
        ask(refusing, None).await,
        Err(AskError::Refused(Code::Unimplemented))
    ));
    let empty = pod(None, || Response::new(ReplyBody::default())).await;
    assert!(matches!(ask(empty, None).await, Err(AskError::Malformed)));

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other_protocol = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"SSH-2.0-x\r\n").await.unwrap();
    });
    assert!(matches!(
        ask(other_protocol, None).await,
        Err(AskError::Connection(_))
    ));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    assert!(matches!(ask(nobody, None).await, Err(AskError::Connection(_))));
}

#[tokio::test]
async fn over_tls_one_pair_serves_both_sides_and_a_stranger_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, text: String| -> PathBuf {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let files = |ca: &str| {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = put(&format!("{ca}.ca"), params.self_signed(&key).unwrap().pem());
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([SERVER_NAME.to_owned()])
            .unwrap()
            .signed_by(&key, &issuer)
            .unwrap();
        let certificate = put(&format!("{ca}.crt"), certificate.pem());
        let key = put(&format!("{ca}.key"), key.serialize_pem());
        TlsFiles {
            setting: "peer.tls",
            pair: Some((certificate, key)),
            ca: Some(root),
        }
    };
    let (ours, theirs) = (files("ours"), files("theirs"));
    let tls = tls::server::load(ours.clone(), tls::HTTP2).unwrap();
    let address = pod(Some(tls), document(b"{\"id\":\"a\"}".to_vec())).await;
    let client = tls::client::load(ours, tls::HTTP2).unwrap();
    assert_eq!(ask(address, Some(&client)).await.unwrap().id, "a");
    let stranger = tls::client::load(theirs, tls::HTTP2).unwrap();
    assert!(matches!(
        ask(address, Some(&stranger)).await,
        Err(AskError::Connection(_))
    ));
    assert!(matches!(ask(address, None).await, Err(AskError::Connection(_))));
}
