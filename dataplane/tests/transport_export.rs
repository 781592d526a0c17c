//! The exporters against small servers that answer, refuse, vanish and come back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod transport_support;

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use jevmetrics_dataplane::export::grpc::GrpcExporter;
use jevmetrics_dataplane::export::http::HttpExporter;
use jevmetrics_dataplane::export::pack::Compression;
use jevmetrics_dataplane::export::resolve::{GrpcEndpoint, Resolve, Resolving};
use jevmetrics_dataplane::export::stats::{Outcome, Stats};
use jevmetrics_dataplane::export::{Exporter, HeaderSource, Protocol, fixed_headers};
use jevmetrics_dataplane::verdict::Verdict;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use transport_support::{Answer, Frames, PATIENCE, Setup, framed, soon, until};

const LOCAL: [u8; 4] = [127, 0, 0, 1];

async fn listen(address: SocketAddr) -> TcpListener {
    TcpListener::bind(address).await.unwrap()
}

/// A request as downstream saw it.
struct Seen {
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// A server whose answers a test chooses; stopping it says goodbye, aborting it cuts.
struct Downstream {
    address: SocketAddr,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Downstream {
    async fn start<F>(answer: F) -> Self
    where
        F: Fn(Seen) -> Response<Frames> + Send + Sync + 'static,
    {
        Self::on(listen(SocketAddr::from((LOCAL, 0))).await, answer)
    }

    fn on<F>(listener: TcpListener, answer: F) -> Self
    where
        F: Fn(Seen) -> Response<Frames> + Send + Sync + 'static,
    {
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let answer = Arc::new(answer);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = tokio::select! {
                    accepted = listener.accept() => accepted.unwrap(),
                    () = stopped.cancelled() => break,
                };
                connections.spawn(serve(stream, Arc::clone(&answer), stopped.clone()));
            }
            drop(listener);
            while connections.join_next().await.is_some() {}
        });
        Self { address, stop, task }
    }
}

async fn serve<F>(stream: TcpStream, answer: Arc<F>, stop: CancellationToken)
where
    F: Fn(Seen) -> Response<Frames> + Send + Sync + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = Arc::clone(&answer);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok::<_, hyper::Error>(answer(Seen {
                path: head.uri.path().to_owned(),
                headers: head.headers,
                body,
            }))
        }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

fn ok() -> Response<Frames> {
    success(&[])
}

fn success(message: &[u8]) -> Response<Frames> {
    Response::new(Frames::of(&[framed(false, message)]).trailers(&[("grpc-status", "0")]))
}

/// Trailers only.
fn failure(headers: &[(&str, &str)]) -> Response<Frames> {
    let mut response = Response::builder();
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Frames::of::<&[u8]>(&[])).unwrap()
}

fn no_headers() -> HeaderSource {
    fixed_headers(HeaderMap::new())
}

fn exporter(protocol: Protocol) -> (Exporter, Stats) {
    let stats = Stats::register(&mut Registry::default());
    (Exporter::new(protocol, stats.clone()), stats)
}

fn grpc(address: SocketAddr) -> Exporter {
    grpc_with(address, Compression::None, no_headers())
}

fn grpc_with(address: SocketAddr, compression: Compression, headers: HeaderSource) -> Exporter {
    let endpoint = GrpcEndpoint::parse(&address.to_string()).unwrap();
    exporter(Protocol::Grpc(
        GrpcExporter::new(&endpoint, compression, headers, PATIENCE).unwrap(),
    ))
    .0
}

fn http(address: SocketAddr, compression: Compression, headers: HeaderSource) -> Exporter {
    let url = format!("http://{address}");
    exporter(Protocol::Http(
        HttpExporter::new(&url, compression, headers, PATIENCE).unwrap(),
    ))
    .0
}

async fn send(exporter: &Exporter) -> Verdict {
    let deadline = Instant::now() + PATIENCE;
    soon(
        "verdict",
        exporter.export(Bytes::from_static(b"metrics"), deadline),
    )
    .await
}

