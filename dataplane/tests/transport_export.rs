//! What the exporters send, and what they make of the answers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod transport_support;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response};
use jevmetrics_dataplane::export::grpc::GrpcExporter;
use jevmetrics_dataplane::export::pack::Compression;
use jevmetrics_dataplane::export::resolve::GrpcEndpoint;
use jevmetrics_dataplane::export::stats::Outcome;
use jevmetrics_dataplane::export::{HeaderSource, Protocol, fixed_headers};
use jevmetrics_dataplane::verdict::Verdict;
use tokio::time::Instant;
use tonic::Code;
use transport_support::downstream::{
    Downstream, LOCAL, exporter, failure, grpc, grpc_with, http, listen, no_headers, ok, send, success,
    unavailable,
};
use transport_support::{Answer, Frames, PATIENCE, Setup, framed, soon};

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
