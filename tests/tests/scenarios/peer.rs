//! What a process says of itself on the peer port, and who may ask.

use std::path::Path;
use std::sync::Arc;

use jevmetrics_api::member::{InferenceState, Member, ModeInForce, PolicyState, State};
use jevmetrics_api::peer::{SELF_PATH, SERVER_NAME};
use jevmetrics_api::settings::settings_digest;
use jevmetrics_testkit::certificates::Authority;
use jevmetrics_testkit::peer::{AskError, ask_over, call};
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{DataPlane, Mode, Options, Peer, PeerTls};
use rustls::ClientConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::Code;

use crate::messages::{SMALL_METRICS, small};
use crate::support::{Via, WITHIN, World, fast};

/// *Scenario*: a process is asked at its start, after it has learnt, and while its model fails.
/// *Guarantees*: names, settings, policy, model and state of life are those of the process.
#[tokio::test]
async fn a_process_says_who_it_is_and_how_it_does() {
    let world = World::start_with(Mode::Reduce, |options| {
        for (name, value) in [
            ("POD_NAME", "pod-a"),
            ("POD_UID", "uid-1"),
            ("NODE_NAME", "node-x"),
        ] {
            options
                .environment
                .push((format!("JEVMETRICS_{name}"), value.to_owned()));
        }
    })
    .await;
    let member = world.plane.member().await.unwrap();
    assert!(member.id.starts_with(&member.hostname) && world.plane.printed().contains(&member.id));
    let names = [&member.pod, &member.uid, &member.node].map(|name| name.as_deref().unwrap());
    assert_eq!(names, ["pod-a", "uid-1", "node-x"]);
    assert_eq!((member.state, member.revision.as_str()), (State::Serving, "1"));
    let settings = std::fs::read_to_string(world.plane.directory().join("settings.yaml")).unwrap();
    assert_eq!(member.settings_digest, settings_digest(&settings));
    assert!(member.started_at <= member.last_seen && member.started_at > 1_500_000_000_000_000_000);
    assert_eq!(
        (member.policy.state, member.policy.mode),
        (PolicyState::Read, Some(ModeInForce::Reduce))
    );
    assert_eq!(
        (member.inference.state, &member.inference.model),
        (InferenceState::Idle, &None)
    );
    assert_eq!(member.inference.endpoint, world.jev.base_url());

    world.learn(&small(50).next_bytes(), SMALL_METRICS).await;
    let learnt = world.plane.member().await.unwrap();
    assert_eq!((learnt.id, learnt.started_at), (member.id, member.started_at));
    assert_eq!(learnt.inference.state, InferenceState::Healthy);
    assert_eq!(learnt.inference.model.as_deref(), Some("jev-1.13.0"));
    world.plane.remove_live().unwrap();
    let lost = poll::until_some("the error", WITHIN, async || {
        world.plane.member().await.unwrap().policy.error
    });
    assert!(lost.await.unwrap().contains("not found"));
}

/// *Scenario*: no live file; the process drains while a request is on its way.
/// *Guarantees*: `Awaiting` is said, and `Draining` until the request has ended; then the port closes.
#[tokio::test]
async fn a_draining_process_says_so() {
    let world = World::start_with(Mode::Reduce, |options| options.live = None).await;
    let member = world.plane.member().await.unwrap();
    assert_eq!(
        (member.policy.state, member.policy.mode),
        (PolicyState::Awaiting, None)
    );
    assert!(member.policy.error.is_some());
    let World {
        sink,
        mut plane,
        senders,
        jev: _jev,
    } = world;
    sink.script().always(jevmetrics_testkit::sink::Answer::Hang);
    let sending = tokio::spawn(async move { senders.send(Via::Grpc, &small(50).next_bytes()).await });
    poll::until_some("the request", WITHIN, async || {
        let scrape = plane.scrape().await.unwrap();
        (scrape["jevmetrics_points_in_flight"] > 0.0).then_some(())
    })
    .await
    .unwrap();
    plane.signal("TERM").await.unwrap();
    let draining = poll::until_some("draining", WITHIN, async || {
        let state = plane.member().await.unwrap().state;
        (state == State::Draining).then_some(())
    });
    draining.await.unwrap();
    drop(sending);
    let status = plane.wait(WITHIN).await.unwrap();
    assert!(status.success(), "{}", plane.printed());
}

/// *Scenario*: calls that the service does not have, requests that are too large or nonsense, no HTTP/2 at all.
/// *Guarantees*: each is refused with the code that gRPC has for it, and the port goes on.
#[tokio::test]
async fn what_is_no_call_of_the_service_is_refused() {
    let world = World::start(Mode::Annotate).await;
    let connect = async || TcpStream::connect(world.plane.listen().peer).await.unwrap();
    let code = async |path: &str, message: &[u8]| match call(connect().await, path, message).await {
        Err(AskError::Refused(code)) => code,
        other => panic!("{path}: {other:?}"),
    };
    assert_eq!(
        code("/jevmetrics.peer.v1.Peer/Export", &[]).await,
        Code::Unimplemented
    );
    assert_eq!(code(SELF_PATH, &[0xff]).await, Code::InvalidArgument);
    assert_eq!(code(SELF_PATH, &[0; 2000]).await, Code::InvalidArgument);
    // A field of a later version.
    call(connect().await, SELF_PATH, &[0x08, 1]).await.unwrap();
    let mut stream = connect().await;
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let _ = stream.read_to_end(&mut Vec::new()).await;
    world.plane.member().await.unwrap();
}

