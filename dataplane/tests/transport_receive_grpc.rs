//! OTLP/gRPC over sockets: what senders send, and what they are told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod transport_support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use jevmetrics_dataplane::receive::in_flight::BytesInFlight;
use jevmetrics_dataplane::receive::stats::{Cause, Transport};
use jevmetrics_dataplane::verdict::Verdict;
use tokio::sync::Notify;
use tonic::Code;
use transport_support::{Answer, Frames, Http2, Setup, framed, gzip};

/// A server that accepts everything and the bodies that it saw.
async fn accepting() -> (transport_support::Running, Http2, Arc<Mutex<Vec<Vec<u8>>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let bodies = Arc::clone(&seen);
    let handler = Answer::by(move |request| {
        bodies.lock().unwrap().push(request.body.to_vec());
        std::future::ready(Verdict::Accepted)
    });
    let server = Setup::default().start(handler).await;
    let client = Http2::connect(server.address).await;
    (server, client, seen)
}

#[tokio::test]
async fn an_accepted_request_is_answered_with_an_empty_response() {
    let (server, client, seen) = accepting().await;
    let request = client
        .export()
        .body(Frames::of(&[framed(false, b"metrics")]))
        .unwrap();
    let answer = client.call(request).await;
    assert_eq!((answer.status, answer.grpc().code()), (200, Code::Ok));
    assert_eq!(answer.headers["content-type"], "application/grpc");
    assert_eq!(&answer.body[..], &[0; 5]);
    assert_eq!(*seen.lock().unwrap(), [b"metrics"]);
    assert_eq!(server.stats.requests(Transport::Grpc), 1);
}

