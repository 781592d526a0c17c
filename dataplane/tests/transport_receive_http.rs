//! OTLP/HTTP over sockets: what senders send, and what they are told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod transport_support;

use std::net::SocketAddr;
use std::time::Duration;

use jevmetrics_dataplane::receive::in_flight::BytesInFlight;
use jevmetrics_dataplane::receive::stats::{Cause, Transport};
use jevmetrics_dataplane::verdict::Verdict;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;
use transport_support::{Answer, Frames, Http2, Setup, gzip, soon};

/// HTTP/1.1 by hand.
struct Http1(TcpStream);

#[derive(Debug)]
struct Text {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Http1 {
    async fn connect(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    async fn post(&mut self, headers: &str, body: &[u8]) -> Text {
        let length = body.len();
        let head =
            format!("POST /v1/metrics HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n{headers}\r\n");
        self.send(&[head.as_bytes(), body].concat()).await;
        self.answer().await
    }

    async fn answer(&mut self) -> Text {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(soon("answer", self.0.read_u8()).await.expect("connection closed"));
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        soon("body", self.0.read_exact(&mut body)).await.unwrap();
        Text {
            status: head[9..12].parse().unwrap(),
            head,
            body,
        }
    }

    async fn is_closed(&mut self) {
        let mut rest = Vec::new();
        let _ = soon("end of connection", self.0.read_to_end(&mut rest)).await;
    }
}

const PROTOBUF: &str = "content-type: application/x-protobuf\r\n";

fn code_in(body: &[u8]) -> i32 {
    // google.rpc.Status, field 1.
    assert_eq!(body[0], 0x08, "{body:?}");
    i32::from(body[1])
}

fn echoing_length() -> Answer {
    Answer::by(|request| {
        let rejected = request.body.len() as u64;
        std::future::ready(Verdict::Partial {
            rejected,
            message: "length".to_owned(),
        })
    })
}

#[tokio::test]
async fn the_media_type_is_compared_and_not_the_header() {
    let server = Setup::default().start(Answer::with(Verdict::Accepted)).await;
    let mut client = Http1::connect(server.address).await;
    for content_type in [
        "application/x-protobuf",
        "Application/X-Protobuf",
        "application/x-protobuf;charset=utf-8",
        "  application/x-protobuf ; version=1 ",
    ] {
        let answer = client
            .post(&format!("content-type: {content_type}\r\n"), b"metrics")
            .await;
        assert_eq!(answer.status, 200, "{content_type}");
        assert!(
            answer.head.contains("content-type: application/x-protobuf"),
            "{}",
            answer.head
        );
        assert!(answer.body.is_empty());
    }
    for header in [
        "content-type: application/json\r\n",
        "content-type: text/plain\r\n",
        "",
    ] {
        let answer = client.post(header, b"{}").await;
        assert_eq!(answer.status, 415, "{header}");
        assert!(String::from_utf8_lossy(&answer.body).contains("application/x-protobuf"));
    }
    assert_eq!(
        server
            .stats
            .refused_requests(Transport::Http, Cause::UnsupportedMediaType),
        3
    );
    assert_eq!(server.stats.requests(Transport::Http), 7, "all on one connection");
    assert_eq!(server.stats.connections(), 1);
}

#[tokio::test]
async fn gzip_is_unpacked_and_other_codings_are_refused() {
    let server = Setup::default().start(echoing_length()).await;
    let mut client = Http1::connect(server.address).await;
    let answer = client
        .post(&format!("{PROTOBUF}content-encoding: GZIP\r\n"), &gzip(&[7; 120]))
        .await;
    assert_eq!(
        (answer.status, &answer.body[..4]),
        (200, &[0x0a, 10, 0x08, 120][..])
    );
    let answer = client
        .post(&format!("{PROTOBUF}content-encoding: identity\r\n"), &[7; 100])
        .await;
    assert_eq!(
        (answer.status, &answer.body[..4]),
        (200, &[0x0a, 10, 0x08, 100][..])
    );

    let answer = client
        .post(&format!("{PROTOBUF}content-encoding: zstd\r\n"), b"x")
        .await;
    assert_eq!(answer.status, 415);
    assert!(
        answer.head.contains("accept-encoding: identity,gzip"),
        "{}",
        answer.head
    );
    let answer = client
        .post(&format!("{PROTOBUF}content-encoding: gzip\r\n"), b"not gzip")
        .await;
    assert_eq!(
        (answer.status, code_in(&answer.body)),
        (400, Code::InvalidArgument as i32)
    );
    let bomb = gzip(&vec![0; 50_000_000]);
    let answer = client
        .post(&format!("{PROTOBUF}content-encoding: gzip\r\n"), &bomb)
        .await;
    assert_eq!(answer.status, 413);
    assert!(String::from_utf8_lossy(&answer.body).contains("maxUnpackedBytes"));
}

#[tokio::test]
async fn a_request_without_room_beside_others_is_told_to_come_again() {
    let setup = Setup {
        bytes_in_flight: BytesInFlight::new(1_000),
        ..Setup::default()
    };
    let room = setup.bytes_in_flight.clone();
    let server = setup.start(Answer::with(Verdict::Accepted)).await;
    let mut beside = room.begin();
    assert!(beside.arriving(700));
    let mut client = Http1::connect(server.address).await;
    let answer = client.post(PROTOBUF, &[7; 100]).await;
    assert_eq!(
        (answer.status, code_in(&answer.body)),
        (503, Code::Unavailable as i32)
    );
    assert!(answer.head.contains("retry-after: 1\r\n"), "{}", answer.head);
    assert_eq!(server.stats.refused_requests(Transport::Http, Cause::NoRoom), 1);
    assert_eq!(client.post(PROTOBUF, &[7; 50]).await.status, 200);
    drop(beside);
    assert_eq!(client.post(PROTOBUF, &[7; 100]).await.status, 200);
    assert_eq!(room.held(), 0);
}

/// Far more than the buffers between a sender and a server take.
const LARGE: usize = 20 << 20;

#[tokio::test]
async fn what_a_refused_sender_still_sends_is_thrown_away_and_its_connection_lives_on() {
    let server = Setup::default().start(Answer::with(Verdict::Accepted)).await;
    let mut client = Http1::connect(server.address).await;
    let large = vec![7; LARGE];
    for (header, status) in [
        ("content-type: text/plain\r\n", 415),
        (PROTOBUF, 413),
        ("content-type: application/grpc\r\n", 505),
    ] {
        let answer = client.post(header, &large).await;
        assert_eq!(answer.status, status, "{}", answer.head);
        assert!(!answer.head.contains("connection: close"), "{}", answer.head);
        assert_eq!(client.post(PROTOBUF, b"metrics").await.status, 200);
    }
    assert_eq!(server.stats.connections(), 1);
}

#[tokio::test]
async fn a_refused_sender_need_not_have_sent_all_to_be_answered() {
    let server = Setup::default().start(Answer::with(Verdict::Accepted)).await;
    let mut client = Http1::connect(server.address).await;
    let head = "POST /v1/traces HTTP/1.1\r\nhost: h\r\ncontent-length: 1000000\r\n\r\n";
    client.send(head.as_bytes()).await;
    assert_eq!(client.answer().await.status, 404);
    client.send(&vec![7; 1_000_000]).await;
    assert_eq!(client.post(PROTOBUF, b"metrics").await.status, 200);
}

#[tokio::test]
async fn a_body_that_announces_too_much_is_refused_before_it_is_sent() {
    let server = Setup::default().start(Answer::with(Verdict::Accepted)).await;
    let mut client = Http1::connect(server.address).await;
    let head = format!(
        "POST /v1/metrics HTTP/1.1\r\nhost: h\r\n{PROTOBUF}content-length: 100001\r\nexpect: 100-continue\r\n\r\n"
    );
    client.send(head.as_bytes()).await;
    let answer = client.answer().await;
    assert_eq!(
        (answer.status, code_in(&answer.body)),
        (413, Code::InvalidArgument as i32)
    );
    assert!(String::from_utf8_lossy(&answer.body).contains("maxRequestBytes"));
    assert_eq!(server.stats.refused_requests(Transport::Http, Cause::TooLarge), 1);
    // It may send the body or not: what comes next cannot be told.
    assert!(answer.head.contains("connection: close"), "{}", answer.head);
    client.is_closed().await;
}

#[tokio::test]
async fn a_body_without_length_is_cut_off_at_the_limit() {
    let server = Setup {
        max_request_bytes: 1_000,
        ..Setup::default()
    }
    .start(echoing_length())
    .await;
    let mut client = Http1::connect(server.address).await;
    let head =
        format!("POST /v1/metrics HTTP/1.1\r\nhost: h\r\n{PROTOBUF}transfer-encoding: chunked\r\n\r\n");
    let chunk = [&b"190\r\n"[..], &[1; 400], b"\r\n"].concat();
    let small = [head.as_bytes(), &chunk, &chunk, b"0\r\n\r\n"].concat();
    client.send(&small).await;
    assert_eq!(client.answer().await.status, 200);
    let large = [head.as_bytes(), &chunk, &chunk, &chunk, b"0\r\n\r\n"].concat();
    client.send(&large).await;
    assert_eq!(client.answer().await.status, 413);
}

#[tokio::test]
async fn a_sender_that_asks_first_is_told_to_go_on() {
    let server = Setup::default().start(echoing_length()).await;
    let mut client = Http1::connect(server.address).await;
    let head = format!(
        "POST /v1/metrics HTTP/1.1\r\nhost: h\r\n{PROTOBUF}content-length: 3\r\nexpect: 100-continue\r\n\r\n"
    );
    client.send(head.as_bytes()).await;
    assert_eq!(client.answer().await.status, 100);
    client.send(b"abc").await;
    assert_eq!(client.answer().await.status, 200);
}

#[tokio::test]
async fn other_paths_and_methods_are_told_so() {
    let server = Setup::default().start(Answer::with(Verdict::Accepted)).await;
    let mut client = Http1::connect(server.address).await;
    client
        .send(b"POST /v1/traces HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.status, 404);
    client
        .send(b"PUT /v1/metrics HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n")
        .await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 405);
    assert!(answer.head.contains("allow: post"), "{}", answer.head);
    client
        .send(b"POST /x HTTP/1.1\r\nhost: h\r\ncontent-type: application/grpc\r\ncontent-length: 0\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.status, 505);
}

#[tokio::test]
async fn verdicts_become_statuses() {
    let temporary = |code, wait| Verdict::Temporary {
        code,
        message: "later".into(),
        wait,
    };
    let permanent = |code| Verdict::Permanent {
        code,
        message: "never".into(),
    };
    let wait = Some(Duration::from_millis(2_100));
    for (verdict, status, retry_after) in [
        (temporary(Code::Unavailable, None), 503, None),
        (temporary(Code::Unavailable, wait), 503, Some("retry-after: 3")),
        (
            temporary(Code::ResourceExhausted, wait),
            429,
            Some("retry-after: 3"),
        ),
        (temporary(Code::DeadlineExceeded, None), 504, None),
        (permanent(Code::InvalidArgument), 400, None),
        (permanent(Code::Unauthenticated), 401, None),
        (permanent(Code::PermissionDenied), 403, None),
        (permanent(Code::Unavailable), 400, None),
    ] {
        let server = Setup::default().start(Answer::with(verdict.clone())).await;
        let answer = Http1::connect(server.address)
            .await
            .post(PROTOBUF, b"metrics")
            .await;
        assert_eq!(answer.status, status, "{verdict:?}");
        assert_eq!(
            answer.head.lines().find(|line| line.starts_with("retry-after")),
            retry_after
        );
        assert_ne!(code_in(&answer.body), 0);
    }
}

#[tokio::test]
async fn a_panic_leaves_the_connection_usable() {
    let handler = Answer::by(|request| async move {
        assert_ne!(&request.body[..], b"poison", "on purpose");
        Verdict::Accepted
    });
    let server = Setup::default().start(handler).await;
    let mut client = Http1::connect(server.address).await;
    assert_eq!(client.post(PROTOBUF, b"poison").await.status, 500);
    assert_eq!(client.post(PROTOBUF, b"good").await.status, 200);
}

#[tokio::test]
async fn http_over_http2_is_served_on_the_same_port() {
    let server = Setup::default().start(echoing_length()).await;
    let client = Http2::connect(server.address).await;
    let request = client
        .post("/v1/metrics")
        .header("content-type", "application/x-protobuf");
    let answer = client
        .call(request.body(Frames::of(&[b"ab", b"cd"])).unwrap())
        .await;
    assert_eq!(
        (answer.status, &answer.body[..4]),
        (200, &[0x0a, 10, 0x08, 4][..])
    );
    assert_eq!(server.stats.requests(Transport::Http), 1);
}

#[tokio::test]
async fn an_old_connection_is_closed_after_its_answer() {
    let server = Setup {
        age: Duration::from_millis(30),
        ..Setup::default()
    }
    .start(Answer::with(Verdict::Accepted))
    .await;
    let mut client = Http1::connect(server.address).await;
    assert_eq!(client.post(PROTOBUF, b"metrics").await.status, 200);
    client.is_closed().await;
}