fn unavailable(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Temporary { code: Code::Unavailable, message, .. } if message.starts_with("downstream: "))
}

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
async fn a_grpc_request_carries_all_that_downstream_needs() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let downstream = Downstream::start(move |request| {
        requests.lock().unwrap().push(request);
        ok()
    })
    .await;
    let secret = Arc::new(Mutex::new("first"));
    let rotating = Arc::clone(&secret);
    let headers: HeaderSource = Arc::new(move || {
        let value = format!("Bearer {}", rotating.lock().unwrap()).parse().unwrap();
        Arc::new(HeaderMap::from_iter([(http::header::AUTHORIZATION, value)]))
    });
    let exporter = grpc_with(downstream.address, Compression::Gzip, headers);
    assert_eq!(send(&exporter).await, Verdict::Accepted);
    *secret.lock().unwrap() = "second";
    assert_eq!(send(&exporter).await, Verdict::Accepted);

    let seen = seen.lock().unwrap();
    let headers = &seen[0].headers;
    assert_eq!(seen[0].path, transport_support::EXPORT);
    assert_eq!(headers["content-type"], "application/grpc");
    assert_eq!(headers["te"], "trailers");
    assert_eq!(headers["grpc-encoding"], "gzip");
    assert_eq!(headers["authorization"], "Bearer first");
    assert_eq!(seen[1].headers["authorization"], "Bearer second");
    assert!(headers["user-agent"].to_str().unwrap().starts_with("jevmetrics/"));
    let timeout: u64 = headers["grpc-timeout"]
        .to_str()
        .unwrap()
        .strip_suffix('m')
        .unwrap()
        .parse()
        .unwrap();
    assert!(timeout > 0 && Duration::from_millis(timeout) <= PATIENCE);
    assert_eq!(seen[0].body[0], 1, "compressed");
    let mut plain = Vec::new();
    io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&seen[0].body[5..]), &mut plain).unwrap();
    assert_eq!(plain, b"metrics");
}

#[tokio::test]
async fn grpc_statuses_become_verdicts() {
    // google.rpc.Status{details: [RetryInfo{retry_delay: 2 s}]}
    let retry_info = "CA4aMAoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIECgIIAg";
    let wait = Some(Duration::from_secs(2));
    let temporary = |code, message: &str, wait| Verdict::Temporary {
        code,
        message: message.into(),
        wait,
    };
    let permanent = |code, message: &str| Verdict::Permanent {
        code,
        message: message.into(),
    };
    for (headers, expected) in [
        (
            vec![("grpc-status", "14"), ("grpc-message", "b%C3%BCsy")],
            temporary(Code::Unavailable, "downstream: büsy", None),
        ),
        (
            vec![
                ("grpc-status", "14"),
                ("grpc-message", "x"),
                ("grpc-status-details-bin", retry_info),
            ],
            temporary(Code::Unavailable, "downstream: x", wait),
        ),
        (
            vec![
                ("grpc-status", "8"),
                ("grpc-message", "x"),
                ("grpc-status-details-bin", retry_info),
            ],
            temporary(Code::ResourceExhausted, "downstream: x", wait),
        ),
        (
            vec![("grpc-status", "8"), ("grpc-message", "x")],
            permanent(Code::ResourceExhausted, "downstream: x"),
        ),
        (
            vec![("grpc-status", "3"), ("grpc-message", "x")],
            permanent(Code::InvalidArgument, "downstream: x"),
        ),
        (
            vec![("x", "y")],
            permanent(Code::Unknown, "downstream: answer without grpc-status"),
        ),
    ] {
        let downstream = Downstream::start(move |_| failure(&headers)).await;
        assert_eq!(send(&grpc(downstream.address)).await, expected);
    }
}

#[tokio::test]
async fn a_status_in_trailers_after_a_message_counts() {
    let downstream = Downstream::start(|_| {
        Response::new(
            Frames::of(&[framed(false, b"")]).trailers(&[("grpc-status", "14"), ("grpc-message", "x")]),
        )
    })
    .await;
    assert!(unavailable(&send(&grpc(downstream.address)).await));
}

#[tokio::test]
async fn an_answer_from_a_proxy_follows_grpcs_table() {
    for (status, is_temporary) in [(503, true), (429, true), (401, false), (500, false)] {
        let downstream = Downstream::start(move |_| {
            Response::builder()
                .status(status)
                .body(Frames::of(&[b"<html>"]))
                .unwrap()
        })
        .await;
        let verdict = send(&grpc(downstream.address)).await;
        assert_eq!(
            matches!(verdict, Verdict::Temporary { .. }),
            is_temporary,
            "{status}: {verdict:?}"
        );
    }
}

