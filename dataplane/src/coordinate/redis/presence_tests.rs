#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use jevmetrics_api::member::Member;
use jevmetrics_api::settings::SecretSource;
use serde_json::json;

use super::super::super::keys::Namespace;
use super::super::super::link::{Use, Way};
use super::super::super::presence::{LIFE, Listed, Presence};
use super::super::super::test_server::{RIGHTS, TestServer};
use super::super::super::{Admission, Coordinate};
use super::super::tests::{PREFIX, SECOND, Setup, replica, until};
use super::super::{Redis, Trouble};
use crate::secret::WatchedSecret;

/// Ids of the list, the latest heartbeat first.
async fn ids(replica: &Redis) -> Vec<String> {
    let listed = replica.members().await.unwrap().members;
    listed.into_iter().map(|listed| listed.id).collect()
}

/// Milliseconds of the server's clock.
fn now(server: &TestServer) -> i64 {
    let time: Vec<i64> = server.command("TIME");
    time[0] * 1_000 + time[1] / 1_000
}

async fn beat(replica: &Redis, id: &str) {
    replica.beat(id, "{}", LIFE).await.unwrap();
}

#[tokio::test]
async fn a_heartbeat_is_read_by_all_as_it_was_written() {
    let server = TestServer::start(&[]);
    let (one, two) = (replica(server.port, |_| {}), replica(server.port, |_| {}));
    assert_eq!(ids(&two).await, Vec::<String>::new());
    one.beat("a", "{\"id\":\"a \\\"ä\\\"\"}", LIFE).await.unwrap();
    let listed = two.members().await.unwrap().members;
    let [Listed { id, age, document }] = listed.as_slice() else {
        panic!("{listed:?}");
    };
    assert_eq!(
        (id.as_str(), document.as_slice()),
        ("a", "{\"id\":\"a \\\"ä\\\"\"}".as_bytes())
    );
    assert!(*age < 5 * SECOND, "{age:?}");
    server.assert_all_keys_end(PREFIX);
    assert_eq!(
        server.command::<i64>("DBSIZE"),
        2,
        "a key a member, and the index"
    );
}

#[tokio::test]
async fn ages_are_those_of_the_servers_clock_and_the_latest_comes_first() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, |_| {});
    for id in ["a", "b", "c"] {
        beat(&one, id).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    beat(&one, "a").await;
    assert_eq!(ids(&one).await, ["a", "c", "b"]);
    // As after a failover to a server whose clock is behind.
    let soon = now(&server) + 20_000;
    server.command::<i64>(&format!("ZADD {PREFIX}members {soon} b"));
    let listed = one.members().await.unwrap().members;
    assert_eq!((listed[0].id.as_str(), listed[0].age), ("b", Duration::ZERO));
}

#[tokio::test]
async fn who_says_nothing_is_gone_after_a_life_and_who_leaves_at_once() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, |_| {});
    let life = Duration::from_millis(300);
    one.beat("crashed", "{}", life).await.unwrap();
    beat(&one, "stopped").await;
    beat(&one, "serving").await;
    one.leave("stopped").await.unwrap();
    assert_eq!(ids(&one).await, ["serving", "crashed"]);
    let gone = async || (ids(&one).await == ["serving"]).then_some(());
    until(5 * SECOND, gone).await;
    // The index is behind until somebody says something.
    tokio::time::sleep(life).await;
    one.beat("serving", "{}", life).await.unwrap();
    let index: Vec<String> = server.command(&format!("ZRANGE {PREFIX}members 0 -1"));
    assert_eq!(index, ["serving"]);
    one.leave("serving").await.unwrap();
    one.leave("serving").await.unwrap();
    server.assert_all_keys_end(PREFIX);
    let mut keys: Vec<String> = server.command("KEYS *");
    keys.sort_unstable();
    let left = ["serving", "stopped"].map(|id| format!("{PREFIX}left:{id}"));
    assert_eq!(keys, left, "nothing else is left behind");
}

