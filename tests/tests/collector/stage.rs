//! Three data planes with a sink each, and a Collector in front of them that has what the operator writes.

use std::net::Ipv4Addr;
use std::time::Duration;

use jevmetrics_api::policy::{JevMetricsPolicy, ValidPolicy};
use jevmetrics_operator::render::{
    COLLECTOR_FILE, Defaults, collector_routing_name, exporter_name, members_name, render,
};
use jevmetrics_testkit::mock_jev::MockJev;
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{DataPlane, Mode, Options, ServerTls, SettingsFile};
use jevmetrics_testkit::sink::Sink;
use serde_json::{Value, json};

use crate::hosts;
use crate::load::{Arrived, METRICS, labels};
use crate::tier::Tier;

/// Longer than anything takes on a busy machine; reached only by a failing test.
pub(crate) const WITHIN: Duration = Duration::from_mins(3);
const NAMESPACE: &str = "ns";
const BACKENDS: &str = "otelcol_loadbalancer_num_backends";

/// The file that the operator writes for this spec.
pub(crate) fn rendered(name: &str, mut spec: Value) -> String {
    spec["export"] = json!({"endpoint": "http://sink.invalid:4317"});
    let policy: JevMetricsPolicy = serde_json::from_value(json!({
        "apiVersion": "jevmetrics.io/v1alpha1",
        "kind": "JevMetricsPolicy",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": "u"},
        "spec": spec,
    }))
    .unwrap();
    let defaults = Defaults {
        image: "registry.example/dataplane:1".to_owned(),
    };
    let policy = ValidPolicy::try_from(&policy).unwrap();
    let manifests = render(&policy, &defaults, 0).manifests().unwrap();
    let name = collector_routing_name(name);
    let routing = manifests.iter().find(|manifest| manifest.name == name).unwrap();
    routing.value["data"][COLLECTOR_FILE].as_str().unwrap().to_owned()
}

/// Where a policy's addresses begin: of loopback, and nobody else's here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) name: &'static str,
    pub(crate) subnet: u8,
}

pub(crate) struct Stage {
    pub(crate) planes: Vec<DataPlane>,
    pub(crate) sinks: Vec<Sink>,
    pub(crate) tier: Tier,
    place: Place,
    _jev: MockJev,
}

impl Stage {
    /// `tls` is what pods show, `files` what the Collector has beside the operator's.
    pub(crate) async fn start(place: Place, spec: Value, tls: Option<ServerTls>, files: &[&str]) -> Self {
        let jev = MockJev::start().await.unwrap();
        let (mut planes, mut sinks) = (Vec::new(), Vec::new());
        for index in 0..3 {
            let sink = Sink::start().await.unwrap();
            let mut settings = SettingsFile::new(&sink.endpoint(), &jev.base_url());
            settings.listen.grpc = (place.address(index), 4317).into();
            settings.ingest.tls.clone_from(&tls);
            planes.push(
                DataPlane::start(Options::new(settings, Mode::Reduce))
                    .await
                    .unwrap(),
            );
            sinks.push(sink);
        }
        place.resolves_to(&[0, 1, 2]);
        let rendered = rendered(place.name, spec);
        let files: Vec<&str> = [rendered.as_str()].iter().chain(files).copied().collect();
        let tier = Tier::start(&exporter_name(place.name), &files).await;
        let stage = Self {
            planes,
            sinks,
            tier,
            place,
            _jev: jev,
        };
        stage.tier.shows(BACKENDS, "", Some(3.0)).await;
        stage
    }

    /// Lets only these data planes be found, and waits until the Collector knows.
    pub(crate) async fn resolves_to(&self, planes: &[u8]) {
        self.place.resolves_to(planes);
        let backends = u8::try_from(planes.len()).unwrap();
        self.tier.shows(BACKENDS, "", Some(backends.into())).await;
    }

    /// Waits until all points of the first so many requests have arrived.
    pub(crate) async fn arrived(&self, requests: i64) -> Arrived {
        let wanted = labels().len() * METRICS.len() * usize::try_from(requests).unwrap();
        let look = async || {
            let arrived = Arrived::at(&self.sinks);
            match arrived.points(requests) {
                points if points == wanted => Ok(arrived),
                points => Err(format!("{points} of {wanted} points")),
            }
        };
        poll::eventually("all points at the sinks", WITHIN, look)
            .await
            .unwrap_or_else(|error| panic!("{error}; {}", self.tier.log()))
    }
}

impl Place {
    fn address(self, index: u8) -> Ipv4Addr {
        Ipv4Addr::new(127, 0, self.subnet, index + 1)
    }

    fn resolves_to(self, planes: &[u8]) {
        let addresses: Vec<_> = planes.iter().map(|index| self.address(*index)).collect();
        hosts::set(
            &format!("{}.{NAMESPACE}.svc", members_name(self.name)),
            &addresses,
        );
    }
}
