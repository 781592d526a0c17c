//! The routing table of the live object: what comes into force, what is refused, and who is asked by it.

use std::net::SocketAddr;

use jevmetrics_api::member::{Member, ModeInForce};
use jevmetrics_api::routing::{Affinity, ClusterIdentity, Header, KeySource, Owner, RoutingTable};
use jevmetrics_testkit::fake_api::{FakeApi, NAME, NAMESPACE};
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{DataPlane, LiveFile, Mode, Options};
use serde_json::{Value, json};

use crate::live_object::{said, world_at};
use crate::messages::small;
use crate::support::{Via, WITHIN, World, fast};

const ANNOTATE: &str = "schema: 1\nmode: Annotate\n";
const REDUCE: &str = "schema: 1\nmode: Reduce\n";

/// A table of the policy `policy`: each pod with its name, which is its uid as well, and its address.
fn table_of(policy: &str, epoch: u64, pods: &[(&str, SocketAddr)]) -> RoutingTable {
    let owners = pods.iter().zip(0..).map(|((name, address), slot)| Owner {
        slot,
        uid: (*name).to_owned(),
        name: (*name).to_owned(),
        address: *address,
        zone: Some("zone-a".to_owned()),
    });
    let header = Header {
        cluster: ClusterIdentity {
            namespace: NAMESPACE.to_owned(),
            policy: policy.to_owned(),
        },
        affinity: Affinity::Forward,
        key: KeySource::Source,
    };
    RoutingTable::new(epoch, header, owners.collect()).unwrap()
}

/// A table of which nobody is asked.
fn table(policy: &str, epoch: u64, pods: &[&str]) -> RoutingTable {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let pods: Vec<_> = pods.iter().map(|pod| (*pod, nowhere)).collect();
    table_of(policy, epoch, &pods)
}

async fn member(plane: &DataPlane) -> Member {
    poll::eventually("Self", WITHIN, async || plane.member().await)
        .await
        .unwrap()
}

/// *Scenario*: through the API come, one after the other: a table; a broken one with another policy; one of a stranger;
/// one of a lower epoch; another one of the same epoch; no table; a policy that is broken beside the next table; the
/// object's end.
/// *Guarantees*: the last good table stays in use all the time and is told by `Self`; what is refused is named in `/readyz`,
/// `Self`, the log and the metrics; neither part holds up the other; traffic goes on.
#[tokio::test]
async fn only_the_next_table_of_the_own_policy_comes_into_force() {
    let api = FakeApi::start().await.unwrap();
    let first = table("ours", 7, &["a", "b"]).to_yaml();
    api.put_both(ANNOTATE, Some(&first));
    let (world, _directory) = world_at(api.address()).await;
    said(&world, "routing: epoch 7, slots 2, Forward\n").await;
    let told = member(&world.plane).await;
    assert_eq!(
        (told.epoch, told.routing_policy.as_deref()),
        (Some(7), Some("ours"))
    );

    let named = format!("live object {NAMESPACE}/{NAME}: ");
    let broken = first.replace("keySchema: 1", "keySchema: hunter2");
    let stranger = table("theirs", 90, &["x"]).to_yaml();
    let lower = table("ours", 6, &["a"]).to_yaml();
    let twice = table("ours", 7, &["b", "a"]).to_yaml();
    for (policy, text, problem) in [
        (REDUCE, &broken, "routing.keySchema: must be 1"),
        (
            REDUCE,
            &stranger,
            "routing.cluster: must be policy ours in namespace shop",
        ),
        (ANNOTATE, &lower, "routing.epoch: must be at least 7"),
        (REDUCE, &twice, "routing: there is another table of epoch 7"),
    ] {
        api.put_both(policy, Some(text));
        said(
            &world,
            &format!("routing: epoch 7, slots 2, Forward, {named}{problem}"),
        )
        .await;
        said(&world, "live: policy in force\n").await;
        world.logged(problem).await;
        let mode = if policy == REDUCE {
            ModeInForce::Reduce
        } else {
            ModeInForce::Annotate
        };
        let told = poll::eventually("the policy beside it", WITHIN, async || {
            let told = member(&world.plane).await;
            if told.policy.mode == Some(mode) {
                Ok(told)
            } else {
                Err(problem)
            }
        });
        let told = told.await.unwrap();
        assert_eq!(told.epoch, Some(7), "{problem}");
        assert!(told.policy.error.is_some_and(|error| error.contains(problem)));
        world.deliver(Via::Grpc, &small(50).next_bytes()).await;
    }
    world
        .logged_times("the last good routing table stays in use", 4)
        .await;
    for reason in ["broken", "stranger", "lower_epoch", "epoch_twice"] {
        let series = format!("jevmetrics_routing_refused_tables_total{{reason=\"{reason}\"}}");
        assert_eq!(world.count(&series).await, 1, "{reason}");
    }

    api.put_both(REDUCE, None);
    said(&world, "routing: epoch 7, slots 2, Forward\n").await;
    world.logged("the refused routing table is no longer there").await;
    assert!(!world.plane.printed().contains("nothing is wrong with"));
    let next = table("ours", 9, &["a", "b", "c"]).to_yaml();
    api.put_both("schema: 1\nmode: hunter2\n", Some(&next));
    said(&world, "routing: epoch 9, slots 3, Forward\n").await;
    said(
        &world,
        "live: policy in force, live object shop/metrics-live: policy.mode",
    )
    .await;
    api.delete();
    said(&world, &format!("live: policy in force, {named}not found")).await;
    said(&world, "routing: epoch 9, slots 3, Forward\n").await;
    for (series, value) in [("jevmetrics_routing_epoch", 9), ("jevmetrics_routing_slots", 3)] {
        assert_eq!(world.count(series).await, value, "{series}");
    }
    assert!(!world.plane.printed().contains("hunter2"));
    world.settled().await;
}

