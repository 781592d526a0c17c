//! Companions of several replicas: who wrote which point can be told.

use std::collections::BTreeSet;

use jevmetrics_testkit::otlp::{is_companion, metrics};
use jevmetrics_testkit::process::Mode;
use jevmetrics_testkit::sink::Depth;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;

use super::group::{Group, Setup, message};
use super::replica::{Replica, WITHIN};

/// The ids of those who wrote companions that arrived at the sink of `replica`.
fn collectors(replica: &Replica) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for request in replica.sink.received() {
        for metric in metrics(&request.message).filter(|metric| is_companion(&metric.name)) {
            let Some(Data::Gauge(gauge)) = &metric.data else {
                panic!("{metric:?}");
            };
            for attribute in gauge.data_points.iter().flat_map(|point| &point.attributes) {
                if attribute.key == "jev.collector.id" {
                    let Some(Value::StringValue(id)) =
                        attribute.value.as_ref().and_then(|v| v.value.as_ref())
                    else {
                        panic!("{attribute:?}");
                    };
                    ids.insert(id.clone());
                }
            }
        }
    }
    ids
}

/// *Scenario*: two replicas annotate the same instrument, and one of them is started again. All share one assessment.
/// *Guarantees*: three writers, three different `jev.collector.id`s.
#[tokio::test]
async fn every_process_writes_companions_under_an_id_of_its_own() {
    let setup = Setup {
        mode: Mode::Annotate,
        depth: Depth::Keep,
        ..Setup::default()
    };
    let mut group = Group::start(2, setup).await;
    let message = message(&["shop.orders"]);
    group.learn(&message, 1).await;
    let mut all = BTreeSet::new();
    for replica in &group.replicas {
        replica.deliver(&message).await;
        let ids = collectors(replica);
        assert_eq!(ids.len(), 1, "{ids:?}");
        all.extend(ids);
    }
    let mut restarted = group.replicas.remove(0);
    restarted.plane.signal("TERM").await.unwrap();
    restarted.plane.wait(WITHIN).await.unwrap();
    let replica = group.add(|_| ()).await;
    replica.learn(&message, 1).await;
    replica.deliver(&message).await;
    all.extend(collectors(replica));
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(group.asked(), 1);
    group.finish().await;
}