#[tokio::test]
async fn partial_success_is_passed_on() {
    // ExportMetricsServiceResponse{partial_success{rejected_data_points: 5, error_message: "old"}}
    const PARTIAL: &[u8] = b"\x0a\x07\x08\x05\x12\x03old";
    let expected = Verdict::Partial {
        rejected: 5,
        message: "downstream: old".to_owned(),
    };
    let downstream = Downstream::start(|request| {
        if request.path == transport_support::EXPORT {
            return success(PARTIAL);
        }
        Response::builder()
            .header("content-type", "application/x-protobuf")
            .body(Frames::of(&[PARTIAL]))
            .unwrap()
    })
    .await;
    assert_eq!(send(&grpc(downstream.address)).await, expected);
    assert_eq!(
        send(&http(downstream.address, Compression::None, no_headers())).await,
        expected
    );
}

#[tokio::test]
async fn outcomes_are_counted() {
    let downstream = Downstream::start(|_| failure(&[("grpc-status", "3")])).await;
    let endpoint = GrpcEndpoint::parse(&downstream.address.to_string()).unwrap();
    let grpc = GrpcExporter::new(&endpoint, Compression::None, no_headers(), PATIENCE).unwrap();
    let (exporter, stats) = exporter(Protocol::Grpc(grpc));
    send(&exporter).await;
    assert_eq!(
        (
            stats.requests(Outcome::Permanent),
            stats.requests(Outcome::Accepted)
        ),
        (1, 0)
    );
}

#[tokio::test]
async fn nobody_there_is_temporary_and_not_waited_for() {
    let address = listen(SocketAddr::from((LOCAL, 0))).await.local_addr().unwrap();
    let verdict = send(&grpc(address)).await;
    let Verdict::Temporary {
        code: Code::Unavailable,
        message,
        ..
    } = &verdict
    else {
        panic!("{verdict:?}")
    };
    assert!(message.contains(&address.to_string()), "{message}");
    assert!(unavailable(
        &send(&http(address, Compression::None, no_headers())).await
    ));
}

#[tokio::test]
async fn silence_ends_at_the_deadline() {
    let downstream = Downstream::start(|_| Response::new(Frames::of::<&[u8]>(&[]).held())).await;
    for exporter in [
        grpc(downstream.address),
        http(downstream.address, Compression::None, no_headers()),
    ] {
        let deadline = Instant::now() + Duration::from_millis(50);
        let verdict = soon(
            "verdict",
            exporter.export(Bytes::from_static(b"metrics"), deadline),
        )
        .await;
        assert!(
            matches!(
                verdict,
                Verdict::Temporary {
                    code: Code::DeadlineExceeded,
                    ..
                }
            ),
            "{verdict:?}"
        );
    }
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

#[tokio::test]
async fn http_statuses_become_verdicts() {
    // google.rpc.Status{code: 3, message: "why"}
    const STATUS: &[u8] = b"\x08\x03\x12\x03why";
    for (status, header, expected) in [
        (400, None, Some(Code::InvalidArgument)),
        (401, None, Some(Code::Unauthenticated)),
        (403, None, Some(Code::PermissionDenied)),
        (413, None, Some(Code::InvalidArgument)),
        (500, None, Some(Code::Internal)),
        (
            307,
            Some(("location", "/elsewhere")),
            Some(Code::FailedPrecondition),
        ),
        (429, None, None),
        (502, None, None),
        (503, Some(("retry-after", "7")), None),
        (504, None, None),
    ] {
        let downstream = Downstream::start(move |request| {
            assert_eq!(request.path, "/v1/metrics");
            let mut response = Response::builder()
                .status(status)
                .header("content-type", "application/x-protobuf");
            if let Some((name, value)) = header {
                response = response.header(name, value);
            }
            response.body(Frames::of(&[STATUS])).unwrap()
        })
        .await;
        let verdict = send(&http(downstream.address, Compression::None, no_headers())).await;
        match (&verdict, expected) {
            (Verdict::Permanent { code, message }, Some(expected)) => {
                assert_eq!((*code, message.as_str()), (expected, "downstream: why"));
            }
            (Verdict::Temporary { wait, message, .. }, None) => {
                assert_eq!(*wait, (status == 503).then_some(Duration::from_secs(7)));
                assert_eq!(message, "downstream: why");
            }
            _ => panic!("{status}: {verdict:?}"),
        }
    }
}

#[tokio::test]
async fn an_http_request_carries_all_that_downstream_needs() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let downstream = Downstream::start(move |request| {
        requests.lock().unwrap().push(request);
        ok()
    })
    .await;
    let headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, "Bearer x".parse().unwrap())]);
    let exporter = http(downstream.address, Compression::Gzip, fixed_headers(headers));
    assert_eq!(send(&exporter).await, Verdict::Accepted);
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0].path, "/v1/metrics");
    assert_eq!(seen[0].headers["content-type"], "application/x-protobuf");
    assert_eq!(seen[0].headers["content-encoding"], "gzip");
    assert_eq!(seen[0].headers["authorization"], "Bearer x");
    assert_eq!(
        seen[0].headers["content-length"].to_str().unwrap(),
        seen[0].body.len().to_string()
    );
    let mut plain = Vec::new();
    io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&seen[0].body[..]), &mut plain).unwrap();
    assert_eq!(plain, b"metrics");
}