/// *Scenario*: somebody connects and says nothing; somebody greets as HTTP/2 and then calls nothing.
/// *Guarantees*: both are closed after a few seconds; others are answered meanwhile.
#[tokio::test]
async fn who_says_nothing_is_closed() {
    let world = World::start(Mode::Annotate).await;
    let mut silent = TcpStream::connect(world.plane.listen().peer).await.unwrap();
    let mut idle = TcpStream::connect(world.plane.listen().peer).await.unwrap();
    let greeting = [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
        &[0, 0, 0, 4, 0, 0, 0, 0, 0],
    ]
    .concat();
    idle.write_all(&greeting).await.unwrap();
    world.plane.member().await.unwrap();
    for stream in [&mut silent, &mut idle] {
        let ended = tokio::time::timeout(WITHIN, stream.read_to_end(&mut Vec::new())).await;
        let _ = ended.unwrap();
    }
    world.plane.member().await.unwrap();
}

fn with_tls(options: &mut Options, authority: &Authority) {
    let (certificate_file, key_file) = authority.pair("tls", SERVER_NAME);
    options.settings.peer = Some(Peer {
        tls: PeerTls {
            certificate_file,
            key_file,
            ca_file: authority.ca_file(),
        },
    });
}

async fn ask(plane: &DataPlane, client: &Arc<ClientConfig>) -> Result<Member, AskError> {
    let stream = TcpStream::connect(plane.listen().peer).await?;
    let name = SERVER_NAME.try_into().unwrap();
    let stream = TlsConnector::from(Arc::clone(client))
        .connect(name, stream)
        .await?;
    ask_over(stream).await
}

/// *Scenario*: mutual TLS; clients with the right certificate, with none, with one of another authority, without TLS.
/// *Guarantees*: only the first is answered.
#[tokio::test]
async fn with_tls_only_certificates_of_the_authority_are_answered() {
    let (authority, stranger) = (Authority::new().unwrap(), Authority::new().unwrap());
    let world = World::start_with(Mode::Annotate, |options| with_tls(options, &authority)).await;
    let client = authority.client(Some(&authority)).unwrap();
    assert_eq!(ask(&world.plane, &client).await.unwrap().state, State::Serving);
    for client in [
        authority.client(None).unwrap(),
        authority.client(Some(&stranger)).unwrap(),
    ] {
        ask(&world.plane, &client).await.unwrap_err();
    }
    world.plane.member().await.unwrap_err();
    ask(&world.plane, &stranger.client(Some(&authority)).unwrap())
        .await
        .unwrap_err();
    ask(&world.plane, &client).await.unwrap();
}

/// *Scenario*: the certificate is rotated, then broken.
/// *Guarantees*: the new one is shown without a restart; the broken one is named in page and log, and the last good one
/// stays in use.
#[tokio::test]
async fn a_rotated_certificate_is_shown_without_a_restart() {
    let authority = Authority::new().unwrap();
    let world = World::start_with(Mode::Annotate, |options| with_tls(options, &authority)).await;
    let client = authority.client(Some(&authority)).unwrap();
    let shown = async || {
        let stream = TcpStream::connect(world.plane.listen().peer).await.unwrap();
        let name = SERVER_NAME.try_into().unwrap();
        let stream = TlsConnector::from(Arc::clone(&client))
            .connect(name, stream)
            .await
            .unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    let first = shown().await;
    let (certificate, _) = authority.pair("tls", SERVER_NAME);
    let rotated = poll::until_some("the new certificate", WITHIN, async || {
        (shown().await != first).then_some(())
    });
    rotated.await.unwrap();
    let second = shown().await;
    world.logged("new TLS files are in use").await;
    put(&certificate, "broken");
    world.logged("the last good TLS files stay in use").await;
    let ready = world.ready().await;
    let named = format!(
        "tls: peer.tls: file {}: must hold certificates in PEM",
        certificate.display()
    );
    assert!(ready.contains(&named), "{ready}");
    assert!(shown().await == second);
}

fn put(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
}

/// *Scenario*: the certificate's file is not there at the start.
/// *Guarantees*: the process does not start, and names setting and file.
#[tokio::test]
async fn a_missing_certificate_is_named_at_the_start() {
    let authority = Authority::new().unwrap();
    let jev = jevmetrics_testkit::mock_jev::MockJev::start().await.unwrap();
    let sink = jevmetrics_testkit::sink::Sink::start().await.unwrap();
    let mut options = Options::new(fast(&sink, &jev), Mode::Annotate);
    with_tls(&mut options, &authority);
    if let Some(peer) = &mut options.settings.peer {
        peer.tls.certificate_file = "/nowhere/tls.crt".into();
    }
    let error = DataPlane::start(options).await.unwrap_err().to_string();
    assert!(
        error.contains("peer.tls: file /nowhere/tls.crt: not found"),
        "{error}"
    );
}