#[tokio::test]
async fn a_heartbeat_that_comes_after_the_leave_brings_nobody_back() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, |_| {});
    beat(&one, "a").await;
    beat(&one, "b").await;
    one.leave("a").await.unwrap();
    // As one that was sent before, over a connection that was given up.
    beat(&one, "a").await;
    assert_eq!(ids(&one).await, ["b"]);
    let keys: Vec<String> = server.command(&format!("KEYS {PREFIX}member:*"));
    assert_eq!(keys, [format!("{PREFIX}member:b")]);
    // The mark holds it back, for a life.
    let mark = format!("{PREFIX}left:a");
    let life: i64 = server.command(&format!("PTTL {mark}"));
    assert!((20_000..=30_000).contains(&life), "{life}");
    assert_eq!(server.command::<i64>(&format!("DEL {mark}")), 1);
    beat(&one, "a").await;
    assert_eq!(ids(&one).await, ["a", "b"]);
}

#[tokio::test]
async fn namespaces_never_see_each_other() {
    let server = TestServer::start(&[]);
    let of = |name: &'static str| {
        replica(server.port, |setup| {
            setup.namespace = Namespace::new(name).unwrap();
        })
    };
    // One is the beginning of the other.
    let (one, two) = (of("monitoring/shop"), of("monitoring/shop/2"));
    beat(&one, "a").await;
    beat(&two, "a").await;
    beat(&two, "b").await;
    assert_eq!(ids(&one).await, ["a"]);
    one.leave("a").await.unwrap();
    assert_eq!(ids(&one).await, Vec::<String>::new());
    assert_eq!(ids(&two).await, ["b", "a"]);
}

#[tokio::test]
async fn keys_of_another_type_count_as_nobody() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, |_| {});
    beat(&one, "a").await;
    server.command::<i64>(&format!("HSET {PREFIX}member:b field value"));
    server.command::<i64>(&format!("ZADD {PREFIX}members {} b", now(&server)));
    assert_eq!(ids(&one).await, ["a"]);
    server.command::<i64>(&format!("DEL {PREFIX}members"));
    server.command::<()>(&format!("SET {PREFIX}members nonsense"));
    assert!(matches!(one.members().await, Err(Trouble::Refused(_))));
    assert!(matches!(
        one.beat("a", "{}", LIFE).await,
        Err(Trouble::Refused(_))
    ));
    assert_eq!(one.trouble(), None, "nobody else is stopped by it");
}

#[tokio::test]
async fn a_missing_right_stops_heartbeats_and_nothing_else() {
    let server = TestServer::start(&[]);
    server.command::<()>(&format!(
        "ACL SETUSER jevmetrics reset on >secret ~{PREFIX}* {RIGHTS}"
    ));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "secret").unwrap();
    let secret = Arc::new(WatchedSecret::load(SecretSource::File(file.path().to_owned())));
    let one = replica(server.port, |setup: &mut Setup| {
        setup.server.user = Some("jevmetrics".to_owned());
        setup.server.password = Some(Arc::clone(&secret));
    });
    beat(&one, "a").await;
    beat(&one, "b").await;
    one.leave("b").await.unwrap();
    assert_eq!(ids(&one).await, ["a"], "the documented rights are enough");
    // As a rule that was written for a version without heartbeats.
    server.command::<()>("ACL SETUSER jevmetrics -zrange -mget");
    assert_eq!(one.members().await, Err(Trouble::Permission));
    beat(&one, "a").await;
    server.command::<()>("ACL SETUSER jevmetrics -pexpire +zrange +mget");
    assert_eq!(one.beat("c", "{}", LIFE).await, Err(Trouble::Permission));
    assert_eq!(ids(&one).await, ["a"], "nothing without an end is left");
    server.assert_all_keys_end(PREFIX);
    assert_eq!(one.trouble(), None);
    server.command::<()>("ACL SETUSER jevmetrics -mget +pexpire");
    assert_eq!(one.members().await, Err(Trouble::Permission));
    let identity = super::super::tests::identity("instrument");
    let admitted = one.admit(identity, Duration::ZERO).await.unwrap();
    assert!(matches!(admitted, Admission::Owner(_)), "{admitted:?}");
}

