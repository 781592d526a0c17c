//! Where a Collector sends what.

use std::collections::{BTreeMap, BTreeSet};

use jevmetrics_operator::render::exporter_name;
use jevmetrics_testkit::certificates::Authority;
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::ServerTls;
use serde_json::json;

use crate::load::{Arrived, Load, labels, service};
use crate::stage::{Place, Stage, WITHIN};

const REQUESTS: i64 = 20;

/// Sends a while, and gives what has arrived of it: everything, once.
async fn delivered(stage: &Stage) -> Arrived {
    let load = Load::start(&stage.tier.endpoint());
    poll::until("enough requests", WITHIN, || load.sent() >= REQUESTS)
        .await
        .unwrap();
    let arrived = stage.arrived(load.stop().await).await;
    assert_eq!(arrived.duplicates(), 0);
    arrived
}

/// Every resource is at one place, and every place has some.
fn one_place_each<'a>(places: &BTreeMap<&'a str, Vec<usize>>) -> BTreeMap<&'a str, usize> {
    assert_eq!(places.len(), labels().len());
    let one = |(label, places): (&&'a str, &Vec<usize>)| match places[..] {
        [place] => (*label, place),
        _ => panic!("{label} is at {places:?}"),
    };
    let each: BTreeMap<_, _> = places.iter().map(one).collect();
    let used: BTreeSet<_> = each.values().collect();
    assert_eq!(used.len(), 3, "{each:?}");
    each
}

/// *Guarantees*: with the keys that there are by default every resource, also one that names no service, arrives at one
/// data plane; everything that was sent has arrived, once.
#[tokio::test(flavor = "multi_thread")]
async fn each_resource_arrives_at_one_data_plane() {
    let place = Place {
        name: "resources",
        subnet: 1,
    };
    let spec = json!({"routing": {"affinity": "Upstream"}});
    let stage = Stage::start(place, spec, None, &[]).await;
    let arrived = delivered(&stage).await;
    let each = one_place_each(&arrived.places(|_| true));
    for plane in 0..3 {
        let resources = each.values().filter(|place| **place == plane).count();
        println!("data plane {plane} has {resources} of {} resources", each.len());
    }
}

/// *Guarantees*: with `service.name` as the key all instances of a service arrive at one data plane; what has no such
/// name is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn all_instances_of_a_service_arrive_at_one_data_plane_if_it_is_the_key() {
    let place = Place {
        name: "services",
        subnet: 2,
    };
    let spec = json!({"routing": {"affinity": "Upstream", "keyAttributes": ["service.name"]}});
    let stage = Stage::start(place, spec, None, &[]).await;
    let arrived = delivered(&stage).await;
    let mut services: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (label, place) in one_place_each(&arrived.places(|_| true)) {
        services.entry(service(label)).or_default().insert(place);
    }
    for (service, places) in services {
        assert_eq!(places.len(), 1, "{service} is at {places:?}");
    }
}

/// *Guarantees*: pods that speak TLS are taken for what the Service is called, by a Collector that knows their authority
/// from a further file.
#[tokio::test(flavor = "multi_thread")]
async fn over_tls_the_name_of_the_service_is_expected() {
    let place = Place {
        name: "secure",
        subnet: 3,
    };
    let authority = Authority::new().unwrap();
    let (certificate_file, key_file) = authority.pair("ingest", "secure-otlp.ns.svc");
    let tls = ServerTls {
        certificate_file,
        key_file,
        client_ca_file: None,
    };
    let trusted = json!({"protocol": {"otlp": {"tls": {"ca_file": authority.ca_file()}}}});
    let trusting = json!({"exporters": {exporter_name(place.name): trusted}}).to_string();
    let spec = json!({"routing": {"affinity": "Upstream"}, "ingest": {"tls": {"secretName": "certificate"}}});
    let stage = Stage::start(place, spec, Some(tls), &[&trusting]).await;
    one_place_each(&delivered(&stage).await.places(|_| true));
}
