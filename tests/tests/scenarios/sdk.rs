//! Real clients: the OpenTelemetry SDK's own exporters.

use std::collections::BTreeMap;

use jevmetrics_testkit::mock_jev::Behaviour;
use jevmetrics_testkit::otlp::metrics;
use jevmetrics_testkit::process::{Compression, ExportProtocol, Mode};
use jevmetrics_testkit::sink::{Protocol, Received};
use jevmetrics_testkit::source::sdk::{Application, INSTRUMENTS, Options, Transport};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;

use crate::messages::attribute;
use crate::support::World;

async fn application(world: &World, transport: Transport, gzip: bool) -> Application {
    let endpoint = match transport {
        Transport::Grpc => world.plane.grpc_endpoint(),
        Transport::Http => world.plane.http_endpoint(),
    };
    let options = Options {
        gzip,
        service: format!("{transport:?}"),
        ..Options::new(transport, &endpoint)
    };
    Application::start(options).await.unwrap()
}

/// The sums that an export holds, by name and route.
fn sums(received: &Received) -> BTreeMap<(String, String), i64> {
    let mut sums = BTreeMap::new();
    for metric in metrics(&received.message) {
        let Some(Data::Sum(sum)) = &metric.data else {
            continue;
        };
        for point in &sum.data_points {
            let Some(Value::AsInt(value)) = point.value else {
                panic!("{point:?}")
            };
            let route = attribute(&point.attributes, "http.route").unwrap_or_default();
            assert_eq!(sums.insert((metric.name.clone(), route.to_owned()), value), None);
        }
    }
    sums
}

/// What the application's counters say after `amount`.
fn expected_sums(amount: i64) -> BTreeMap<(String, String), i64> {
    let mut sums = BTreeMap::from([(("shop.open_carts".to_owned(), String::new()), amount)]);
    for name in ["shop.orders", "shop.debug.orders"] {
        for route in ["/cart", "/orders", "/orders/{id}"] {
            sums.insert((name.to_owned(), route.to_owned()), amount);
        }
    }
    sums
}

async fn an_export_arrives_whole(export: ExportProtocol, compression: Compression) {
    let world = World::start_with(Mode::Annotate, |options| {
        options.settings.export.protocol = export;
        options.settings.export.compression = compression;
    })
    .await;
    // Without assessments there are no companions either.
    world.jev.script().always(Behaviour::Silent);
    for (transport, gzip) in [
        (Transport::Grpc, false),
        (Transport::Grpc, true),
        (Transport::Http, false),
        (Transport::Http, true),
    ] {
        world.sink.reset();
        let application = application(&world, transport, gzip).await;
        application.record(3);
        application.flush().await.unwrap();

        let accepted = world.sink.counts().accepted;
        assert_eq!(accepted.requests, 1);
        let points: BTreeMap<&str, u64> = accepted
            .by_name
            .iter()
            .map(|(name, count)| (name.as_str(), count.points))
            .collect();
        assert_eq!(points, BTreeMap::from(INSTRUMENTS), "{transport:?}, gzip {gzip}");
        let received = &world.sink.received()[0];
        assert_eq!(sums(received), expected_sums(3));
        let resource = received.message.resource_metrics[0].resource.as_ref().unwrap();
        assert_eq!(
            attribute(&resource.attributes, "service.name"),
            Some(format!("{transport:?}").as_str())
        );
        let protocol = match export {
            ExportProtocol::Grpc => Protocol::Grpc,
            ExportProtocol::Http => Protocol::Http,
        };
        assert_eq!(received.protocol, protocol);
        let encoding = match export {
            ExportProtocol::Grpc => "grpc-encoding",
            ExportProtocol::Http => "content-encoding",
        };
        let is_gzip = received
            .headers
            .contains(&(encoding.to_owned(), "gzip".to_owned()));
        assert_eq!(is_gzip, compression == Compression::Gzip);
        application.shutdown().await.unwrap();
    }
    let equation = world.settled().await;
    assert_eq!((equation.dropped, equation.failed.all()), (0, 0));
}

/// *Scenario*: the SDK exports over gRPC and over HTTP, plain and with gzip; downstream speaks gRPC.
/// *Guarantees*: the sink has exactly the application's instruments, points and values, and nothing more.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_sdk_exports_arrives_over_grpc() {
    an_export_arrives_whole(ExportProtocol::Grpc, Compression::None).await;
    an_export_arrives_whole(ExportProtocol::Grpc, Compression::Gzip).await;
}

/// *Scenario*: the SDK exports over gRPC and over HTTP, plain and with gzip; downstream speaks HTTP.
/// *Guarantees*: the sink has exactly the application's instruments, points and values, and nothing more.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_sdk_exports_arrives_over_http() {
    an_export_arrives_whole(ExportProtocol::Http, Compression::None).await;
    an_export_arrives_whole(ExportProtocol::Http, Compression::Gzip).await;
}

/// *Scenario*: `Reduce`; one of the application's five instruments is not worth keeping.
/// *Guarantees*: once assessed, exactly that instrument is missing downstream, and the SDK sees success.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_loses_exactly_the_instrument_that_is_dropped() {
    let world = World::start(Mode::Reduce).await;
    for transport in [Transport::Grpc, Transport::Http] {
        let application = application(&world, transport, false).await;
        application.record(1);
        application.flush().await.unwrap();
        world.assessed(INSTRUMENTS.len() as u64).await;
        world.sink.reset();
        application.record(1);
        application.flush().await.unwrap();
        let accepted = world.sink.counts().accepted;
        let points: BTreeMap<&str, u64> = accepted
            .by_name
            .iter()
            .map(|(name, count)| (name.as_str(), count.points))
            .collect();
        let mut kept = BTreeMap::from(INSTRUMENTS);
        kept.remove("shop.debug.orders");
        assert_eq!(points, kept, "{transport:?}");
        application.shutdown().await.unwrap();
    }
    world.settled().await;
}