#[tokio::test]
async fn a_server_that_is_full_or_demoted_still_tells_who_is_there() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, |_| {});
    beat(&one, "a").await;
    beat(&one, "b").await;
    server.command::<()>("CONFIG SET maxmemory 1");
    assert_eq!(one.beat("a", "{}", LIFE).await, Err(Trouble::OutOfMemory));
    assert_eq!(ids(&one).await, ["b", "a"]);
    one.leave("b").await.unwrap();
    assert_eq!(ids(&one).await, ["a"]);
    server.command::<()>("CONFIG SET maxmemory 0");
    server.command::<()>("REPLICAOF 127.0.0.1 1");
    assert_eq!(one.beat("a", "{}", LIFE).await, Err(Trouble::ReadOnly));
    assert_eq!(ids(&one).await, ["a"]);
    server.command::<()>("REPLICAOF NO ONE");
    beat(&one, "a").await;
}

#[tokio::test]
async fn a_server_that_went_away_is_told_by_its_cause_and_found_again() {
    let mut server = TestServer::start(&[]);
    let one = replica(server.port, |_| {});
    beat(&one, "a").await;
    server.kill();
    let mut causes = Vec::new();
    for _ in 0..3 {
        causes.push(one.members().await.unwrap_err());
    }
    // Also while it is left alone after a failure.
    assert!(!causes.contains(&Trouble::Backoff), "{causes:?}");
    server.restart();
    let again = async || one.beat("a", "{}", LIFE).await.ok();
    until(10 * SECOND, again).await;
    assert_eq!(ids(&one).await, ["a"]);
    assert_eq!(one.trouble(), None);
}

#[tokio::test]
async fn a_long_list_is_told_in_part_the_latest_first_and_as_cut() {
    use super::super::super::presence::MOST;
    let server = TestServer::start(&[]);
    let one = replica(server.port, |_| {});
    let client = ::redis::Client::open(("127.0.0.1", server.port)).unwrap();
    let mut admin = client.get_connection().unwrap();
    let mut pipeline = ::redis::pipe();
    let first = now(&server) - 5_000;
    for (number, score) in (0..MOST + 5).zip(first..) {
        pipeline
            .cmd("SET")
            .arg(format!("{PREFIX}member:m{number}"))
            .arg("{}")
            .arg("PX")
            .arg(60_000)
            .ignore();
        pipeline
            .cmd("ZADD")
            .arg(format!("{PREFIX}members"))
            .arg(score)
            .arg(format!("m{number}"))
            .ignore();
    }
    pipeline.query::<()>(&mut admin).unwrap();
    let listing = one.members().await.unwrap();
    let listed: Vec<_> = listing.members.into_iter().map(|listed| listed.id).collect();
    assert_eq!((listed.len(), listing.is_cut), (MOST, true));
    assert_eq!(listed[0], format!("m{}", MOST + 4));
    assert!(!listed.contains(&"m4".to_owned()));
    for number in 0..5 {
        one.leave(&format!("m{number}")).await.unwrap();
    }
    let listing = one.members().await.unwrap();
    assert_eq!((listing.members.len(), listing.is_cut), (MOST, false));
}

#[tokio::test]
async fn who_is_listed_in_the_future_is_out_with_the_next_heartbeat_of_anybody() {
    use super::super::super::presence::MOST;
    let server = TestServer::start(&[]);
    let one = replica(server.port, |_| {});
    let client = ::redis::Client::open(("127.0.0.1", server.port)).unwrap();
    let mut admin = client.get_connection().unwrap();
    let mut pipeline = ::redis::pipe();
    for number in 0..MOST {
        pipeline
            .cmd("ZADD")
            .arg(format!("{PREFIX}members"))
            .arg(99_999_999_999_999_u64)
            .arg(format!("m{number}"))
            .ignore();
    }
    pipeline.query::<()>(&mut admin).unwrap();
    beat(&one, "a").await;
    assert_eq!(ids(&one).await, ["a"]);
    assert_eq!(server.command::<i64>(&format!("ZCARD {PREFIX}members")), 1);
    // A server that took over may be behind by less than a life: nobody is lost by that.
    let soon = now(&server) + 20_000;
    server.command::<i64>(&format!("ZADD {PREFIX}members {soon} b"));
    server.command::<()>(&format!("SET {PREFIX}member:b {{}} PX 60000"));
    beat(&one, "a").await;
    assert_eq!(ids(&one).await, ["b", "a"]);
}

