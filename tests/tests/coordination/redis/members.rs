//! Who sees whom: heartbeats over Redis, as the pages of every replica show them.

use jevmetrics_testkit::mock_jev::Behaviour;
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::Options;
use serde_json::Value;

use super::group::{Group, Setup, droppable, message};
use super::replica::{Replica, WITHIN};

pub(super) async fn list(replica: &Replica) -> Value {
    replica.page("/api/admin/cluster").await
}

/// Ids in the order of the list.
pub(super) fn ids(list: &Value) -> Vec<String> {
    let members = list["members"].as_array().unwrap().iter();
    members
        .map(|member| member["id"].as_str().unwrap().to_owned())
        .collect()
}

/// Waits until `replica` lists exactly these, in this order.
pub(super) async fn lists(replica: &Replica, wanted: &[String]) {
    let seen = poll::eventually("the list of members", WITHIN, async || {
        let list = list(replica).await;
        if ids(&list) == wanted { Ok(()) } else { Err(list) }
    });
    seen.await.unwrap();
}

/// Milliseconds by the clock of Redis.
async fn server_now(group: &Group) -> u64 {
    let (seconds, micros): (u64, u64) = group.redis.command(&["TIME"]).await.unwrap();
    seconds * 1_000 + micros / 1_000
}

pub(super) async fn id(replica: &Replica) -> String {
    replica.plane.member().await.unwrap().id
}

/// *Scenario*: three replicas on one host start one after the other; one is stopped, one is killed.
/// *Guarantees*: each lists all of them as soon as they are ready, the oldest first, itself marked and nobody else; who
/// stops is gone at once, who is killed when its heartbeat ends; every key has an end.
#[tokio::test(flavor = "multi_thread")]
async fn members_come_at_once_and_go_when_they_stop_or_die() {
    let mut group = Group::start(3, Setup::default()).await;
    let mut all = Vec::new();
    for replica in &group.replicas {
        all.push(id(replica).await);
    }
    for (replica, own) in group.replicas.iter().zip(&all) {
        lists(replica, &all).await;
        let list = list(replica).await;
        assert_eq!(
            (&list["selfId"], &list["source"]["works"]),
            (&own.as_str().into(), &true.into())
        );
        for member in list["members"].as_array().unwrap() {
            assert_eq!(member["isThisPod"], member["id"] == *own, "{list}");
            assert_eq!(
                (&member["isStale"], &member["state"]),
                (&false.into(), &"Serving".into()),
                "{list}"
            );
        }
        let (status, page) = replica.plane.get_admin("/cluster").await.unwrap();
        assert_eq!(status, 200);
        assert!(all.iter().all(|id| page.contains(&format!(">{id}<"))), "{page}");
        assert_eq!(page.matches("this pod").count(), 1, "{page}");
        // The first heartbeat is written by then; the count of members follows the look.
        assert!(
            replica
                .count("jevmetrics_cluster_heartbeats_total{result=\"written\"}")
                .await
                > 0
        );
        assert_eq!(
            replica
                .count("jevmetrics_cluster_members{state=\"serving\"}")
                .await,
            3
        );
    }

    let mut stopped = group.replicas.remove(0);
    stopped.plane.signal("TERM").await.unwrap();
    assert!(stopped.plane.wait(WITHIN).await.unwrap().success());
    let keys = group.redis.keys("member:*").await.unwrap();
    assert_eq!(keys.len(), 2, "gone before the process is: {keys:?}");
    lists(&group.replicas[0], &all[1..]).await;

    let mut killed = group.replicas.remove(0);
    killed.plane.kill().await.unwrap();
    let crash = server_now(&group).await;
    let (beat, shown, gone) = ends(&group, &all[1]).await;
    lists(&group.replicas[0], &all[2..]).await;
    println!("a killed member is gone {} ms after its end", gone - crash);
    // A list serves for 1 s, and reading it takes 2 s at the most: the timeout. The rest is for a busy machine.
    assert!(shown <= beat + 35_000, "last beat {beat}, shown until {shown}");
    assert!(
        gone >= beat + 29_900,
        "not before its life is over: {beat}, {gone}"
    );

    // On the same host again, it is somebody else.
    let new = id(group.add(|_| ()).await).await;
    assert!(!all.contains(&new), "{new}: {all:?}");
    lists(&group.replicas[0], &[all[2].clone(), new]).await;
    group.finish().await;
}

/// Waits until the last replica no longer lists `id`. All by the clock of Redis: the latest heartbeat, a moment before the last
/// list with it, a moment after the first one without.
async fn ends(group: &Group, id: &str) -> (u64, u64, u64) {
    let index = group.redis.key("members");
    let (mut beat, mut shown) = (0, 0);
    let gone = poll::eventually("a list without the killed one", WITHIN, async || {
        let before = server_now(group).await;
        let at: Option<String> = group.redis.command(&["ZSCORE", &index, id]).await.unwrap();
        beat = at.map_or(beat, |at| at.parse().unwrap());
        let list = list(&group.replicas[0]).await;
        if list["source"]["works"] != true {
            return Err(list);
        }
        if ids(&list).iter().any(|listed| listed == id) {
            shown = before;
            Err(list)
        } else {
            Ok(server_now(group).await)
        }
    });
    let gone = gone.await.unwrap();
    (beat, shown, gone)
}

/// A member at one moment of Redis: since when its latest heartbeat is there, how long the document stays, and the time, all in
/// milliseconds.
const LOOK: &str = "
local time = redis.call('TIME')
local at, life = redis.call('ZSCORE', KEYS[1], ARGV[1]), redis.call('PTTL', KEYS[2])
return { tonumber(at or 0), life, tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) }
";