#[tokio::test]
async fn an_endless_answer_is_not_read_to_its_end() {
    let chunk = vec![b'x'; 100_000];
    let downstream = Downstream::start(move |_| {
        let chunks = vec![chunk.clone(); 20];
        Response::builder()
            .status(400)
            .body(Frames::of(&chunks).held())
            .unwrap()
    })
    .await;
    let verdict = send(&http(downstream.address, Compression::None, no_headers())).await;
    assert!(
        matches!(
            verdict,
            Verdict::Permanent {
                code: Code::InvalidArgument,
                ..
            }
        ),
        "{verdict:?}"
    );
}

#[tokio::test]
async fn verdicts_travel_unchanged_from_one_data_plane_to_the_next() {
    let wait = Some(Duration::from_secs(4));
    for verdict in [
        Verdict::Accepted,
        Verdict::Partial {
            rejected: 7,
            message: "some".into(),
        },
        Verdict::Partial {
            rejected: 0,
            message: "a warning".into(),
        },
        Verdict::Temporary {
            code: Code::Unavailable,
            message: "later".into(),
            wait,
        },
        Verdict::Temporary {
            code: Code::Unavailable,
            message: "later".into(),
            wait: None,
        },
        Verdict::Temporary {
            code: Code::ResourceExhausted,
            message: "full".into(),
            wait,
        },
        Verdict::Permanent {
            code: Code::InvalidArgument,
            message: "grün %41\n".into(),
        },
        Verdict::Permanent {
            code: Code::PermissionDenied,
            message: "no".into(),
        },
    ] {
        let marked = |message: &str| format!("downstream: {}", message.replace('\n', ""));
        let expected = match verdict.clone() {
            Verdict::Accepted => Verdict::Accepted,
            Verdict::Partial { rejected, message } => Verdict::Partial {
                rejected,
                message: marked(&message),
            },
            Verdict::Temporary { code, message, wait } => Verdict::Temporary {
                code,
                message: marked(&message),
                wait,
            },
            Verdict::Permanent { code, message } => Verdict::Permanent {
                code,
                message: marked(&message),
            },
        };
        let server = Setup::default().start(Answer::with(verdict)).await;
        for compression in [Compression::None, Compression::Gzip] {
            assert_eq!(
                send(&grpc_with(server.address, compression, no_headers())).await,
                expected
            );
            assert_eq!(
                send(&http(server.address, compression, no_headers())).await,
                expected
            );
        }
    }
}

#[tokio::test]
async fn large_messages_travel_whole_with_and_without_compression() {
    let body: Bytes = (0..700_000_u32)
        .flat_map(u32::to_le_bytes)
        .collect::<Vec<u8>>()
        .into();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let bodies = Arc::clone(&seen);
    let setup = Setup {
        max_request_bytes: 4 << 20,
        max_unpacked_bytes: 4 << 20,
        ..Setup::default()
    };
    let server = setup
        .start(Answer::by(move |request| {
            bodies.lock().unwrap().push(request.body);
            std::future::ready(Verdict::Accepted)
        }))
        .await;
    for compression in [Compression::None, Compression::Gzip] {
        let deadline = Instant::now() + PATIENCE;
        let exporter = grpc_with(server.address, compression, no_headers());
        assert_eq!(exporter.export(body.clone(), deadline).await, Verdict::Accepted);
        let exporter = http(server.address, compression, no_headers());
        assert_eq!(exporter.export(body.clone(), deadline).await, Verdict::Accepted);
    }
    assert_eq!(*seen.lock().unwrap(), vec![body; 4]);
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
