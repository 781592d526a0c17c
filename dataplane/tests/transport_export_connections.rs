//! The exporters when downstream refuses, vanishes, says goodbye and comes back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod transport_support;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use jevmetrics_dataplane::export::Exporter;
use jevmetrics_dataplane::export::Protocol;
use jevmetrics_dataplane::export::grpc::GrpcExporter;
use jevmetrics_dataplane::export::pack::Compression;
use jevmetrics_dataplane::export::resolve::{GrpcEndpoint, Resolve, Resolving};
use jevmetrics_dataplane::verdict::Verdict;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use transport_support::downstream::{
    Downstream, LOCAL, exporter, grpc, http, listen, no_headers, ok, send, serve, unavailable,
};
use transport_support::{Answer, PATIENCE, Setup, soon, until};

/// Sends until downstream accepts; everything before must be temporary.
async fn recovers(exporter: &Exporter) {
    soon("recovery", async {
        loop {
            match send(exporter).await {
                Verdict::Accepted => break,
                Verdict::Temporary { .. } => tokio::time::sleep(Duration::from_millis(5)).await,
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_connection_cut_in_the_middle_is_temporary_and_the_request_is_not_sent_again() {
    let listener = listen(SocketAddr::from((LOCAL, 0))).await;
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                if let Some(Ok((_, mut respond))) = connection.accept().await {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let mut body = respond.send_response(Response::new(()), false).unwrap();
                    body.send_data(Bytes::from_static(&[0, 0]), false).unwrap();
                    // Long enough to let the frames leave, then the connection is dropped.
                    let _ = tokio::time::timeout(Duration::from_millis(20), connection.accept()).await;
                }
            });
        }
    });
    assert!(unavailable(&send(&grpc(address)).await));
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

/// Serves HTTP/2; the first request of all is treated by `first`, the others are accepted.
async fn first_is_special<F>(first: F) -> (SocketAddr, Arc<AtomicUsize>)
where
    F: Fn(&mut h2::server::Connection<TcpStream, Bytes>, h2::server::SendResponse<Bytes>)
        + Send
        + Sync
        + 'static,
{
    let listener = listen(SocketAddr::from((LOCAL, 0))).await;
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let first = Arc::new(first);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (counted, first) = (Arc::clone(&counted), Arc::clone(&first));
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    if counted.fetch_add(1, Ordering::SeqCst) == 0 {
                        first(&mut connection, respond);
                        continue;
                    }
                    let response = Response::builder().header("grpc-status", "0").body(()).unwrap();
                    respond.send_response(response, true).unwrap();
                }
            });
        }
    });
    (address, requests)
}

#[tokio::test]
async fn a_refused_stream_is_sent_once_more() {
    let (address, requests) =
        first_is_special(|_, mut respond| respond.send_reset(h2::Reason::REFUSED_STREAM)).await;
    assert_eq!(send(&grpc(address)).await, Verdict::Accepted);
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_stream_that_was_reset_otherwise_is_not_sent_again() {
    let (address, requests) = first_is_special(|_, mut respond| respond.send_reset(h2::Reason::CANCEL)).await;
    assert!(unavailable(&send(&grpc(address)).await));
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_goodbye_that_does_not_reach_the_stream_sends_it_once_more() {
    // Written by hand: SETTINGS, then for the first request GOAWAY with last stream 0.
    let listener = listen(SocketAddr::from((LOCAL, 0))).await;
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut first = true;
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            if std::mem::take(&mut first) {
                tokio::spawn(async move {
                    use tokio::io::{AsyncReadExt, AsyncWriteExt};
                    let mut seen = Vec::new();
                    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
                    // A HEADERS frame has type 1 and stream 1.
                    while !seen
                        .windows(6)
                        .any(|bytes| bytes[0] == 1 && bytes[2..] == [0, 0, 0, 1])
                    {
                        seen.push(stream.read_u8().await.unwrap());
                    }
                    stream
                        .write_all(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
                        .await
                        .unwrap();
                    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
                });
                continue;
            }
            tokio::spawn(serve(stream, Arc::new(|_| ok()), CancellationToken::new()));
        }
    });
    let exporter = grpc(address);
    for _ in 0..4 {
        assert_eq!(send(&exporter).await, Verdict::Accepted);
    }
}

