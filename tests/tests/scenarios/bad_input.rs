//! Input that cannot be read is refused for good, with words that name the place; nothing else suffers.

use bytes::Bytes;
use jevmetrics_testkit::process::Mode;
use jevmetrics_testkit::source::gzip;
use tonic::Code;

use crate::messages::{SMALL_POINTS, bytes, field, gauge_with_point, gauges, small};
use crate::support::{BOTH, Via, World};
use crate::wire::{Connection, Posted};

const MOST_BYTES: usize = 64 << 10;
const MOST_UNPACKED: usize = 256 << 10;

/// What is sent and what must be said of it.
struct Case {
    name: &'static str,
    posted: Posted,
    /// Label of `jevmetrics_receive_refused_requests`.
    cause: &'static str,
    /// Part of the message to the sender.
    says: &'static str,
    code: Code,
    status: u16,
}

fn case(name: &'static str, posted: Posted, cause: &'static str, says: &'static str) -> Case {
    Case {
        name,
        posted,
        cause,
        says,
        code: Code::InvalidArgument,
        status: 400,
    }
}

/// An attribute value of arrays within arrays.
fn nested(levels: usize) -> Vec<u8> {
    let mut value = Vec::new();
    for _ in 0..levels {
        value = field(5, &field(1, &value));
    }
    let attribute = [field(1, b"key"), field(2, &value)].concat();
    field(1, &field(1, &field(1, &attribute)))
}

/// Protobuf whose structure cannot be read.
fn malformed() -> Vec<Case> {
    let cut = {
        let whole = small(0).next_bytes();
        whole.slice(..whole.len() - 1)
    };
    let long_varint = [&[0x0a][..], &[0xff; 10], &[0x01]].concat();
    // A metric whose name reaches beyond it.
    let name = field(1, &field(2, &field(2, &[0x0a, 0x20, b'x'])));
    let metric_as_varint = field(1, &field(2, &[0x10, 0x05]));
    let cases = [
        ("cut in the middle", cut.to_vec(), "malformed OTLP in "),
        (
            "not protobuf",
            b"{\"resourceMetrics\":[]}".to_vec(),
            "malformed OTLP in the request at byte ",
        ),
        (
            "over-long varint",
            long_varint,
            "malformed OTLP in the request at byte 1: a varint is longer than 64 bits",
        ),
        ("over-nested", nested(200), "nested deeper than 100 levels"),
        (
            "a name too long",
            name,
            "resource_metrics.scope_metrics.metrics at byte ",
        ),
        (
            "a metric that is a number",
            metric_as_varint,
            "resource_metrics.scope_metrics at byte ",
        ),
    ];
    cases
        .map(|(name, body, says)| case(name, Posted::plain(body), "malformed_protobuf", says))
        .into()
}

/// What is refused before its metrics are looked at.
fn unreadable(via: Via) -> Vec<Case> {
    let good = small(0).next_bytes();
    let packed = gzip(&good).unwrap();
    let bomb = gzip(&vec![0; 4 << 20]).unwrap();
    assert!(bomb.len() < MOST_BYTES);
    let is_http = via == Via::Http;
    let media_type = Posted {
        content_type: Some(if is_http {
            "application/json"
        } else {
            "application/grpc+json"
        }),
        ..Posted::plain(good.clone())
    };
    vec![
        Case {
            code: Code::Unimplemented,
            status: 415,
            ..case(
                "content type",
                media_type,
                "unsupported_media_type",
                if is_http { "content-type" } else { "" },
            )
        },
        Case {
            code: Code::Unimplemented,
            status: 415,
            ..case(
                "encoding",
                Posted::packed("br", good),
                "bad_encoding",
                "identity and gzip are supported",
            )
        },
        Case {
            status: 413,
            ..case(
                "too large",
                Posted::plain(vec![0; MOST_BYTES + 1]),
                "too_large",
                "maxRequestBytes",
            )
        },
        Case {
            status: 413,
            ..case(
                "bomb",
                Posted::packed("gzip", bomb),
                "unpacked_too_large",
                "maxUnpackedBytes",
            )
        },
        case(
            "truncated gzip",
            Posted::packed("gzip", packed.slice(..packed.len() / 2)),
            "malformed_compression",
            "gzip",
        ),
        case(
            "not gzip",
            Posted::packed("gzip", Bytes::from_static(b"plain")),
            "malformed_compression",
            "gzip",
        ),
    ]
}