#[tokio::test]
async fn who_is_listed_for_no_time_of_ours_is_nobody_and_takes_nobodys_place() {
    use super::super::super::presence::MOST;
    let server = TestServer::start(&[]);
    let one = replica(server.port, |_| {});
    beat(&one, "a").await;
    let now = now(&server);
    for (number, score) in [
        "-inf",
        "+inf",
        "-1e300",
        "1e300",
        "0",
        "-1",
        &format!("{}", now - 60_000),
        &format!("{}", now + 60_000),
    ]
    .into_iter()
    .enumerate()
    {
        server.command::<()>(&format!("SET {PREFIX}member:m{number} {{}} PX 60000"));
        server.command::<i64>(&format!("ZADD {PREFIX}members {score} m{number}"));
    }
    assert_eq!(ids(&one).await, ["a"]);
    let client = ::redis::Client::open(("127.0.0.1", server.port)).unwrap();
    let mut pipeline = ::redis::pipe();
    for number in 0..MOST {
        let key = format!("{PREFIX}members");
        pipeline.cmd("ZADD").arg(key).arg("+inf").arg(number).ignore();
    }
    pipeline
        .query::<()>(&mut client.get_connection().unwrap())
        .unwrap();
    assert_eq!(
        ids(&one).await,
        ["a"],
        "though a whole list of them comes before it"
    );
}

#[tokio::test]
async fn a_document_that_is_too_long_comes_as_empty_and_one_without_room_not_at_all() {
    use super::super::super::presence::MOST_BYTES;
    use jevmetrics_api::member::MAX_BYTES;
    let server = TestServer::start(&[]);
    let one = replica(server.port, |setup| setup.timeout = 10 * SECOND);
    beat(&one, "a").await;
    let longest = "x".repeat(MAX_BYTES);
    one.beat("long", &longest, LIFE).await.unwrap();
    one.beat("longer", &format!("{longest}x"), LIFE).await.unwrap();
    let told = async || -> (Vec<(String, usize)>, bool) {
        let listing = one.members().await.unwrap();
        let listed = listing.members.into_iter();
        let lengths = listed.map(|listed| (listed.id, listed.document.len()));
        (lengths.collect(), listing.is_cut)
    };
    let named = |id: &str, length| (id.to_owned(), length);
    assert_eq!(
        told().await,
        (
            vec![named("longer", 0), named("long", MAX_BYTES), named("a", 2)],
            false
        )
    );
    let fitting = MOST_BYTES / MAX_BYTES;
    for number in 0..fitting {
        one.beat(&format!("m{number}"), &longest, LIFE).await.unwrap();
    }
    let (lengths, is_cut) = told().await;
    assert!(is_cut, "two good ones are not told");
    let sent: usize = lengths.iter().map(|(_, length)| length).sum();
    assert_eq!(sent, MOST_BYTES);
    let empty: Vec<_> = lengths.iter().filter(|(_, length)| *length == 0).collect();
    assert_eq!(empty, [&named("longer", 0)], "nobody else is unreadable");
    assert_eq!(lengths.len(), fitting + 1);
}

#[tokio::test]
async fn leaving_does_not_wait_for_a_server_that_was_left_alone() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, |setup| setup.timeout = Duration::from_millis(200));
    beat(&one, "a").await;
    server.signal("STOP");
    // As often as it takes for a pause of seconds.
    let closed = async || {
        let _ = one.beat("a", "{}", LIFE).await;
        (one.pauses().reading > SECOND).then_some(())
    };
    until(60 * SECOND, closed).await;
    server.signal("CONT");
    let left = async || one.leave("a").await.ok();
    until(10 * SECOND, left).await;
    assert!(one.pauses().reading.is_zero(), "and then it is known to be back");
    assert_eq!(ids(&one).await, Vec::<String>::new());
}

/// Whether the next call makes a new connection.
fn is_unconnected(replica: &Redis) -> bool {
    matches!(replica.link().way(Use::Finish, Instant::now()), Way::Connect)
}