/// *Scenario*: a replica that has nothing to do.
/// *Guarantees*: by the clock of Redis its heartbeats come about every 10 s, each for 30 s, so that two may be lost.
#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_come_every_ten_seconds() {
    let group = Group::start(1, Setup::default()).await;
    let id = id(&group.replicas[0]).await;
    let index = group.redis.key("members");
    let key = group.redis.key(&format!("member:{id}"));
    let mut seen: Vec<u64> = Vec::new();
    let three = poll::eventually("three heartbeats", WITHIN, async || {
        let look = ["EVAL", LOOK, "2", &index, &key, &id];
        let (at, life, now): (u64, i64, u64) = group.redis.command(&look).await.unwrap();
        if at == 0 {
            assert_eq!(life, -2, "a document that is not in the index");
            return Err(0);
        }
        // Without an end it would be -1.
        let whole = i64::try_from(now - at).unwrap() + life;
        assert!(
            life > 0 && (29_900..31_000).contains(&whole),
            "of a heartbeat at {at}, {life} ms are left at {now}"
        );
        if seen.last() != Some(&at) {
            seen.push(at);
        }
        if seen.len() < 3 { Err(seen.len()) } else { Ok(()) }
    });
    three.await.unwrap();
    let between: Vec<u64> = seen.windows(2).map(|pair| pair[1] - pair[0]).collect();
    println!("heartbeats {between:?} ms apart");
    // 10 s ± 10 %. A busy machine may write each a moment late: the next one comes so much later, or the one after so much
    // sooner.
    assert!(
        between.iter().all(|between| (8_500..17_000).contains(between)),
        "{between:?}"
    );
}

/// *Scenario*: two installs on one Redis, each with a namespace of its own; the user may use both.
/// *Guarantees*: neither lists the other, however long both are there, and each is whole.
#[tokio::test(flavor = "multi_thread")]
async fn two_installs_on_one_redis_never_see_each_other() {
    let group = Group::start(2, Setup::default()).await;
    let namespace = format!("{}-2", group.redis.namespace());
    let user = group.redis.coordination(group.redis.entrance()).user.unwrap();
    let pattern = format!("~jevmetrics:{{{namespace}}}:*");
    group
        .redis
        .command::<()>(&["ACL", "SETUSER", &user, &pattern])
        .await
        .unwrap();
    let adjust = |options: &mut Options| {
        if let Some(coordination) = &mut options.settings.coordination {
            coordination.namespace.clone_from(&namespace);
        }
    };
    let others = [group.separate(adjust).await, group.separate(adjust).await];
    let ours = [id(&group.replicas[0]).await, id(&group.replicas[1]).await];
    let theirs = [id(&others[0]).await, id(&others[1]).await];
    for _ in 0..2 {
        for (replicas, ids) in [(&group.replicas[..], &ours), (&others[..], &theirs)] {
            for replica in replicas {
                lists(replica, ids).await;
                assert_eq!(list(replica).await["unreadable"], 0);
            }
        }
    }
}

/// *Scenario*: a replica asks Jev, which does not answer; another one looks.
/// *Guarantees*: what is being asked about shows up as held locks of the one that asks, and of no other.
#[tokio::test(flavor = "multi_thread")]
async fn held_leases_are_seen_by_others() {
    let group = Group::start(
        2,
        Setup {
            // Longer than there may be between two heartbeats: one of them tells of it.
            question: 30_000,
            ..Setup::default()
        },
    )
    .await;
    group.jev.script().once(Behaviour::Silent);
    group.replicas[0].deliver(&message(&droppable("shop", 1))).await;
    group.jev_is_asked(1).await;
    let asking = id(&group.replicas[0]).await;
    let held = poll::eventually("the lock in the list of the other", WITHIN, async || {
        let list = list(&group.replicas[1]).await;
        let members = list["members"].as_array().unwrap().iter();
        let holders: Vec<_> = members
            .filter(|member| {
                member["leaderLocks"]
                    .as_array()
                    .is_some_and(|locks| locks.len() == 1)
            })
            .map(|member| member["id"].clone())
            .collect();
        if holders == [asking.as_str()] {
            Ok(())
        } else {
            Err(list)
        }
    });
    held.await.unwrap();
}

/// *Scenario*: somebody writes nonsense among the heartbeats.
/// *Guarantees*: it is counted as unreadable, nobody is listed for it, and nothing else changes.
#[tokio::test(flavor = "multi_thread")]
async fn nonsense_in_the_list_is_nobody() {
    let group = Group::start(1, Setup::default()).await;
    let replica = &group.replicas[0];
    let all = [id(replica).await];
    lists(replica, &all).await;
    let index = group.redis.key("members");
    for (name, document) in [("x", "nonsense"), ("y", "{\"id\":\"somebody else\"}")] {
        let key = group.redis.key(&format!("member:{name}"));
        group
            .redis
            .command::<()>(&["SET", &key, document, "PX", "600000"])
            .await
            .unwrap();
        let now = server_now(&group).await.to_string();
        group
            .redis
            .command::<u64>(&["ZADD", &index, &now, name])
            .await
            .unwrap();
    }
    let seen = poll::eventually("what makes no sense", WITHIN, async || {
        let list = list(replica).await;
        if list["unreadable"] == 2 {
            Ok(list)
        } else {
            Err(list)
        }
    });
    let list = seen.await.unwrap();
    assert_eq!(
        (ids(&list), &list["source"]["works"]),
        (all.to_vec(), &true.into())
    );
    replica.settled().await;
}