/// *Scenario*: a process is told for which policy it works; the live file has the table of another one, then its own.
/// *Guarantees*: the stranger's table never comes into force, although it is the first; its own does.
#[tokio::test]
async fn who_is_told_its_policy_takes_no_strangers_table_not_even_the_first() {
    let world = World::start_with(Mode::Annotate, |options| {
        let told = ("JEVMETRICS_POLICY_UID".to_owned(), "ours".to_owned());
        options.environment.push(told);
        let live = LiveFile::new(Mode::Annotate);
        options.live = Some(live.with_table(&table("theirs", 5, &["x"])).unwrap());
    })
    .await;
    said(&world, "routing: no table yet, live file ").await;
    said(
        &world,
        "routing.cluster.policy: must be ours, the policy of this process",
    )
    .await;
    assert_eq!(member(&world.plane).await.epoch, None);
    let list = world.page("/api/admin/cluster").await;
    assert_eq!(list["source"]["kind"], "alone");
    let live = LiveFile::new(Mode::Annotate);
    let own = live.with_table(&table("ours", 1, &["a"])).unwrap();
    world.plane.set_live(&own).unwrap();
    said(&world, "routing: epoch 1, slots 1, Forward\n").await;
}

/// *Scenario*: three processes without Redis share one table; one of them is killed.
/// *Guarantees*: each lists all of them by asking, with slot, zone, share and epoch; the killed one is silent with the reason,
/// in list, page and metrics; no request fails.
#[tokio::test]
async fn without_redis_the_pods_of_the_table_are_asked() {
    let jev = jevmetrics_testkit::mock_jev::MockJev::start().await.unwrap();
    let sink = jevmetrics_testkit::sink::Sink::start().await.unwrap();
    let names = ["a", "b", "c"];
    let mut planes = Vec::new();
    for name in names {
        let mut options = Options::new(fast(&sink, &jev), Mode::Annotate);
        options
            .environment
            .push(("JEVMETRICS_POD_UID".to_owned(), name.to_owned()));
        options.ready_within = WITHIN;
        planes.push(DataPlane::start(options).await.unwrap());
    }
    let pods: Vec<_> = names
        .into_iter()
        .zip(planes.iter().map(|plane| plane.listen().peer))
        .collect();
    let live = LiveFile::new(Mode::Annotate);
    let live = live.with_table(&table_of("ours", 3, &pods)).unwrap();
    for plane in &planes {
        plane.set_live(&live).unwrap();
    }
    let list = async |plane: &DataPlane| -> Value {
        let (status, body) = plane.get_admin("/api/admin/cluster").await.unwrap();
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    };
    for plane in &planes {
        let seen = poll::eventually("all of the table, on its epoch", WITHIN, async || {
            let list = list(plane).await;
            let members = list["members"].as_array().unwrap();
            let current = members.iter().filter(|row| row["epochStanding"] == "Current");
            if current.count() == 3 { Ok(list) } else { Err(list) }
        });
        let list = seen.await.unwrap();
        assert_eq!(
            (&list["source"]["kind"], &list["routing"]),
            (
                &json!("peers"),
                &json!({"epoch": 3, "slots": 3, "affinity": "Forward"})
            )
        );
        for (slot, row) in list["members"].as_array().unwrap().iter().enumerate() {
            assert_eq!(row["uid"], names[slot], "the oldest first: {list}");
            assert_eq!(
                (&row["slot"], &row["zone"], &row["isStale"]),
                (&json!(slot), &json!("zone-a"), &json!(false))
            );
            assert!(
                (row["slotShare"].as_f64().unwrap() - 1.0 / 3.0).abs() < 1e-9,
                "{list}"
            );
        }
    }
    planes[1].kill().await.unwrap();
    let seen = poll::eventually("the killed one", WITHIN, async || {
        let list = list(&planes[0]).await;
        if list["silent"].is_array() {
            Ok(list)
        } else {
            Err(list)
        }
    });
    let list = seen.await.unwrap();
    assert_eq!(list["members"].as_array().unwrap().len(), 2, "{list}");
    assert_eq!(
        (&list["silent"][0]["pod"], &list["silent"][0]["slot"]),
        (&json!("b"), &json!(1))
    );
    let reason = list["silent"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("no connection"), "{reason}");
    let (_, page) = planes[0].get_admin("/cluster").await.unwrap();
    assert!(
        page.contains(">silent<") && page.contains("no connection"),
        "{page}"
    );
    let scrape = planes[0].scrape().await.unwrap();
    assert!((scrape["jevmetrics_cluster_members{state=\"silent\"}"] - 1.0).abs() < f64::EPSILON);
}