#[tokio::test]
async fn a_heartbeat_without_an_answer_is_given_up_and_stops_nobody_with_more_time() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, |setup| setup.timeout = 60 * SECOND);
    beat(&one, "a").await;
    server.signal("STOP");
    let given_up = tokio::time::timeout(30 * SECOND, one.beat("a", "{}", LIFE)).await;
    assert_eq!(given_up, Ok(Err(Trouble::Timeout)));
    assert!(
        is_unconnected(&one),
        "or it would be tried over the dead one for ever"
    );
    assert!(one.pauses().reading.is_zero() && one.trouble().is_none());
    server.signal("CONT");
    beat(&one, "a").await;
}

#[tokio::test]
async fn an_attempt_to_leave_ends_soon_and_the_next_one_is_over_a_new_connection() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, |setup| setup.timeout = 60 * SECOND);
    beat(&one, "a").await;
    server.signal("STOP");
    let given_up = tokio::time::timeout(30 * SECOND, one.leave("a")).await;
    assert_eq!(given_up, Ok(Err(Trouble::Timeout)));
    assert!(is_unconnected(&one));
    // Somebody with more time is connecting now: nobody waits for that.
    let _turn = one.connecting.lock().await;
    let given_up = tokio::time::timeout(30 * SECOND, one.leave("a")).await;
    assert_eq!(given_up, Ok(Err(Trouble::Timeout)));
    server.signal("CONT");
    one.leave("a").await.unwrap();
    assert_eq!(ids(&one).await, Vec::<String>::new());
}

/// A document with every field, each as long as names of people's choice become, and with an explanation of so many bytes of
/// what is wrong with the live object.
fn long_document(explanation: usize) -> Vec<u8> {
    let hash = "0123456789abcdef0123456789abcdef";
    let pod = format!("{}-6f7d9c5b8-x2x4z", "jevmetrics-of-a-team-with-a-long-name");
    let document = json!({
        "id": format!("{pod}-000102ff"),
        "hostname": pod,
        "version": "0.1.0",
        "startedAt": i64::MAX,
        "lastSeen": i64::MAX,
        "isThisPod": false,
        "leaderLocks": [hash, hash, hash, hash],
        "pod": pod,
        "uid": "3f2a0b1c-5c4b-4d5e-8f90-a1b2c3d4e5f6",
        "node": "ip-10-123-123-123.eu-central-1.compute.internal",
        "epoch": u64::MAX >> 11,
        "routingPolicy": "3f2a0b1c-5c4b-4d5e-8f90-a1b2c3d4e5f6",
        "slot": 199,
        "zone": "eu-central-1a",
        "state": "Serving",
        "settingsDigest": hash,
        "revision": "2026-11-30-with-some-words",
        "policy": {"state": "Read", "mode": "Reduce", "error": "x".repeat(explanation)},
        "inference": {
            "endpoint": "https://api.typesafe.ai/with/a/path", "model": "jev-1.13.0", "state": "Failing",
            "reason": "timeout", "budget": "TooSmall", "assessmentVersion": hash,
        },
        "coordination": {
            "namespace": "a-namespace-with-a-long-name/a-policy-with-a-long-name/3f2a0b1c5c4b", "state": "Pending",
            "reason": "another budget in 20 s: 12 10000 4 100", "generation": u32::MAX, "highestGeneration": u32::MAX,
            "evictionPolicy": "volatile-ttl",
        },
        "coverage": 0.123,
        "counters": {"received": u64::MAX, "kept": u64::MAX, "dropped": u64::MAX},
    });
    let member: Member = serde_json::from_value(document).unwrap();
    member.to_json()
}

#[test]
fn the_longest_list_is_sent_whole_unless_all_have_much_to_explain() {
    use super::super::super::presence::{MOST, MOST_BYTES};
    let length = long_document(300).len();
    assert!(length > 1_500, "{length}: every field is there");
    assert!(length * MOST <= MOST_BYTES, "{length}");
    // One live object is wrong for all of a group: they say so at the same time, each as long as it may be.
    let longest = long_document(2_048).len();
    assert!(longest > length + 1_700, "{longest}: it is not cut");
    assert!(longest * MOST / 2 <= MOST_BYTES, "{longest}");
}
