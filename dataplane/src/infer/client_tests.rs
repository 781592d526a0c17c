#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Response as HttpResponse, Uri};
use http_body::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::Body as Received;
use super::*;
use crate::infer::fixtures;

const KEY: &str = "jev-s3cret-key";
/// Long enough that only a reply which never comes runs into it.
const PATIENT: Duration = Duration::from_secs(30);

/// A request as the server saw it.
struct Seen {
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

type Respond = Arc<dyn Fn() -> HttpResponse<Body> + Send + Sync>;

/// Serves `respond` on every path and hands out what it saw.
async fn serve(
    respond: impl Fn() -> HttpResponse<Body> + Send + Sync + 'static,
) -> (SocketAddr, mpsc::UnboundedReceiver<Seen>) {
    let (sender, seen) = mpsc::unbounded_channel();
    let respond: Respond = Arc::new(respond);
    let app = Router::new()
        .fallback(
            |State((sender, respond)): State<(mpsc::UnboundedSender<Seen>, Respond)>,
             uri: Uri,
             headers: HeaderMap,
             body: Bytes| async move {
                sender.send(Seen { uri, headers, body }).unwrap();
                respond()
            },
        )
        .with_state((sender, respond));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    (address, seen)
}

/// Reads a request, sends `bytes`, and then closes the connection or leaves it hanging.
async fn serve_raw(bytes: &'static [u8], then_close: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut request = vec![0; 64 * 1024];
                let mut read = 0;
                while !request[..read].ends_with(b"}}}}") {
                    read += stream.read(&mut request[read..]).await.unwrap();
                }
                stream.write_all(bytes).await.unwrap();
                if !then_close {
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    address
}

/// A body without an end or an announced length.
struct Endless;

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'['; 16 * 1024])))))
    }
}

fn answer(status: u16, body: impl Into<Body>) -> HttpResponse<Body> {
    HttpResponse::builder()
        .status(status)
        .header("x-typesafe-request-id", "req-1")
        .header("retry-after", "7")
        .body(body.into())
        .unwrap()
}

fn key(value: &'static str) -> KeySource {
    Arc::new(move || HeaderValue::from_str(&format!("Bearer {value}")).ok())
}

fn client(address: SocketAddr, prefix: &str, timeout: Duration) -> JevClient {
    JevClient::new(
        &format!("http://{address}{prefix}"),
        "jev-latest".into(),
        timeout,
        Some(key(KEY)),
    )
    .unwrap()
}

async fn failure(client: &JevClient) -> Failure {
    client.ask(&fixtures::summary()).await.unwrap_err()
}

