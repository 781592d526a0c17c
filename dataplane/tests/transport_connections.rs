//! Connections of senders: age, limits, and a stop that loses nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod transport_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jevmetrics_dataplane::receive::serve::bind;
use jevmetrics_dataplane::verdict::Verdict;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use transport_support::{Answer, Frames, Http2, Running, Setup, framed, soon, until};

/// A handler that waits to be let go.
#[derive(Clone, Default)]
struct Gate {
    entered: Arc<AtomicUsize>,
    open: CancellationToken,
}

impl Gate {
    fn handler(&self) -> Answer {
        let gate = self.clone();
        Answer::by(move |_| {
            let gate = gate.clone();
            async move {
                gate.entered.fetch_add(1, Ordering::SeqCst);
                gate.open.cancelled().await;
                Verdict::Accepted
            }
        })
    }

    async fn entered(&self, count: usize) {
        until("request in the handler", || {
            self.entered.load(Ordering::SeqCst) == count
        })
        .await;
    }
}

fn export(client: &Http2) -> http::Request<Frames> {
    client
        .export()
        .body(Frames::of(&[framed(false, b"metrics")]))
        .unwrap()
}

async fn closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    let _ = soon("end of connection", stream.read_to_end(&mut rest)).await;
}

async fn idle(server: &Running) -> TcpStream {
    let before = server.stats.connections();
    let stream = TcpStream::connect(server.address).await.unwrap();
    until("connection is open", || server.stats.connections() > before).await;
    stream
}

#[tokio::test]
async fn an_old_connection_finishes_its_request_and_ends() {
    let gate = Gate::default();
    let server = Setup {
        age: Duration::from_millis(50),
        ..Setup::default()
    }
    .start(gate.handler())
    .await;
    let client = Http2::connect(server.address).await;
    let request = export(&client);
    let mut sender = client.sender.clone();
    let running = tokio::spawn(async move { sender.send_request(request).await });
    gate.entered(1).await;
    // The connection takes no more requests once the server said that it goes away.
    let mut probe = client.sender.clone();
    soon("goodbye", async {
        let try_once = Duration::from_millis(20);
        while !matches!(
            tokio::time::timeout(try_once, probe.send_request(export(&client))).await,
            Ok(Err(_))
        ) {}
    })
    .await;
    gate.open.cancel();
    let answer = soon("answer of the running request", running).await;
    let answer = transport_support::whole(answer.unwrap().unwrap()).await;
    assert_eq!(answer.grpc().code(), Code::Ok);
    until("connection is closed", || server.stats.connections() == 0).await;
}

#[tokio::test]
async fn a_connection_that_says_nothing_ends_at_its_age() {
    let server = Setup {
        age: Duration::from_millis(50),
        ..Setup::default()
    }
    .start(Answer::with(Verdict::Accepted))
    .await;
    closed(TcpStream::connect(server.address).await.unwrap()).await;
    until("connection is closed", || server.stats.connections() == 0).await;
}

#[tokio::test]
async fn a_connection_that_stops_within_its_preface_ends_at_its_age() {
    let server = Setup {
        age: Duration::from_millis(50),
        ..Setup::default()
    }
    .start(Answer::with(Verdict::Accepted))
    .await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, b"PRI * HT")
        .await
        .unwrap();
    closed(stream).await;
}

#[tokio::test]
async fn a_stop_lets_running_requests_finish_and_closes_the_rest() {
    let gate = Gate::default();
    let server = Setup::default().start(gate.handler()).await;
    let silent = idle(&server).await;
    let unused = Http2::connect(server.address).await;
    let client = Http2::connect(server.address).await;
    let request = export(&client);
    let mut sender = client.sender.clone();
    let running = tokio::spawn(async move { sender.send_request(request).await });
    gate.entered(1).await;

    server.stop.cancel();
    closed(silent).await;
    soon("idle connection", unused.closed).await.unwrap();
    until("only the busy connection is left", || {
        server.stats.connections() == 1
    })
    .await;
    until("nobody listens", || {
        std::net::TcpStream::connect(server.address).is_err()
    })
    .await;
    assert!(!server.task.is_finished());

    gate.open.cancel();
    let answer = soon("answer", running).await.unwrap().unwrap();
    assert_eq!(transport_support::whole(answer).await.grpc().code(), Code::Ok);
    soon("end of serving", server.task).await.unwrap();
    assert_eq!(server.stats.connections(), 0);
}

#[tokio::test]
async fn a_stop_does_not_wait_longer_than_the_drain_time() {
    let gate = Gate::default();
    let server = Setup {
        drain: Duration::from_millis(50),
        ..Setup::default()
    }
    .start(gate.handler())
    .await;
    let client = Http2::connect(server.address).await;
    let request = export(&client);
    let mut sender = client.sender.clone();
    let running = tokio::spawn(async move { sender.send_request(request).await });
    gate.entered(1).await;
    server.stop.cancel();
    soon("end of serving", server.task).await.unwrap();
    assert!(soon("end of the request", running).await.unwrap().is_err());
}

#[tokio::test]
async fn connections_above_the_limit_are_closed_at_once_and_counted() {
    let setup = Setup {
        max_connections: 2,
        ..Setup::default()
    };
    let server = setup.start(Answer::with(Verdict::Accepted)).await;
    let first = idle(&server).await;
    let _second = idle(&server).await;
    closed(TcpStream::connect(server.address).await.unwrap()).await;
    assert_eq!(server.stats.refused_connections(), 1);
    assert_eq!(server.stats.connections(), 2);

    drop(first);
    until("place is free", || server.stats.connections() == 1).await;
    let client = Http2::connect(server.address).await;
    assert_eq!(client.call(export(&client)).await.grpc().code(), Code::Ok);
}

#[tokio::test]
async fn an_address_in_use_is_named_with_its_setting() {
    let server = Setup::default().start(Answer::with(Verdict::Accepted)).await;
    let error = bind("listen.grpc", server.address).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("listen.grpc: {}: address in use", server.address)
    );
}
