//! TLS where metrics come in, where they go out, and where the model is asked.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use jevmetrics_testkit::certificates::Authority;
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{ClientTls, DataPlane, ExportProtocol, Mode, Options, ServerTls};
use jevmetrics_testkit::sink::Sink;
use jevmetrics_testkit::source::{GrpcOptions, GrpcSender};
use jevmetrics_testkit::tls_proxy::TlsProxy;
use rustls::ClientConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::Code;

use crate::messages::{SMALL_METRICS, SMALL_POINTS, small};
use crate::support::{Via, WITHIN, World, fast};

const HOST: &str = "127.0.0.1";

fn serve_tls(options: &mut Options, authority: &Authority, clients: Option<&Authority>) {
    let (certificate_file, key_file) = authority.pair("ingest", HOST);
    options.settings.ingest.tls = Some(ServerTls {
        certificate_file,
        key_file,
        client_ca_file: clients.map(Authority::ca_file),
    });
}

/// Sends over gRPC to `address`, with TLS of this client.
async fn send_grpc(address: SocketAddr, client: &Arc<ClientConfig>, message: Bytes) -> Code {
    let name = HOST.try_into().unwrap();
    let tunnel = TlsProxy::to(address, name, Arc::clone(client)).await.unwrap();
    let sender = GrpcSender::lazy(&format!("http://{}", tunnel.address())).unwrap();
    sender.send(message, &GrpcOptions::default()).await.code
}

/// Sends over HTTP to `address`, with TLS of this client.
async fn send_http(address: SocketAddr, client: &Arc<ClientConfig>, message: Bytes) -> Option<u16> {
    let mut config = ClientConfig::clone(client);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(config)
        .no_proxy()
        .build()
        .unwrap();
    let request = client
        .post(format!("https://{address}/v1/metrics"))
        .header("content-type", "application/x-protobuf")
        .body(message);
    Some(request.send().await.ok()?.status().as_u16())
}

async fn certificate_of(plane: &DataPlane, client: &Arc<ClientConfig>) -> Vec<u8> {
    let stream = TcpStream::connect(plane.listen().grpc).await.unwrap();
    let name = HOST.try_into().unwrap();
    let stream = TlsConnector::from(Arc::clone(client))
        .connect(name, stream)
        .await
        .unwrap();
    let session = stream.get_ref().1;
    assert_eq!(session.alpn_protocol(), Some(&b"h2"[..]));
    session.peer_certificates().unwrap()[0].to_vec()
}

/// *Scenario*: TLS on the ports; metrics over gRPC and HTTP, a sender without TLS, a rotated certificate.
/// *Guarantees*: what comes over TLS is delivered on both ports, what comes without is closed and counted; the new
/// certificate is shown without a restart.
#[tokio::test]
async fn metrics_come_in_over_tls() {
    let authority = Authority::new().unwrap();
    let world = World::start_with(Mode::Annotate, |options| serve_tls(options, &authority, None)).await;
    let client = authority.client(None).unwrap();
    let mut generator = small(50);
    let listen = world.plane.listen();
    let mut sent = 0;
    for address in [listen.grpc, listen.http] {
        assert_eq!(
            send_grpc(address, &client, generator.next_bytes()).await,
            Code::Ok
        );
        assert_eq!(
            send_http(address, &client, generator.next_bytes()).await,
            Some(200)
        );
        sent += 2 * SMALL_POINTS;
    }
    assert_eq!(world.sink.counts().accepted.others.points, sent);
    let told = world.send(Via::Http, &generator.next_bytes()).await;
    assert!(!told.is_accepted(), "{told:?}");
    world.counts("jevmetrics_receive_failed_handshakes", 1).await;

    let first = certificate_of(&world.plane, &client).await;
    authority.pair("ingest", HOST);
    let rotated = poll::until_some("the new certificate", WITHIN, async || {
        (certificate_of(&world.plane, &client).await != first).then_some(())
    });
    rotated.await.unwrap();
    assert_eq!(
        send_grpc(listen.grpc, &client, generator.next_bytes()).await,
        Code::Ok
    );
    world.settled().await;
}

/// *Scenario*: client certificates are required.
/// *Guarantees*: a sender without one, or with one of another authority, delivers nothing; one with the right one does.
#[tokio::test]
async fn senders_without_a_required_certificate_are_refused() {
    let (authority, stranger) = (Authority::new().unwrap(), Authority::new().unwrap());
    let world = World::start_with(Mode::Annotate, |options| {
        serve_tls(options, &authority, Some(&authority));
    })
    .await;
    let address = world.plane.listen().grpc;
    let message = small(50).next_bytes();
    for client in [
        authority.client(None).unwrap(),
        authority.client(Some(&stranger)).unwrap(),
    ] {
        assert_ne!(send_grpc(address, &client, message.clone()).await, Code::Ok);
        assert_eq!(send_http(address, &client, message.clone()).await, None);
    }
    assert_eq!(world.sink.counts().arrived, 0);
    let client = authority.client(Some(&authority)).unwrap();
    assert_eq!(send_grpc(address, &client, message.clone()).await, Code::Ok);
    assert_eq!(send_http(address, &client, message).await, Some(200));
    world.settled().await;
}

/// A data plane that exports to `front`, which it knows by `authority`'s certificate.
async fn exporting(
    protocol: ExportProtocol,
    front: &TlsProxy,
    authority: &Authority,
    name: Option<&str>,
) -> World {
    World::start_with(Mode::Annotate, |options| {
        let export = &mut options.settings.export;
        export.endpoint = format!("https://{}", front.address());
        export.protocol = protocol;
        export.tls = Some(ClientTls {
            ca_file: Some(authority.ca_file()),
            server_name: name.map(str::to_owned),
            ..ClientTls::default()
        });
    })
    .await
}