#[tokio::test]
async fn a_request_is_what_the_api_asks_for_and_its_answers_come_back() {
    let (address, mut seen) = serve(|| answer(200, fixtures::reply().to_string())).await;
    let reply = client(address, "/typesafe/", PATIENT)
        .ask(&fixtures::summary())
        .await
        .unwrap();
    assert_eq!(
        (reply.answers.keep.get(), reply.model.as_str()),
        (81, "jev-1.13.0")
    );

    let Seen { uri, headers, body } = seen.recv().await.unwrap();
    assert_eq!(uri, "/typesafe/v1/systemone");
    assert_eq!(headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(headers["accept"], "application/json");
    let expected = serde_json::to_vec(&Request::new("jev-latest", &fixtures::summary())).unwrap();
    assert_eq!(body, expected);
}

#[tokio::test]
async fn without_a_key_source_no_authorization_is_sent() {
    let (address, mut seen) = serve(|| answer(200, fixtures::reply().to_string())).await;
    let client = JevClient::new(&format!("http://{address}"), "laya".into(), PATIENT, None).unwrap();
    client.ask(&fixtures::summary()).await.unwrap();
    let seen = seen.recv().await.unwrap();
    assert_eq!(
        (seen.uri.path(), seen.headers.get("authorization")),
        ("/v1/systemone", None)
    );
}

#[tokio::test]
async fn the_key_is_read_for_each_request() {
    let (address, mut seen) = serve(|| answer(200, fixtures::reply().to_string())).await;
    let present = Arc::new(Mutex::new(None));
    let source = Arc::clone(&present);
    let key: KeySource = Arc::new(move || source.lock().unwrap().clone());
    let client = JevClient::new(&format!("http://{address}"), "m".into(), PATIENT, Some(key)).unwrap();

    assert_eq!(client.obstacle(), Some(Cause::KeyMissing));
    assert_eq!(failure(&client).await.cause(), Cause::KeyMissing);
    for value in ["Bearer one", "Bearer two"] {
        *present.lock().unwrap() = Some(HeaderValue::from_static(value));
        assert_eq!(client.obstacle(), None);
        client.ask(&fixtures::summary()).await.unwrap();
        assert_eq!(seen.recv().await.unwrap().headers["authorization"], value);
    }
    assert!(
        seen.try_recv().is_err(),
        "nothing was sent while there was no key"
    );
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (elsewhere, mut stolen) = serve(|| answer(200, fixtures::reply().to_string())).await;
    let (address, mut seen) = serve(move || {
        let location = format!("http://{elsewhere}/v1/systemone");
        HttpResponse::builder()
            .status(307)
            .header("location", location)
            .body(Body::empty())
            .unwrap()
    })
    .await;
    assert_eq!(
        failure(&client(address, "", PATIENT)).await.cause(),
        Cause::Redirect
    );
    assert!(seen.recv().await.is_some());
    assert!(stolen.try_recv().is_err());
}

#[tokio::test]
async fn status_wait_and_request_id_are_kept_and_the_echoed_input_is_not() {
    let (address, _seen) = serve(|| {
        let echo =
            r#"{"detail":[{"loc":["body"],"msg":"bad","type":"too_short","input":"http.server.errors"}]}"#;
        answer(422, echo)
    })
    .await;
    let client = client(address, "", PATIENT);
    let failure = failure(&client).await;
    assert_eq!(
        failure.to_string(),
        "refused, status 422, code too_short, request id req-1"
    );
    assert_eq!(failure.wait(), Some(Duration::from_secs(7)));
    let shown = format!("{failure} {failure:?} {client:?}");
    for secret in ["http.server.errors", "checkout", KEY, "Bearer"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[tokio::test]
async fn a_reply_longer_than_the_limit_is_not_read_to_its_end() {
    let (address, _seen) = serve(|| answer(200, Body::new(Endless))).await;
    let failure = failure(&client(address, "", PATIENT)).await;
    assert_eq!(
        failure.to_string(),
        "bad_answer, status 200, the reply is longer than 1048576 bytes, request id req-1"
    );

    let long = vec![b'['; REPLY_BYTES + 1];
    let (address, _seen) = serve(move || answer(529, long.clone())).await;
    assert_eq!(
        self::failure(&client(address, "", PATIENT)).await.cause(),
        Cause::Overloaded
    );
}

#[tokio::test]
async fn nonsense_with_status_200_is_a_bad_answer() {
    let (address, _seen) = serve(|| answer(200, "<html>s3cret</html>")).await;
    let failure = failure(&client(address, "", PATIENT)).await;
    assert_eq!(
        failure.to_string(),
        "bad_answer, status 200, the reply is not JSON, request id req-1"
    );
}

#[tokio::test]
async fn a_reply_that_does_not_come_in_time_is_a_timeout() {
    let soon = Duration::from_millis(200);
    let silent = serve_raw(b"", false).await;
    assert_eq!(failure(&client(silent, "", soon)).await.cause(), Cause::Timeout);
    let stalled = serve_raw(
        b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"model\":",
        false,
    )
    .await;
    assert_eq!(failure(&client(stalled, "", soon)).await.cause(), Cause::Timeout);
}

#[test]
fn a_status_counts_also_if_its_body_does_not_come() {
    let timeout = || Failure::new(Cause::Timeout);
    let table = [
        (200, Received::Broken(timeout()), Cause::Timeout),
        (200, Received::TooLong, Cause::BadAnswer),
        (401, Received::Broken(timeout()), Cause::Unauthorized),
        (429, Received::TooLong, Cause::RateLimited),
        (422, Received::Broken(timeout()), Cause::Refused),
    ];
    for (status, body, cause) in table {
        let status = StatusCode::from_u16(status).unwrap();
        let failure = conclude(status, &HeaderMap::new(), body, SystemTime::UNIX_EPOCH).unwrap_err();
        assert_eq!(failure.cause(), cause, "{status}");
    }
}

#[tokio::test]
async fn a_reply_cut_short_is_an_interruption() {
    let address = serve_raw(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"model\":", true).await;
    assert_eq!(
        failure(&client(address, "", PATIENT)).await.cause(),
        Cause::Interrupted
    );
    let address = serve_raw(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 500\r\n\r\n{", true).await;
    assert_eq!(
        failure(&client(address, "", PATIENT)).await.cause(),
        Cause::Forbidden
    );
    let address = serve_raw(b"this is not HTTP\r\n\r\n", true).await;
    assert_eq!(
        failure(&client(address, "", PATIENT)).await.cause(),
        Cause::Interrupted
    );
}

#[tokio::test]
async fn a_refused_connection_says_why() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let failure = failure(&client(address, "", PATIENT)).await;
    assert_eq!(failure.cause(), Cause::Connect);
    assert!(
        failure.to_string().to_lowercase().contains("connection refused"),
        "{failure}"
    );
}

#[tokio::test]
async fn a_failed_tls_handshake_says_why() {
    crate::tls::install_provider();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        std::future::pending::<()>().await;
    });
    // Not by `JevClient::new`: this machine may have no root certificates.
    let client = JevClient {
        clients: Clients::Fixed(Client::builder().tls_certs_only([]).no_proxy().build().unwrap()),
        endpoint: endpoint(&format!("https://{address}")).unwrap(),
        model: "m".into(),
        timeout: PATIENT,
        key: Some(key(KEY)),
    };
    let failure = failure(&client).await;
    assert_eq!(failure.cause(), Cause::Connect);
    assert!(failure.to_string().contains("InvalidContentType"), "{failure}");
}

#[test]
fn base_urls_are_parsed_or_refused_without_showing_them() {
    let new = |url: &str| JevClient::new(url, "m".into(), PATIENT, None);
    for (url, endpoint) in [
        ("http://h", "http://h/v1/systemone"),
        ("http://h/", "http://h/v1/systemone"),
        ("http://h:8000/a/b/", "http://h:8000/a/b/v1/systemone"),
    ] {
        assert_eq!(new(url).unwrap().endpoint.as_str(), endpoint);
    }
    for url in [
        "",
        "h",
        "/v1",
        "ftp://h",
        "http://u:s3cret@h",
        "http://h?k=s3cret",
        "http://h#s3cret",
        "http://",
    ] {
        let error = new(url).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
    }
}

#[test]
fn a_key_over_plain_http_is_exposed_unless_it_stays_on_this_machine() {
    for (url, exposed) in [
        ("http://jev.example", true),
        ("http://10.0.0.1", true),
        ("http://localhost:8000", false),
        ("http://127.0.0.2", false),
        ("http://[::1]:8000", false),
    ] {
        let client = JevClient::new(url, "m".into(), PATIENT, Some(key(KEY))).unwrap();
        assert_eq!(client.exposes_key(), exposed, "{url}");
        assert!(
            !JevClient::new(url, "m".into(), PATIENT, None)
                .unwrap()
                .exposes_key()
        );
    }
}

#[test]
fn long_reasons_are_cut_at_a_character() {
    assert_eq!(bounded("a\nb"), "a b");
    assert_eq!(bounded(&"é".repeat(150)).len(), 200);
    assert_eq!(bounded(&format!("a{}", "é".repeat(150))).len(), 199);
}
