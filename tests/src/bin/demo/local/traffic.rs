//! What is sent: two SDK applications, one over each protocol, and a source with everything else.

use std::collections::HashSet;

use bytes::Bytes;
use jevmetrics_testkit::otlp::{metrics, request_points};
use jevmetrics_testkit::source::sdk::{Application, INSTRUMENTS, Options, Transport};
use jevmetrics_testkit::source::{Generator, GrpcOptions, GrpcSender, Shape, everything, shape_a};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, metric::Data, number_data_point::Value,
};
use prost::Message as _;

use super::stage::Stage;
use crate::Failure;

/// Points in one export of an application.
fn points_of_export() -> u64 {
    INSTRUMENTS.iter().map(|(_, points)| points).sum()
}

/// Everything that sends, and how much it has sent.
pub(crate) struct Traffic {
    applications: [Application; 2],
    sender: GrpcSender,
    generator: Generator,
    round: u32,
    sent: u64,
    names: Vec<String>,
}

impl Traffic {
    pub(crate) async fn start(stage: &Stage) -> Result<Self, Failure> {
        let grpc = stage.data_plane.grpc_endpoint();
        let mut shop = Options::new(Transport::Grpc, &grpc);
        "shop".clone_into(&mut shop.service);
        let mut billing = Options::new(Transport::Http, &stage.data_plane.http_endpoint());
        "billing".clone_into(&mut billing.service);
        billing.gzip = true;
        println!(
            "   senders     SDK application shop (OTLP/gRPC), SDK application billing (OTLP/HTTP, gzip),"
        );
        println!("               a source with all five data types");
        let generator = Generator::new(
            Shape {
                metrics: 12,
                ..shape_a()
            }
            .droppable(50),
            7,
        );
        let mut names: Vec<String> = INSTRUMENTS.iter().map(|(name, _)| (*name).to_owned()).collect();
        for request in [everything(1), special()] {
            names.extend(metrics(&request).map(|metric| metric.name.clone()));
        }
        names.extend(generator.names());
        let mut known = HashSet::new();
        names.retain(|name| known.insert(name.clone()));
        Ok(Self {
            applications: [
                Application::start(shop).await?,
                Application::start(billing).await?,
            ],
            sender: GrpcSender::connect(&grpc).await?,
            generator,
            round: 0,
            sent: 0,
            names,
        })
    }

    /// Names of all instruments.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// One export of each sender. Everything must be accepted.
    pub(crate) async fn round(&mut self) -> Result<(), Failure> {
        self.round += 1;
        for application in &self.applications {
            application.record(self.round);
            application.flush().await?;
            self.sent += points_of_export();
        }
        for request in [
            everything(u64::from(self.round)),
            special(),
            self.generator.next_request(),
        ] {
            let body = Bytes::from(request.encode_to_vec());
            let outcome = self.sender.send(body, &GrpcOptions::default()).await;
            if outcome.code != tonic::Code::Ok {
                return Err(format!("the source was refused: {:?} {}", outcome.code, outcome.message).into());
            }
            self.sent += request_points(&request) as u64;
        }
        Ok(())
    }

    /// Shuts the applications down, which exports once more, and says how many points were sent in all.
    pub(crate) async fn finish(self) -> Result<u64, Failure> {
        let mut sent = self.sent;
        for application in self.applications {
            application.shutdown().await?;
            sent += points_of_export();
        }
        Ok(sent)
    }
}

/// Instruments that show the other reasons: protected by name and by prefix, and one Jev is not sure about.
fn special() -> ExportMetricsServiceRequest {
    let gauge = |name: &str| Metric {
        name: name.to_owned(),
        data: Some(Data::Gauge(Gauge {
            data_points: vec![NumberDataPoint {
                value: Some(Value::AsDouble(1.0)),
                ..Default::default()
            }],
        })),
        ..Default::default()
    };
    let metrics = ["up", "otelcol_process_uptime", "cache.doubtful.ratio"]
        .map(gauge)
        .to_vec();
    let scope_metrics = vec![ScopeMetrics {
        metrics,
        ..Default::default()
    }];
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            scope_metrics,
            ..Default::default()
        }],
    }
}
