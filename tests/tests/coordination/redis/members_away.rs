//! Members and the routing table while Redis, or the way to it, is not well.

use std::time::Duration;

use jevmetrics_api::routing::{Affinity, ClusterIdentity, Header, KeySource, Owner, RoutingTable};
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::Options;
use jevmetrics_testkit::redis::{Missing, Passage, own_server};
use serde_json::{Value, json};

use super::group::{Group, Setup, droppable, message};
use super::members::{id, ids, list, lists};
use super::replica::{Replica, WITHIN};

/// *Scenario*: three replicas reach Redis over a slow network. One stops. Then all answers are swallowed until heartbeats fail;
/// as soon as the network is back, another one stops.
/// *Guarantees*: both are out of Redis before they have ended, although the second had left Redis alone after its failures.
#[tokio::test(flavor = "multi_thread")]
async fn who_stops_is_gone_at_once_over_a_slow_network_and_after_a_failure() {
    let setup = Setup {
        call: 1_500,
        through_proxy: true,
        ..Setup::default()
    };
    let mut group = Group::start(3, setup).await;
    let mut all = Vec::new();
    for replica in &group.replicas {
        all.push(id(replica).await);
    }
    lists(&group.replicas[2], &all).await;
    let set = |group: &Group, passage| group.proxy.as_ref().unwrap().set(passage);

    set(&group, Passage::Slow(Duration::from_millis(300)));
    stops(&mut group, &all[0]).await;
    lists(&group.replicas[1], &all[1..]).await;

    set(&group, Passage::BlackHole);
    let failed = poll::eventually("a heartbeat that is not written", WITHIN, async || {
        let list = list(&group.replicas[0]).await;
        if list["heartbeatError"].is_string() {
            Ok(())
        } else {
            Err(list)
        }
    });
    failed.await.unwrap();
    set(&group, Passage::Open);
    stops(&mut group, &all[1]).await;
    lists(&group.replicas[0], &all[2..]).await;
    group.finish_keys().await;
}

/// Stops the first replica, which is `id`: its heartbeat is gone before the process is.
async fn stops(group: &mut Group, id: &str) {
    let mut stopped = group.replicas.remove(0);
    stopped.plane.signal("TERM").await.unwrap();
    assert!(stopped.plane.wait(WITHIN).await.unwrap().success());
    let key = group.redis.key(&format!("member:{id}"));
    let left: u64 = group.redis.command(&["EXISTS", &key]).await.unwrap();
    assert_eq!(left, 0, "{}", stopped.plane.printed());
}

