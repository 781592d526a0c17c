#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use prost::Message as _;
use tonic::Code;

use super::{Answer, Options, Protocol, Refusal, RefusalBody, Sink};
use crate::otlp::{DataType, request_points};
use crate::poll;
use crate::source::sdk::{self, Application, Transport};
use crate::source::{
    Generator, GrpcOptions, GrpcOutcome, GrpcSender, HttpError, HttpOptions, HttpOutcome, HttpSender,
    PartialSuccess, everything, gzip, shape_a,
};

const WITHIN: Duration = Duration::from_secs(10);

async fn both(sink: &Sink) -> (GrpcSender, HttpSender) {
    (
        GrpcSender::connect(&sink.endpoint()).await.unwrap(),
        HttpSender::new(&sink.endpoint()).unwrap(),
    )
}

async fn plain_grpc(grpc: &GrpcSender, message: Bytes) -> GrpcOutcome {
    grpc.send(message, &GrpcOptions::default()).await
}

async fn plain_http(http: &HttpSender, body: Bytes) -> Result<HttpOutcome, HttpError> {
    http.send(body, &HttpOptions::default()).await
}

/// Sends until the outcome is `code`: a client may notice late that its connection has ended, and says
/// `Cancelled` then.
async fn code_comes(grpc: &GrpcSender, code: Code) {
    let seen = poll::until_some("the code", WITHIN, async || {
        (plain_grpc(grpc, Bytes::new()).await.code == code).then_some(())
    });
    seen.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sdk_and_the_sink_agree_over_both_protocols() {
    for (transport, protocol) in [
        (Transport::Grpc, Protocol::Grpc),
        (Transport::Http, Protocol::Http),
    ] {
        for gzip in [false, true] {
            let sink = Sink::start().await.unwrap();
            let options = sdk::Options {
                gzip,
                ..sdk::Options::new(transport, &sink.endpoint())
            };
            let application = Application::start(options).await.unwrap();
            application.record(3);
            application.flush().await.unwrap();
            application.record(4);
            application.flush().await.unwrap();

            let counts = sink.counts();
            assert_eq!(counts.accepted.requests, 2, "{transport:?}");
            for (name, points) in sdk::INSTRUMENTS {
                assert_eq!(
                    counts.accepted.points_of(name),
                    2 * points,
                    "{transport:?} {name}"
                );
            }
            assert_eq!(counts.accepted.by_name.len(), sdk::INSTRUMENTS.len());
            assert_eq!(counts.accepted.by_type[&DataType::Histogram].metrics, 2);
            assert!(sink.received().iter().all(|request| request.protocol == protocol));
            application.shutdown().await.unwrap();
        }
    }
}

#[tokio::test]
async fn generated_requests_arrive_byte_for_byte_and_are_counted() {
    let sink = Sink::start().await.unwrap();
    let (grpc, http) = both(&sink).await;
    let mut generator = Generator::new(shape_a(), 1);
    let sent: Vec<Bytes> = (0..4).map(|_| generator.next_bytes()).collect();
    assert_eq!(plain_grpc(&grpc, sent[0].clone()).await.code, Code::Ok);
    assert_eq!(
        grpc.send(
            sent[1].clone(),
            &GrpcOptions {
                gzip: true,
                ..GrpcOptions::default()
            }
        )
        .await
        .code,
        Code::Ok
    );
    assert_eq!(plain_http(&http, sent[2].clone()).await.unwrap().status, 200);
    let zipped = HttpOptions {
        content_encoding: Some("gzip".into()),
        ..HttpOptions::default()
    };
    assert_eq!(
        http.send(gzip(&sent[3]).unwrap(), &zipped).await.unwrap().status,
        200
    );

    let received: Vec<Bytes> = sink.received().into_iter().map(|request| request.raw).collect();
    assert_eq!(received, sent);
    let accepted = sink.counts().accepted;
    assert_eq!((accepted.others.metrics, accepted.others.points), (400, 4_000));
    assert_eq!(accepted.companions.metrics, 0);
    assert_eq!(
        accepted.bytes,
        sent.iter().map(|bytes| bytes.len() as u64).sum::<u64>()
    );
}

#[tokio::test]
async fn companions_are_counted_apart() {
    let sink = Sink::start().await.unwrap();
    let (grpc, _) = both(&sink).await;
    let mut request = everything(1);
    "jev.metric.relevance".clone_into(&mut request.resource_metrics[0].scope_metrics[0].metrics[0].name);
    plain_grpc(&grpc, request.encode_to_vec().into()).await;
    let accepted = sink.counts().accepted;
    assert_eq!((accepted.companions.metrics, accepted.companions.points), (1, 1));
    assert_eq!(accepted.others.points, request_points(&request) as u64 - 1);
}

#[tokio::test]
async fn every_scripted_code_reaches_the_sender_with_its_wait() {
    let sink = Sink::start().await.unwrap();
    let (grpc, http) = both(&sink).await;
    for code in 1..=16 {
        let wait = (code % 2 == 0).then(|| Duration::from_millis(1_500));
        let mut refusal = Refusal::new(Code::from(code), StatusCode::BAD_GATEWAY, "not now");
        refusal.retry_after = wait;
        sink.script().times(2, &Answer::Refuse(refusal));
        let outcome = plain_grpc(&grpc, Bytes::new()).await;
        assert_eq!(
            (outcome.code, outcome.message.as_str(), outcome.retry_after),
            (Code::from(code), "not now", wait)
        );
        let outcome = plain_http(&http, Bytes::new()).await.unwrap();
        assert_eq!(outcome.status, 502);
        let status = outcome.rpc_status.unwrap();
        assert_eq!((status.code, status.retry_after()), (code, wait));
        assert_eq!(outcome.retry_after, wait.map(|_| Duration::from_secs(2)));
    }
    assert_eq!(sink.counts().refused.requests, 32);
    assert_eq!(sink.counts().accepted.requests, 0);
}

#[tokio::test]
async fn every_scripted_http_status_and_body_reaches_the_sender() {
    let sink = Sink::start().await.unwrap();
    let (_, http) = both(&sink).await;
    for status in [400, 401, 403, 404, 408, 413, 415, 429, 500, 502, 503, 504] {
        let refusal = Refusal::new(Code::Unknown, StatusCode::from_u16(status).unwrap(), "x");
        sink.script().once(Answer::Refuse(
            refusal.clone().body(RefusalBody::Html("<html/>".into())),
        ));
        sink.script()
            .once(Answer::Refuse(refusal.body(RefusalBody::Empty)));
        for body in ["<html/>", ""] {
            let outcome = plain_http(&http, Bytes::new()).await.unwrap();
            assert_eq!((outcome.status, &outcome.body[..]), (status, body.as_bytes()));
            assert_eq!(outcome.rpc_status, None);
        }
    }
}

#[tokio::test]
async fn a_partial_success_reaches_the_sender() {
    let sink = Sink::start().await.unwrap();
    let (grpc, http) = both(&sink).await;
    sink.script().always(Answer::Partial {
        rejected: 3,
        message: "odd".into(),
    });
    let expected = Some(PartialSuccess {
        rejected: 3,
        message: "odd".into(),
    });
    assert_eq!(plain_grpc(&grpc, Bytes::new()).await.partial_success, expected);
    assert_eq!(
        plain_http(&http, Bytes::new()).await.unwrap().partial_success,
        expected
    );
    assert_eq!(sink.counts().said_rejected, 6);
}

#[tokio::test]
async fn what_is_accepted_stays_accepted_though_the_answer_is_an_error_or_lost() {
    let sink = Sink::start().await.unwrap();
    let (grpc, http) = both(&sink).await;
    let bytes: Bytes = everything(1).encode_to_vec().into();
    sink.script().times(
        2,
        &Answer::AcceptThen(Box::new(Answer::Refuse(Refusal::temporary("lost")))),
    );
    sink.script()
        .times(2, &Answer::AcceptThen(Box::new(Answer::Close)));
    assert_eq!(plain_grpc(&grpc, bytes.clone()).await.code, Code::Unavailable);
    assert_eq!(plain_http(&http, bytes.clone()).await.unwrap().status, 503);
    assert_ne!(plain_grpc(&grpc, bytes.clone()).await.code, Code::Ok);
    assert!(plain_http(&http, bytes).await.is_err());
    assert_eq!(sink.counts().accepted.requests, 4);
    assert_eq!(sink.counts().refused.requests, 0);
}

#[tokio::test]
async fn a_closed_connection_takes_nothing_and_the_next_one_works() {
    let sink = Sink::start().await.unwrap();
    let (grpc, http) = both(&sink).await;
    sink.script().times(2, &Answer::Close);
    assert_ne!(plain_grpc(&grpc, Bytes::new()).await.code, Code::Ok);
    assert!(plain_http(&http, Bytes::new()).await.is_err());
    assert_eq!(sink.counts().accepted.requests, 0);
    code_comes(&grpc, Code::Ok).await;
    assert_eq!(plain_http(&http, Bytes::new()).await.unwrap().status, 200);
}

#[tokio::test]
async fn the_senders_deadline_ends_a_hanging_request() {
    let sink = Sink::start().await.unwrap();
    let (grpc, http) = both(&sink).await;
    sink.script().times(2, &Answer::Hang);
    let deadline = Some(Duration::from_millis(50));
    assert_ne!(
        grpc.send(
            Bytes::new(),
            &GrpcOptions {
                deadline,
                ..GrpcOptions::default()
            }
        )
        .await
        .code,
        Code::Ok
    );
    assert!(
        http.send(
            Bytes::new(),
            &HttpOptions {
                timeout: deadline,
                ..HttpOptions::default()
            }
        )
        .await
        .is_err()
    );
    assert_eq!(sink.counts().accepted.requests, 0);
}

#[tokio::test]
async fn a_request_whose_sender_leaves_during_the_delay_is_not_taken() {
    let sink = Sink::start().await.unwrap();
    let (grpc, http) = both(&sink).await;
    sink.script()
        .once(Answer::Delay(Duration::from_millis(20), Box::new(Answer::Accept)));
    assert_eq!(plain_grpc(&grpc, Bytes::new()).await.code, Code::Ok);
    sink.script()
        .once(Answer::Delay(Duration::from_hours(1), Box::new(Answer::Accept)));
    let sending = tokio::spawn(async move { plain_http(&http, Bytes::new()).await });
    poll::until("the second request", WITHIN, || sink.counts().arrived == 2)
        .await
        .unwrap();
    sending.abort();
    sink.stop().await;
    assert_eq!(sink.counts().accepted.requests, 1);
}

#[tokio::test]
async fn headers_and_metadata_are_kept() {
    let sink = Sink::start().await.unwrap();
    let (grpc, http) = both(&sink).await;
    let header = vec![("x-tenant".to_owned(), "blue".to_owned())];
    grpc.send(
        Bytes::new(),
        &GrpcOptions {
            metadata: header.clone(),
            ..GrpcOptions::default()
        },
    )
    .await;
    http.send(
        Bytes::new(),
        &HttpOptions {
            headers: header.clone(),
            ..HttpOptions::default()
        },
    )
    .await
    .unwrap();
    assert_eq!(sink.received().len(), 2);
    assert!(
        sink.received()
            .iter()
            .all(|request| request.headers.contains(&header[0]))
    );
}

#[tokio::test]
async fn what_is_no_otlp_is_refused_and_counted() {
    let sink = Sink::start_with(Options {
        max_message_bytes: 1_000,
        ..Options::default()
    })
    .await
    .unwrap();
    let (grpc, http) = both(&sink).await;
    let (broken, large) = (Bytes::from_static(&[0x0a, 0xff]), Bytes::from(vec![0; 2_000]));
    assert_eq!(
        plain_grpc(&grpc, broken.clone()).await.code,
        Code::InvalidArgument
    );
    assert_eq!(plain_http(&http, broken).await.unwrap().status, 400);
    assert_eq!(sink.counts().undecodable, 2);
    assert_eq!(plain_grpc(&grpc, large.clone()).await.code, Code::OutOfRange);
    assert_eq!(plain_http(&http, large.clone()).await.unwrap().status, 413);
    let zipped = HttpOptions {
        content_encoding: Some("gzip".into()),
        ..HttpOptions::default()
    };
    assert_eq!(
        http.send(gzip(&large).unwrap(), &zipped).await.unwrap().status,
        413
    );
    let odd = HttpOptions {
        content_encoding: Some("br".into()),
        ..HttpOptions::default()
    };
    assert_eq!(http.send(Bytes::new(), &odd).await.unwrap().status, 415);
    let json = HttpOptions {
        content_type: Some("application/json".into()),
        ..HttpOptions::default()
    };
    assert_eq!(http.send(Bytes::new(), &json).await.unwrap().status, 415);
    assert_eq!(sink.counts().unreadable, 5);
    let elsewhere = GrpcOptions {
        path: Some("/nobody/Knows"),
        ..GrpcOptions::default()
    };
    assert_eq!(
        grpc.send(Bytes::new(), &elsewhere).await.code,
        Code::Unimplemented
    );
}

#[tokio::test]
async fn a_stopped_sink_refuses_and_comes_back_on_its_port() {
    let sink = Sink::start().await.unwrap();
    let (grpc, http) = both(&sink).await;
    sink.stop().await;
    code_comes(&grpc, Code::Unavailable).await;
    assert!(plain_http(&http, Bytes::new()).await.is_err());
    sink.restart().await.unwrap();
    code_comes(&grpc, Code::Ok).await;
    assert_eq!(plain_http(&http, Bytes::new()).await.unwrap().status, 200);
}

#[tokio::test]
async fn an_application_can_be_dropped_on_an_async_thread() {
    let sink = Sink::start().await.unwrap();
    for transport in [Transport::Grpc, Transport::Http] {
        let application = Application::start(sdk::Options::new(transport, &sink.endpoint()))
            .await
            .unwrap();
        application.record(1);
        drop(application);
    }
    // Shutting down exports for the last time.
    poll::until("both exports", WITHIN, || sink.counts().accepted.requests == 2)
        .await
        .unwrap();
}