async fn is_refused_and_harms_nothing(via: Via) {
    let world = World::start_with(Mode::Annotate, |options| {
        options.settings.ingest.max_request_bytes = Some(MOST_BYTES as u64);
        options.settings.ingest.max_unpacked_bytes = Some(MOST_UNPACKED as u64);
    })
    .await;
    let good = Posted::plain(small(0).next_bytes());
    let mut connection = Connection::open(&world.plane, via).await;
    let mut delivered = 0;
    for case in malformed().into_iter().chain(unreadable(via)) {
        let label = if via == Via::Grpc { "grpc" } else { "http" };
        let series = format!(
            "jevmetrics_receive_refused_requests_total{{transport=\"{label}\",cause=\"{}\"}}",
            case.cause
        );
        let before = world.count(&series).await;
        let told = connection.post(&case.posted).await;
        let name = case.name;
        assert!(told.is_permanent(), "{name}: {told:?}");
        assert!(told.message.contains(case.says), "{name}: {told:?}");
        if via == Via::Http {
            assert_eq!(told.status, Some(case.status), "{name}: {told:?}");
        }
        // A content type that is not gRPC's is answered in HTTP's words alone.
        if told.code.is_some() || case.cause != "unsupported_media_type" {
            assert_eq!(told.code, Some(case.code), "{name}: {told:?}");
        }
        assert_eq!(world.count(&series).await, before + 1, "{name}");
        // HTTP/1.1 cannot go on behind a body that nobody read.
        if via == Via::Http && !connection.is_open().await {
            assert_eq!(case.cause, "too_large", "{name}");
            connection = Connection::open(&world.plane, via).await;
        }
        let told = connection.post(&good).await;
        assert!(told.is_accepted(), "after {name}: {told:?}");
        delivered += 1;
    }
    assert_eq!(world.sink.counts().accepted.requests, delivered);
    let equation = world.settled().await;
    assert_eq!(
        (equation.received, equation.exported),
        (delivered * SMALL_POINTS, delivered * SMALL_POINTS)
    );
}

/// *Scenario*: over one gRPC connection, all kinds of unreadable requests, each followed by a good one.
/// *Guarantees*: each is refused for good naming the place, counted by cause, and nothing of it is exported; each
/// good one is accepted on the same connection.
#[tokio::test]
async fn unreadable_input_over_grpc_is_refused_and_harms_nothing() {
    is_refused_and_harms_nothing(Via::Grpc).await;
}

/// *Scenario*: over HTTP/1.1, all kinds of unreadable requests, each followed by a good one.
/// *Guarantees*: as over gRPC; the connection goes on unless the body was refused unread.
#[tokio::test]
async fn unreadable_input_over_http_is_refused_and_harms_nothing() {
    is_refused_and_harms_nothing(Via::Http).await;
}

/// *Scenario*: data points have fields that nobody knows, in a request that is assessed and reduced.
/// *Guarantees*: what is kept leaves byte for byte.
#[tokio::test]
async fn unknown_fields_within_data_points_travel_on() {
    let world = World::start(Mode::Reduce).await;
    let kept = gauge_with_point("shop.orders", &field(15, b"from the future"));
    let dropped = gauge_with_point("shop.debug", &field(15, b"from the future"));
    let both: Bytes = [&kept[..], &dropped[..]].concat().into();
    world.learn(&both, 2).await;
    for via in BOTH {
        world.sink.reset();
        world.deliver(via, &both).await;
        assert_eq!(world.sink.received()[0].raw, kept, "{via:?}");
    }
}

/// *Scenario*: the bytes within a data point are no protobuf; downstream refuses them.
/// *Guarantees*: they travel on unread; downstream's refusal comes back for good and is counted as failed.
#[tokio::test]
async fn breakage_within_data_points_is_downstreams_to_judge() {
    let world = World::start(Mode::Annotate).await;
    let broken = gauge_with_point("shop.orders", &[0xff; 12]);
    for via in BOTH {
        let told = world.send(via, &broken).await;
        assert!(told.is_permanent(), "{via:?}: {told:?}");
        assert_eq!(told.code, Some(Code::InvalidArgument));
        assert!(told.message.starts_with("downstream: "), "{told:?}");
    }
    assert_eq!(world.sink.counts().undecodable, 2);
    let equation = world.settled().await;
    assert_eq!((equation.received, equation.failed.permanent), (2, 2));
    world
        .deliver(Via::Grpc, &bytes(&gauges(&["shop.orders"], 1, "")))
        .await;
}