/// *Scenario*: a routing table with three pods is in force, of which one has never been there; Redis is killed and comes back
/// empty.
/// *Guarantees*: while there is a list, the one without a heartbeat is silent; while there is none, the source is shown as down
/// and nobody is silent; the table stays, with the slots, all the time: it comes into force once and nothing is refused; traffic
/// goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_stays_in_force_while_the_store_is_down() {
    if own_server() == Err(Missing::Foreign) {
        println!("skipped: faults are not done to a server that was there before");
        return;
    }
    let mut group = Group::start(0, Setup::hasty()).await;
    let live = group.live(group.setup.budget).with_table(&table()).unwrap();
    for name in &PODS[..2] {
        let adjust = |options: &mut Options| {
            let uid = ("JEVMETRICS_POD_UID".to_owned(), (*name).to_owned());
            options.environment.push(uid);
            options.live = Some(live.clone());
        };
        group.add(adjust).await;
    }
    let seen = async |what, replica: &Replica, works: bool| {
        let seen = poll::eventually(what, WITHIN, async || {
            let list = list(replica).await;
            let all = if works { 2 } else { 1 };
            if list["source"]["works"] == works && ids(&list).len() == all {
                Ok(list)
            } else {
                Err(list)
            }
        });
        let list = seen.await.unwrap();
        let table = json!({"epoch": 7, "slots": 3, "affinity": "Forward"});
        assert_eq!((&list["routing"], &list["routingError"]), (&table, &Value::Null));
        let members = list["members"].as_array().unwrap().iter();
        let own = members.filter(|member| member["isThisPod"] == true);
        for own in own {
            assert_eq!(
                (&own["epoch"], &own["epochStanding"]),
                (&json!(7), &json!("Current"))
            );
            assert_eq!(
                own["slot"],
                json!(PODS.iter().position(|pod| own["uid"] == **pod))
            );
        }
        let silent = json!([{"pod": PODS[2], "slot": 2, "reason": "no heartbeat"}]);
        assert_eq!(list["silent"], if works { silent } else { Value::Null }, "{list}");
    };
    for replica in &group.replicas {
        seen("both, and the one that is missing", replica, true).await;
    }
    group.redis.kill().await.unwrap();
    for replica in &group.replicas {
        seen("the source being down", replica, false).await;
        replica.deliver(&message(&droppable("shop", 3))).await;
        let ready = replica.ready().await;
        assert!(ready.contains("routing: epoch 7, slots 3, Forward\n"), "{ready}");
        assert_eq!(replica.count("jevmetrics_routing_epoch").await, 7);
    }
    group.redis.restart().await.unwrap();
    for replica in &group.replicas {
        seen("both again", replica, true).await;
        assert_eq!(replica.count("jevmetrics_routing_refused_tables_total").await, 0);
        let printed = replica.plane.printed();
        let changes = printed.matches("a new routing table is in force").count();
        assert_eq!(changes, 1, "{printed}");
    }
    group.finish_keys().await;
}

/// By the slots that they hold.
const PODS: [&str; 3] = ["pod-a", "pod-b", "pod-c"];

/// A table of [`PODS`], whose names are their uids as well; nobody is asked by it.
fn table() -> RoutingTable {
    let owners = PODS.into_iter().zip(0..).map(|(name, slot)| Owner {
        slot,
        uid: name.to_owned(),
        name: name.to_owned(),
        address: ([127, 0, 0, 1], 1).into(),
        zone: None,
    });
    let header = Header {
        cluster: ClusterIdentity {
            namespace: "shop".to_owned(),
            policy: "ours".to_owned(),
        },
        affinity: Affinity::Forward,
        key: KeySource::Source,
    };
    RoutingTable::new(7, header, owners.collect()).unwrap()
}

/// *Scenario*: Redis is killed and comes back empty.
/// *Guarantees*: the list says that it is down and shows nobody but the process itself; metrics show no members; the pod
/// stays ready; both replicas are listed again when Redis is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_down_is_shown_as_down() {
    if own_server() == Err(Missing::Foreign) {
        println!("skipped: faults are not done to a server that was there before");
        return;
    }
    let mut group = Group::start(2, Setup::hasty()).await;
    let all = [id(&group.replicas[0]).await, id(&group.replicas[1]).await];
    lists(&group.replicas[0], &all).await;
    group.redis.kill().await.unwrap();
    let down = poll::eventually("the source being down", WITHIN, async || {
        let list = list(&group.replicas[0]).await;
        if list["source"]["works"] == false {
            Ok(list)
        } else {
            Err(list)
        }
    });
    let down = down.await.unwrap();
    assert_eq!(ids(&down), all[..1]);
    assert!(
        down["source"]["reason"]
            .as_str()
            .is_some_and(|reason| !reason.is_empty()),
        "{down}"
    );
    let (status, page) = group.replicas[0].plane.get_admin("/cluster").await.unwrap();
    assert!(status == 200 && page.contains("Redis is down"), "{page}");
    assert_eq!(group.replicas[0].count("jevmetrics_cluster_members").await, 0);
    assert_eq!(group.replicas[0].plane.get("/readyz").await.unwrap().0, 200);
    group.redis.restart().await.unwrap();
    for replica in &group.replicas {
        lists(replica, &all).await;
    }
    group.finish_keys().await;
}