#[tokio::test]
async fn a_message_may_be_cut_anywhere_even_within_its_prefix() {
    let (_server, client, seen) = accepting().await;
    let message = framed(false, b"metrics");
    for cut in [1, 2, 4, 5, 6, 11] {
        let (first, second) = message.split_at(cut);
        let request = client.export().body(Frames::of(&[first, second])).unwrap();
        assert_eq!(client.call(request).await.grpc().code(), Code::Ok, "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = message.chunks(1).collect();
    assert_eq!(
        client
            .call(client.export().body(Frames::of(&bytes)).unwrap())
            .await
            .grpc()
            .code(),
        Code::Ok
    );
    assert_eq!(*seen.lock().unwrap(), [b"metrics"; 7]);
}

#[tokio::test]
async fn a_message_of_many_windows_arrives_whole() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let bodies = Arc::clone(&seen);
    let setup = Setup {
        max_request_bytes: 9 << 20,
        max_unpacked_bytes: 9 << 20,
        ..Setup::default()
    };
    let server = setup
        .start(Answer::by(move |request| {
            bodies.lock().unwrap().push(request.body);
            std::future::ready(Verdict::Accepted)
        }))
        .await;
    let client = Http2::connect(server.address).await;
    let payload: Vec<u8> = (0..2_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let answer = client
        .call(
            client
                .export()
                .body(Frames::of(&[framed(false, &payload)]))
                .unwrap(),
        )
        .await;
    assert_eq!(answer.grpc().code(), Code::Ok);
    assert_eq!(seen.lock().unwrap()[0], payload);
}

#[tokio::test]
async fn gzip_is_unpacked_if_the_flag_says_so() {
    let (_server, client, seen) = accepting().await;
    for (flag, payload) in [(true, gzip(b"metrics")), (false, b"metrics".to_vec())] {
        let request = client.export().header("grpc-encoding", "gzip");
        let answer = client
            .call(request.body(Frames::of(&[framed(flag, &payload)])).unwrap())
            .await;
        assert_eq!(answer.grpc().code(), Code::Ok);
    }
    assert_eq!(*seen.lock().unwrap(), [b"metrics"; 2]);
}

#[tokio::test]
async fn an_oversize_message_is_refused_for_good_before_it_is_sent() {
    let (server, client, seen) = accepting().await;
    let announced = &framed(false, &vec![0; 100_001])[..5];
    let answer = client
        .call(client.export().body(Frames::of(&[announced]).held()).unwrap())
        .await;
    assert_eq!(answer.grpc().code(), Code::InvalidArgument);
    assert!(
        answer.grpc().message().contains("maxRequestBytes"),
        "{}",
        answer.grpc().message()
    );
    assert!(seen.lock().unwrap().is_empty());
    assert_eq!(server.stats.refused_requests(Transport::Grpc, Cause::TooLarge), 1);
}

#[tokio::test]
async fn a_message_that_unpacks_beyond_the_limit_is_refused_for_good() {
    let (server, client, _) = accepting().await;
    let bomb = gzip(&vec![0; 50_000_000]);
    let request = client.export().header("grpc-encoding", "gzip");
    let answer = client
        .call(request.body(Frames::of(&[framed(true, &bomb)])).unwrap())
        .await;
    assert_eq!(answer.grpc().code(), Code::InvalidArgument);
    assert!(
        answer.grpc().message().contains("maxUnpackedBytes"),
        "{}",
        answer.grpc().message()
    );
    assert_eq!(
        server
            .stats
            .refused_requests(Transport::Grpc, Cause::UnpackedTooLarge),
        1
    );
}

#[tokio::test]
async fn a_request_without_room_beside_others_is_told_to_come_again() {
    let release = Arc::new(Notify::new());
    let (held, released) = (Arc::new(Notify::new()), Arc::clone(&release));
    let holding = Arc::clone(&held);
    let handler = Answer::by(move |request| {
        let (holding, released) = (Arc::clone(&holding), Arc::clone(&released));
        async move {
            // All of it, with what it holds.
            let request = request;
            if request.body.len() > 10 {
                holding.notify_one();
                released.notified().await;
            }
            Verdict::Accepted
        }
    });
    let setup = Setup {
        bytes_in_flight: BytesInFlight::new(100_000),
        ..Setup::default()
    };
    let room = setup.bytes_in_flight.clone();
    let server = setup.start(handler).await;
    let client = Http2::connect(server.address).await;
    let plain = |length: usize| {
        let request = client.export();
        request
            .body(Frames::of(&[framed(false, &vec![7; length])]))
            .unwrap()
    };
    // Alone it may have it all, and more.
    let first = client.call(plain(100_000));
    let beside = async {
        held.notified().await;
        let packed = client.export().header("grpc-encoding", "gzip");
        let packed = packed.body(Frames::of(&[framed(true, &gzip(&[7; 5]))])).unwrap();
        for request in [plain(5), packed] {
            let answer = client.call(request).await;
            let status = answer.grpc();
            assert_eq!(status.code(), Code::Unavailable, "{status:?}");
            assert!(status.message().contains("in flight"), "{status:?}");
            let details = status.details();
            assert!(String::from_utf8_lossy(details).contains("google.rpc.RetryInfo"));
            // RetryInfo{retry_delay: 1 s}
            assert!(details.ends_with(&[0x0a, 0x02, 0x08, 0x01]), "{details:?}");
        }
        assert_eq!(server.stats.refused_requests(Transport::Grpc, Cause::NoRoom), 2);
        release.notify_one();
    };
    let (first, ()) = tokio::join!(first, beside);
    assert_eq!(first.grpc().code(), Code::Ok);
    assert_eq!(room.held(), 0, "all of it was given back");
    assert_eq!(client.call(plain(5)).await.grpc().code(), Code::Ok);
    // What does not fit once it is unpacked is refused as well, though it came in.
    let large = client.call(plain(60_000));
    let beside = async {
        held.notified().await;
        let packed = client.export().header("grpc-encoding", "gzip");
        let packed = packed
            .body(Frames::of(&[framed(true, &gzip(&vec![7; 50_000]))]))
            .unwrap();
        assert_eq!(client.call(packed).await.grpc().code(), Code::Unavailable);
        release.notify_one();
    };
    let (large, ()) = tokio::join!(large, beside);
    assert_eq!(large.grpc().code(), Code::Ok);
    assert_eq!(room.held(), 0);
}

#[tokio::test]
async fn broken_messages_are_refused_for_good() {
    let (server, client, seen) = accepting().await;
    let one = framed(false, b"metrics");
    let two = [one.clone(), one.clone()].concat();
    for (what, body, encoding, code, cause) in [
        (
            "truncated",
            one[..9].to_vec(),
            "gzip",
            Code::InvalidArgument,
            Cause::MalformedFraming,
        ),
        (
            "nothing",
            vec![],
            "gzip",
            Code::InvalidArgument,
            Cause::MalformedFraming,
        ),
        (
            "two messages",
            two,
            "gzip",
            Code::InvalidArgument,
            Cause::MalformedFraming,
        ),
        (
            "odd flag",
            vec![7, 0, 0, 0, 0],
            "gzip",
            Code::InvalidArgument,
            Cause::MalformedFraming,
        ),
        (
            "not gzip",
            framed(true, b"metrics"),
            "gzip",
            Code::InvalidArgument,
            Cause::MalformedCompression,
        ),
        (
            "flag alone",
            framed(true, b"metrics"),
            "identity",
            Code::Internal,
            Cause::MalformedFraming,
        ),
        ("encoding", one, "zstd", Code::Unimplemented, Cause::BadEncoding),
    ] {
        let before = server.stats.refused_requests(Transport::Grpc, cause);
        let request = client.export().header("grpc-encoding", encoding);
        let answer = client.call(request.body(Frames::of(&[body])).unwrap()).await;
        assert_eq!(answer.grpc().code(), code, "{what}: {}", answer.grpc().message());
        assert_eq!(
            server.stats.refused_requests(Transport::Grpc, cause),
            before + 1,
            "{what}"
        );
        if encoding == "zstd" {
            assert_eq!(answer.headers["grpc-accept-encoding"], "identity,gzip");
        }
    }
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_is_not_an_export_is_told_so() {
    let (_server, client, _) = accepting().await;
    let body = || Frames::of(&[framed(false, b"metrics")]);
    let grpc = "application/grpc";

    let other = client.post("/opentelemetry.proto.collector.logs.v1.LogsService/Export");
    let answer = client
        .call(other.header("content-type", grpc).body(body()).unwrap())
        .await;
    assert_eq!((answer.status, answer.grpc().code()), (200, Code::Unimplemented));
    assert!(answer.trailers.is_empty() && answer.body.is_empty());

    for content_type in ["application/grpc+json", "application/x-protobuf"] {
        let request = client
            .post(transport_support::EXPORT)
            .header("content-type", content_type);
        assert_eq!(
            client.call(request.body(body()).unwrap()).await.status,
            415,
            "{content_type}"
        );
    }
    for content_type in ["Application/gRPC+Proto", "application/grpc; charset=utf-8"] {
        let request = client
            .post(transport_support::EXPORT)
            .header("content-type", content_type);
        assert_eq!(
            client.call(request.body(body()).unwrap()).await.grpc().code(),
            Code::Ok,
            "{content_type}"
        );
    }

    let uri = client.export().body(body()).unwrap().uri().clone();
    let get = Request::get(uri)
        .header("content-type", grpc)
        .body(Frames::of::<&[u8]>(&[]))
        .unwrap();
    let answer = client.call(get).await;
    assert_eq!(
        (answer.status, answer.headers["allow"].to_str().unwrap()),
        (405, "POST")
    );

    let timeout = client.export().header("grpc-timeout", "5s");
    assert_eq!(
        client.call(timeout.body(body()).unwrap()).await.grpc().code(),
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn the_senders_deadline_reaches_the_handler_and_ends_a_stalled_body() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let deadlines = Arc::clone(&seen);
    let handler = Answer::by(move |request| {
        deadlines
            .lock()
            .unwrap()
            .push(request.deadline.map(|at| at - tokio::time::Instant::now()));
        std::future::ready(Verdict::Accepted)
    });
    let server = Setup::default().start(handler).await;
    let client = Http2::connect(server.address).await;

    let in_time = || Frames::of(&[framed(false, b"metrics")]);
    client.call(client.export().body(in_time()).unwrap()).await;
    client
        .call(
            client
                .export()
                .header("grpc-timeout", "1H")
                .body(in_time())
                .unwrap(),
        )
        .await;
    let [None, Some(left)] = seen.lock().unwrap()[..] else {
        panic!("{seen:?}")
    };
    assert!(left > Duration::from_mins(50) && left <= Duration::from_hours(1));

    let stalled = Frames::of(&[&framed(false, b"metrics")[..7]]).held();
    let answer = client
        .call(
            client
                .export()
                .header("grpc-timeout", "20m")
                .body(stalled)
                .unwrap(),
        )
        .await;
    assert_eq!(answer.grpc().code(), Code::DeadlineExceeded);
    assert_eq!(server.stats.refused_requests(Transport::Grpc, Cause::TooSlow), 1);
}

#[tokio::test]
async fn malformed_protobuf_is_counted_by_its_verdict() {
    let server = Setup::default()
        .start(Answer::with(Verdict::malformed("resource_metrics[0]")))
        .await;
    let client = Http2::connect(server.address).await;
    let answer = client
        .call(client.export().body(Frames::of(&[framed(false, b"x")])).unwrap())
        .await;
    assert_eq!(answer.grpc().code(), Code::InvalidArgument);
    assert_eq!(answer.grpc().message(), "malformed protobuf: resource_metrics[0]");
    assert_eq!(
        server
            .stats
            .refused_requests(Transport::Grpc, Cause::MalformedProtobuf),
        1
    );
}

#[tokio::test]
async fn a_panic_ends_one_request_and_nothing_else() {
    let handler = Answer::by(|request| async move {
        tokio::task::yield_now().await;
        assert_ne!(&request.body[..], b"poison", "on purpose");
        Verdict::Accepted
    });
    let server = Setup::default().start(handler).await;
    let client = Http2::connect(server.address).await;
    for (payload, code) in [(&b"poison"[..], Code::Internal), (b"good", Code::Ok)] {
        let request = client
            .export()
            .body(Frames::of(&[framed(false, payload)]))
            .unwrap();
        assert_eq!(client.call(request).await.grpc().code(), code);
    }
    assert_eq!(server.stats.refused_requests(Transport::Grpc, Cause::Panic), 1);
}