#[tokio::test]
async fn a_downstream_that_stops_and_returns_on_its_port_is_found_again() {
    let downstream = Downstream::start(|_| ok()).await;
    let address = downstream.address;
    let (grpc, http) = (grpc(address), http(address, Compression::None, no_headers()));
    assert_eq!(send(&grpc).await, Verdict::Accepted);
    assert_eq!(send(&http).await, Verdict::Accepted);

    downstream.stop.cancel();
    soon("goodbye", downstream.task).await.unwrap();
    assert!(unavailable(&send(&grpc).await));
    assert!(unavailable(&send(&http).await));

    let _again = Downstream::on(listen(address).await, |_| ok());
    recovers(&grpc).await;
    recovers(&http).await;
}

#[tokio::test]
async fn connections_that_say_goodbye_one_after_the_other_cost_no_request() {
    // Each connection serves two requests and then says goodbye gracefully.
    let listener = listen(SocketAddr::from((LOCAL, 0))).await;
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let stop = CancellationToken::new();
            let served = AtomicUsize::new(0);
            let last = stop.clone();
            let answer = move |_| {
                if served.fetch_add(1, Ordering::SeqCst) == 1 {
                    last.cancel();
                }
                ok()
            };
            tokio::spawn(serve(stream, Arc::new(answer), stop));
        }
    });
    let exporter = grpc(address);
    for _ in 0..60 {
        assert_eq!(send(&exporter).await, Verdict::Accepted);
    }
}

/// Addresses that a test can change.
struct Addresses(Mutex<Vec<SocketAddr>>);

impl Resolve for Addresses {
    fn resolve(&self) -> Resolving<'_> {
        let addresses = self.0.lock().unwrap().clone();
        Box::pin(std::future::ready(Ok(addresses)))
    }
}

#[tokio::test]
async fn all_addresses_are_used_and_one_that_is_down_costs_nothing() {
    let first = listen(SocketAddr::from((LOCAL, 0))).await;
    let port = first.local_addr().unwrap().port();
    let second = listen(SocketAddr::from(([127, 0, 0, 2], port))).await;
    let nobody = SocketAddr::from(([127, 0, 0, 3], port));
    let used = Arc::new(Mutex::new(HashSet::new()));
    let mut addresses = vec![nobody];
    let mut servers = Vec::new();
    for listener in [first, second] {
        let (used, address) = (Arc::clone(&used), listener.local_addr().unwrap());
        addresses.push(address);
        servers.push(Downstream::on(listener, move |_| {
            used.lock().unwrap().insert(address);
            ok()
        }));
    }
    let endpoint = GrpcEndpoint::parse("downstream:4317").unwrap();
    let resolver = Arc::new(Addresses(Mutex::new(addresses)));
    let grpc =
        GrpcExporter::with_resolver(&endpoint, resolver, Compression::None, no_headers(), PATIENCE).unwrap();
    let (exporter, _) = exporter(Protocol::Grpc(grpc));
    soon("both used", async {
        while used.lock().unwrap().len() < 2 {
            assert_eq!(send(&exporter).await, Verdict::Accepted);
        }
    })
    .await;
}

#[tokio::test]
async fn the_end_of_an_exporter_ends_its_connections() {
    let server = Setup::default().start(Answer::with(Verdict::Accepted)).await;
    let exporter = grpc(server.address);
    assert_eq!(send(&exporter).await, Verdict::Accepted);
    assert!(server.stats.connections() > 0);
    drop(exporter);
    until("connections are closed", || server.stats.connections() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn connections_that_age_under_load_lose_and_double_nothing() {
    const SENDERS: usize = 16;
    const EACH: usize = 150;
    let handled = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&handled);
    let setup = Setup {
        age: Duration::from_millis(15),
        ..Setup::default()
    };
    let server = setup
        .start(Answer::by(move |_| {
            let counted = Arc::clone(&counted);
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                counted.fetch_add(1, Ordering::SeqCst);
                Verdict::Accepted
            }
        }))
        .await;
    let exporter = Arc::new(grpc(server.address));
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..SENDERS {
        let exporter = Arc::clone(&exporter);
        senders.spawn(async move {
            for _ in 0..EACH {
                assert_eq!(send(&exporter).await, Verdict::Accepted);
            }
        });
    }
    while let Some(sender) = senders.join_next().await {
        sender.unwrap();
    }
    assert_eq!(handled.load(Ordering::SeqCst), SENDERS * EACH);
}

#[tokio::test]
async fn many_requests_at_once_are_each_answered() {
    let server = Setup::default().start(Answer::with(Verdict::Accepted)).await;
    let exporter = Arc::new(grpc(server.address));
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..500 {
        let exporter = Arc::clone(&exporter);
        running.spawn(async move { send(&exporter).await });
    }
    while let Some(verdict) = running.join_next().await {
        assert_eq!(verdict.unwrap(), Verdict::Accepted);
    }
}