async fn metrics_go_out_over_tls(protocol: ExportProtocol) {
    let authority = Authority::new().unwrap();
    for (certificate, name) in [(HOST, None), ("sink.example", Some("sink.example"))] {
        let sink = Sink::start().await.unwrap();
        let front = TlsProxy::before(sink.address(), authority.server(certificate).unwrap());
        let front = front.await.unwrap();
        let world = exporting(protocol, &front, &authority, name).await;
        let mut generator = small(50);
        for via in [Via::Grpc, Via::Http] {
            world.deliver(via, &generator.next_bytes()).await;
        }
        assert_eq!(sink.counts().accepted.others.points, 2 * SMALL_POINTS);
        world.settled().await;
    }
}

/// *Scenario*: an https endpoint over gRPC, known by its address, then by a name of its own.
/// *Guarantees*: everything arrives.
#[tokio::test]
async fn metrics_go_out_over_tls_with_grpc() {
    metrics_go_out_over_tls(ExportProtocol::Grpc).await;
}

/// *Scenario*: an https endpoint over HTTP, known by its address, then by a name of its own.
/// *Guarantees*: everything arrives.
#[tokio::test]
async fn metrics_go_out_over_tls_with_http() {
    metrics_go_out_over_tls(ExportProtocol::Http).await;
}

async fn an_unknown_authority_is_a_temporary_failure(protocol: ExportProtocol) {
    let (known, actual) = (Authority::new().unwrap(), Authority::new().unwrap());
    let sink = Sink::start().await.unwrap();
    let front = TlsProxy::before(sink.address(), actual.server(HOST).unwrap())
        .await
        .unwrap();
    let world = exporting(protocol, &front, &known, None).await;
    let message = small(50).next_bytes();
    let told = world.send(Via::Grpc, &message).await;
    assert!(
        told.is_temporary() && told.message.contains("invalid peer certificate"),
        "{told:?}"
    );
    assert_eq!(sink.counts().arrived, 0);
    // The sender still has it; the right authority comes as a file that changes.
    std::fs::copy(actual.ca_file(), known.ca_path()).unwrap();
    let accepted = poll::until_some("the right authority", WITHIN, async || {
        world.send(Via::Grpc, &message).await.is_accepted().then_some(())
    });
    accepted.await.unwrap();
    assert_eq!(sink.counts().accepted.others.points, SMALL_POINTS);
    let equation = world.settled().await;
    assert_eq!(equation.failed.all(), equation.failed.temporary);
}

/// *Scenario*: the certificate of a gRPC downstream comes from another authority than that of the settings; then the file
/// is put right.
/// *Guarantees*: a temporary failure that names it; nothing is lost, and no restart is needed.
#[tokio::test]
async fn a_wrong_authority_of_a_grpc_downstream_is_named_and_temporary() {
    an_unknown_authority_is_a_temporary_failure(ExportProtocol::Grpc).await;
}

/// *Scenario*: as above, over HTTP.
/// *Guarantees*: as above.
#[tokio::test]
async fn a_wrong_authority_of_an_http_downstream_is_named_and_temporary() {
    an_unknown_authority_is_a_temporary_failure(ExportProtocol::Http).await;
}

/// *Scenario*: the model's server has a certificate of an authority that only the settings know.
/// *Guarantees*: it is asked.
#[tokio::test]
async fn the_model_is_asked_over_tls_with_an_authority_of_the_settings() {
    let authority = Authority::new().unwrap();
    let jev = jevmetrics_testkit::mock_jev::MockJev::start().await.unwrap();
    let sink = Sink::start().await.unwrap();
    let base = jev.base_url();
    let address = base.trim_start_matches("http://").split('/').next().unwrap();
    let front = TlsProxy::before(address.parse().unwrap(), authority.server(HOST).unwrap());
    let front = front.await.unwrap();
    let mut settings = fast(&sink, &jev);
    settings.inference.base_url = base.replace(
        &format!("http://{address}"),
        &format!("https://{}", front.address()),
    );
    settings.inference.tls = Some(ClientTls {
        ca_file: Some(authority.ca_file()),
        ..ClientTls::default()
    });
    let plane = DataPlane::start(Options::new(settings, Mode::Reduce))
        .await
        .unwrap();
    let senders = crate::support::Senders::to(&plane);
    let world = World {
        jev,
        sink,
        plane,
        senders,
    };
    world.learn(&small(50).next_bytes(), SMALL_METRICS).await;
    world.deliver(Via::Grpc, &small(50).next_bytes()).await;
    assert_eq!(world.sink.counts().accepted.others.points, SMALL_POINTS / 2);
}

/// *Scenario*: somebody opens connections, begins a handshake and says no more.
/// *Guarantees*: others are served meanwhile, and his connections are closed after a few seconds.
#[tokio::test]
async fn a_handshake_that_stalls_holds_nobody_up() {
    let authority = Authority::new().unwrap();
    let world = World::start_with(Mode::Annotate, |options| serve_tls(options, &authority, None)).await;
    let client = authority.client(None).unwrap();
    let address = world.plane.listen().grpc;
    let mut stalled = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&[0x16, 3, 1]).await.unwrap();
        stalled.push(stream);
    }
    let message = small(50).next_bytes();
    assert_eq!(send_grpc(address, &client, message).await, Code::Ok);
    for mut stream in stalled {
        let end = tokio::time::timeout(WITHIN, stream.read_to_end(&mut Vec::new())).await;
        let _ = end.unwrap();
    }
    world.counts("jevmetrics_receive_failed_handshakes", 8).await;
}
