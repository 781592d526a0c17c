#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

use std::io::Write as _;

use jevmetrics_api::settings::SecretSource;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::ServerName;

use super::super::keys::VersionInputs;
use super::super::test_server::{RIGHTS, TestServer, free_port};
use super::super::{Mismatch, Wait};
use super::*;
use crate::infer::failure::Cause;
use crate::retain::answers::{Action, Answers, Percent};
use crate::secret::WatchedSecret;
pub(super) use crate::test_identity::identity;
use crate::tls::{self, TlsFiles};

pub(super) const PREFIX: &str = "jevmetrics:{tests}:";
pub(super) const SECOND: Duration = Duration::from_secs(1);

fn version(revision: &str) -> Version {
    Version::new(VersionInputs {
        endpoint: "http://jev",
        model: "jev-latest",
        context_attributes: &[],
        ttl_milliseconds: 60_000,
        identity: "Complete",
        revision,
    })
}

/// A replica to be.
pub(super) struct Setup {
    config: RedisConfig,
    block: Block,
}

impl std::ops::Deref for Setup {
    type Target = RedisConfig;

    fn deref(&self) -> &RedisConfig {
        &self.config
    }
}

impl std::ops::DerefMut for Setup {
    fn deref_mut(&mut self) -> &mut RedisConfig {
        &mut self.config
    }
}

/// A replica with the usual budget, changed by `change`.
pub(super) fn replica(port: u16, change: impl FnOnce(&mut Setup)) -> Redis {
    let config = RedisConfig {
        server: Server {
            host: "localhost".to_owned(),
            port,
            database: 0,
            user: None,
            password: None,
            tls: None,
        },
        timeout: SECOND,
        namespace: Namespace::new("tests").unwrap(),
        version: version("1"),
        ttl: Duration::from_mins(1),
        token_prefix: format!("{:x}", getrandom::u64().unwrap()),
        stats: Stats::default(),
    };
    let mut setup = Setup {
        config,
        block: "1 5000 4 1000".parse().unwrap(),
    };
    change(&mut setup);
    let redis = Redis::new(setup.config);
    redis.set_block(Ok(setup.block));
    redis
}

fn block(text: &'static str) -> impl FnOnce(&mut Setup) {
    move |config| config.block = text.parse().unwrap()
}

fn answers(keep: u8) -> Verdict {
    let percent = |value| Percent::new(value).unwrap();
    Verdict::Assessed {
        answers: Answers {
            relevance: percent(1),
            redundancy: percent(2),
            keep: percent(keep),
            action: Action::Drop,
        },
        model: "jev-1".to_owned(),
    }
}

async fn own(replica: &Redis, name: &str) -> Lease {
    match replica.admit(identity(name), Duration::ZERO).await.unwrap() {
        Admission::Owner(lease) => lease,
        other => panic!("no lease: {other:?}"),
    }
}

async fn wait(replica: &Redis, name: &str) -> Wait {
    match replica.admit(identity(name), Duration::ZERO).await.unwrap() {
        Admission::Wait(wait) => wait,
        other => panic!("no wait: {other:?}"),
    }
}

async fn hit(replica: &Redis, name: &str) -> super::super::Shared {
    match replica.admit(identity(name), Duration::ZERO).await.unwrap() {
        Admission::Hit(shared) => shared,
        other => panic!("no hit: {other:?}"),
    }
}

async fn find(replica: &Redis, name: &str) -> Option<Verdict> {
    match replica.look_up(&[identity(name)]).await.unwrap() {
        LookUp::Found(found) => found[0].clone().map(|shared| shared.verdict),
        other @ LookUp::Mismatch(_) => panic!("{other:?}"),
    }
}

/// Tries until `attempt` gives something, which must be within `most`.
pub(super) async fn until<T>(most: Duration, mut attempt: impl AsyncFnMut() -> Option<T>) -> (T, Duration) {
    let begin = Instant::now();
    loop {
        if let Some(found) = attempt().await {
            return (found, begin.elapsed());
        }
        assert!(begin.elapsed() < most, "not within {most:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn until_owner(replica: &Redis, name: &str, most: Duration) -> Duration {
    let attempt = async || match replica.admit(identity(name), Duration::ZERO).await {
        Ok(Admission::Owner(_)) => Some(()),
        _ => None,
    };
    until(most, attempt).await.1
}

#[tokio::test]
async fn one_replica_asks_and_the_others_read_its_answer() {
    let server = TestServer::start(&[]);
    let (one, two) = (replica(server.port, |_| {}), replica(server.port, |_| {}));
    assert_eq!(find(&two, "a").await, None);
    let lease = own(&one, "a").await;
    assert!(matches!(wait(&two, "a").await, Wait::Lease(left) if left <= 5 * SECOND && left > 4 * SECOND));
    let published = one.publish(&lease, &answers(7)).await.unwrap();
    assert!(
        matches!(published, Publication::Published(expires) if expires <= now() + Duration::from_mins(1))
    );
    let shared = hit(&two, "a").await;
    assert_eq!(shared.verdict, answers(7));
    let life = shared.expires.saturating_duration_since(now());
    assert!(life < Duration::from_mins(1) && life > Duration::from_secs(58));
    assert_eq!(find(&two, "a").await, Some(answers(7)));
    let names = ["b", "a", "c"].map(identity);
    let LookUp::Found(found) = two.look_up(&names).await.unwrap() else {
        panic!("mismatch");
    };
    assert_eq!(
        found.iter().map(Option::is_some).collect::<Vec<_>>(),
        [false, true, false]
    );
    server.assert_all_keys_end(PREFIX);
}

#[tokio::test]
async fn another_version_reads_nothing_and_shares_the_budget() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, block("1 5000 1 1000"));
    let two = replica(server.port, |config| {
        block("1 5000 1 1000")(config);
        config.version = version("2");
    });
    let lease = own(&one, "a").await;
    one.publish(&lease, &answers(7)).await.unwrap();
    assert_eq!(find(&two, "a").await, None);
    own(&one, "b").await;
    assert_eq!(wait(&two, "a").await, Wait::InFlight);
}

#[tokio::test]
async fn a_late_owner_publishes_nothing() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, block("1 200 4 1000"));
    let lease = own(&one, "a").await;
    tokio::time::sleep(Duration::from_millis(230)).await;
    let second = own(&one, "a").await;
    assert!(matches!(
        one.publish(&second, &answers(90)).await,
        Ok(Publication::Published(_))
    ));
    assert_eq!(one.publish(&lease, &answers(1)).await, Ok(Publication::Late));
    assert_eq!(find(&one, "a").await, Some(answers(90)));
}

#[tokio::test]
async fn leases_given_back_are_free_at_once_and_their_admissions_are_not() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, block("1 5000 1 1000"));
    let lease = own(&one, "a").await;
    assert_eq!(wait(&one, "b").await, Wait::InFlight);
    one.release(&lease).await.unwrap();
    own(&one, "b").await;

    let few = replica(server.port, |config| {
        config.namespace = Namespace::new("few").unwrap();
        config.block = "1 5000 9 3".parse().unwrap();
    });
    let (mut owners, begin) = (0, Instant::now());
    while begin.elapsed() < 2 * SECOND {
        match few.admit(identity("c"), Duration::ZERO).await.unwrap() {
            Admission::Owner(lease) => {
                owners += 1;
                few.release(&lease).await.unwrap();
            }
            Admission::Wait(Wait::Rate(left)) => tokio::time::sleep(left).await,
            other => panic!("{other:?}"),
        }
    }
    // Two seconds touch three seconds of Redis.
    assert!((6..=9).contains(&owners), "{owners}");
}

#[tokio::test]
async fn a_failure_stops_all_and_a_refusal_nobody() {
    let server = TestServer::start(&[]);
    let (one, two) = (replica(server.port, |_| {}), replica(server.port, |_| {}));
    let refused = own(&one, "a").await;
    one.publish(&refused, &Verdict::Refused).await.unwrap();
    assert_eq!(hit(&two, "a").await.verdict, Verdict::Refused);
    let failing = own(&two, "b").await;
    let setback = |cause, wait| Setback { cause, wait };
    let pause = one.fail(&failing, setback(Cause::Timeout, None)).await.unwrap();
    assert_eq!(pause, SECOND);
    assert!(matches!(wait(&two, "c").await, Wait::Cooldown(left) if left <= SECOND));
    until_owner(&two, "c", 2 * SECOND).await;

    let other = |config: &mut Setup| config.namespace = Namespace::new("other").unwrap();
    let three = replica(server.port, other);
    let lease = own(&three, "a").await;
    let wait = Some(Duration::from_secs(45));
    assert_eq!(
        three.fail(&lease, setback(Cause::RateLimited, wait)).await,
        Ok(Duration::from_secs(45))
    );
    let four = replica(server.port, |config| {
        config.namespace = Namespace::new("fourth").unwrap();
    });
    let lease = own(&four, "a").await;
    let pause = four.fail(&lease, setback(Cause::Unauthorized, None)).await;
    assert_eq!(pause, Ok(Duration::from_secs(32)));
}

#[tokio::test]
async fn a_new_budget_waits_for_the_old_leases_and_the_old_one_is_behind_then() {
    let server = TestServer::start(&[]);
    let (old, new) = (
        replica(server.port, block("1 400 4 1000")),
        replica(server.port, block("1 400 4 1000")),
    );
    let lease = own(&old, "a").await;
    let next: Block = "2 600 1 1000".parse().unwrap();
    new.set_block(Ok(next));
    let Wait::Pending {
        left,
        old: before,
        new: after,
    } = wait(&new, "b").await
    else {
        panic!("not pending");
    };
    assert!(left <= Duration::from_millis(800) && left > Duration::from_millis(700));
    assert_eq!((before.to_string().as_str(), after), ("1 400 4 1000", next));
    assert!(matches!(wait(&old, "b").await, Wait::Pending { .. }));
    assert!(matches!(
        old.publish(&lease, &answers(5)).await,
        Ok(Publication::Published(_))
    ));
    let took = until_owner(&new, "b", SECOND).await;
    assert!(took > Duration::from_millis(600), "{took:?}");
    assert_eq!(wait(&old, "c").await, Wait::Superseded(next));
    assert_eq!(find(&old, "a").await, Some(answers(5)));
    assert_eq!(wait(&new, "c").await, Wait::InFlight);
    // The newer generation is lost: the older one comes back by itself.
    until_owner(&old, "d", 2 * SECOND).await;
    server.assert_all_keys_end(PREFIX);
}

#[tokio::test]
async fn without_generations_two_budgets_are_a_mismatch_until_one_is_unused() {
    let server = TestServer::start(&[]);
    let (one, two) = (
        replica(server.port, block("0 300 4 1000")),
        replica(server.port, block("0 300 4 2000")),
    );
    own(&one, "a").await;
    let expected = Mismatch {
        mine: "0 300 4 2000".parse().unwrap(),
        theirs: "0 300 4 1000".parse().unwrap(),
    };
    let admission = two.admit(identity("b"), Duration::ZERO).await.unwrap();
    assert!(matches!(admission, Admission::Mismatch(mismatch) if mismatch == expected));
    assert_eq!(
        two.look_up(&[identity("a")]).await,
        Ok(LookUp::Mismatch(expected))
    );
    until_owner(&two, "b", SECOND).await;
}

#[tokio::test]
async fn a_refresh_replaces_what_has_little_life_left() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, |config| config.ttl = SECOND);
    let lease = own(&one, "a").await;
    one.publish(&lease, &answers(1)).await.unwrap();
    let least = Duration::from_millis(500);
    assert!(matches!(
        one.admit(identity("a"), least).await,
        Ok(Admission::Hit(_))
    ));
    tokio::time::sleep(Duration::from_millis(600)).await;
    let Ok(Admission::Owner(lease)) = one.admit(identity("a"), least).await else {
        panic!("no owner");
    };
    assert_eq!(
        hit(&one, "a").await.verdict,
        answers(1),
        "the old one counts meanwhile"
    );
    one.publish(&lease, &answers(2)).await.unwrap();
    let Ok(Admission::Hit(shared)) = one.admit(identity("a"), least).await else {
        panic!("no hit");
    };
    assert_eq!(shared.verdict, answers(2));
}

#[tokio::test]
async fn an_assessment_of_another_form_is_written_anew() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, |_| {});
    let key = one.keys.score(&identity("a"));
    server.command::<()>(&format!("SET {key} nonsense PX 50000"));
    assert_eq!(find(&one, "a").await, None);
    let lease = own(&one, "a").await;
    one.publish(&lease, &answers(3)).await.unwrap();
    assert_eq!(find(&one, "a").await, Some(answers(3)));
}

#[tokio::test]
async fn a_key_of_another_type_is_as_good_as_none() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, |_| {});
    let lease = own(&one, "a").await;
    one.publish(&lease, &answers(3)).await.unwrap();
    let key: Vec<String> = server.command(&format!("KEYS {PREFIX}score:*"));
    server.command::<i64>(&format!("DEL {}", key[0]));
    server.command::<i64>(&format!("HSET {} a b", key[0]));
    server.command::<i64>(&format!("PEXPIRE {} 50000", key[0]));
    assert_eq!(find(&one, "a").await, None);
    let lease = own(&one, "a").await;
    one.publish(&lease, &answers(4)).await.unwrap();
    assert_eq!(find(&one, "a").await, Some(answers(4)));
    assert_eq!(one.trouble(), None);
}

#[tokio::test]
async fn flushed_scripts_are_sent_again() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, |_| {});
    let lease = own(&one, "a").await;
    server.command::<()>("SCRIPT FLUSH");
    one.publish(&lease, &answers(3)).await.unwrap();
    assert_eq!(find(&one, "a").await, Some(answers(3)));
    assert_eq!(one.trouble(), None);
}

#[tokio::test]
async fn a_demoted_server_is_left_and_found_again() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, |_| {});
    own(&one, "a").await;
    server.command::<()>("REPLICAOF 127.0.0.1 1");
    let refused = one.admit(identity("b"), Duration::ZERO).await;
    assert_eq!(refused.unwrap_err(), Trouble::ReadOnly);
    let refused = one.admit(identity("b"), Duration::ZERO).await;
    assert_eq!(refused.unwrap_err(), Trouble::Backoff);
    server.command::<()>("REPLICAOF NO ONE");
    until_owner(&one, "b", 5 * SECOND).await;
    assert_eq!(one.trouble(), None);
}

#[tokio::test]
async fn a_full_server_refuses_admissions_and_takes_leases_back() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, |_| {});
    let (published, lease) = (own(&one, "a").await, own(&one, "b").await);
    one.publish(&published, &answers(3)).await.unwrap();
    server.command::<()>("CONFIG SET maxmemory 1");
    let refused = one.admit(identity("c"), Duration::ZERO).await;
    assert_eq!(refused.unwrap_err(), Trouble::OutOfMemory);
    assert_eq!(find(&one, "a").await, Some(answers(3)));
    assert_eq!(one.trouble(), Some(Trouble::OutOfMemory));
    one.release(&lease).await.unwrap();
    server.command::<()>("CONFIG SET maxmemory 0");
    until_owner(&one, "c", 5 * SECOND).await;
}

#[tokio::test]
async fn a_silent_server_costs_its_timeout_once_a_pause() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, |config| config.timeout = Duration::from_millis(200));
    own(&one, "a").await;
    server.signal("STOP");
    let begin = Instant::now();
    let refused = one.admit(identity("b"), Duration::ZERO).await;
    assert_eq!(refused.unwrap_err(), Trouble::Timeout);
    assert!(begin.elapsed() < SECOND);
    let refused = one.admit(identity("b"), Duration::ZERO).await;
    assert_eq!(refused.unwrap_err(), Trouble::Backoff);
    server.signal("CONT");
    until_owner(&one, "c", 5 * SECOND).await;
}

#[tokio::test]
async fn a_server_that_restarts_empty_is_used_within_five_seconds() {
    let mut server = TestServer::start(&[]);
    let one = replica(server.port, |_| {});
    let lease = own(&one, "a").await;
    server.kill();
    for _ in 0..5 {
        assert!(one.admit(identity("b"), Duration::ZERO).await.is_err());
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    server.restart();
    until_owner(&one, "b", 5 * SECOND).await;
    assert_eq!(one.publish(&lease, &answers(3)).await, Ok(Publication::Late));
}

#[tokio::test]
async fn the_documented_rights_are_enough_and_a_new_password_is_taken_up() {
    let server = TestServer::start(&[]);
    let user = |password: &str| {
        server.command::<()>(&format!(
            "ACL SETUSER jevmetrics reset on >{password} ~{PREFIX}* {RIGHTS}"
        ));
    };
    user("first");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"first").unwrap();
    let secret = Arc::new(WatchedSecret::load(SecretSource::File(file.path().to_owned())));
    let with_user = |config: &mut Setup| {
        config.server.user = Some("jevmetrics".to_owned());
        config.server.password = Some(Arc::clone(&secret));
    };
    let one = replica(server.port, with_user);
    let lease = own(&one, "a").await;
    one.publish(&lease, &answers(3)).await.unwrap();
    let failing = own(&one, "b").await;
    let returned = own(&one, "c").await;
    one.release(&returned).await.unwrap();
    let setback = Setback {
        cause: Cause::Timeout,
        wait: None,
    };
    one.fail(&failing, setback).await.unwrap();
    assert_eq!(find(&one, "a").await, Some(answers(3)));

    user("second");
    server.command::<i64>("CLIENT KILL USER jevmetrics");
    assert_eq!(one.look_up(&[identity("a")]).await, Err(Trouble::Closed));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(one.look_up(&[identity("a")]).await, Err(Trouble::Password));
    let stop = tokio_util::sync::CancellationToken::new();
    let following = {
        let (secret, stop) = (Arc::clone(&secret), stop.clone());
        tokio::spawn(async move { secret.follow(stop).await })
    };
    std::fs::write(file.path(), "second").unwrap();
    let read = async || match one.look_up(&[identity("a")]).await {
        Ok(LookUp::Found(found)) => found[0].clone(),
        _ => None,
    };
    until(8 * SECOND, read).await;
    stop.cancel();
    following.await.unwrap();

    server.command::<()>("ACL SETUSER jevmetrics -hset");
    let refused = one.admit(identity("d"), Duration::ZERO).await;
    assert_eq!(refused.unwrap_err(), Trouble::Permission);
    server.assert_all_keys_end(PREFIX);
}

#[tokio::test]
async fn ten_thousand_shared_assessments_take_at_most_a_hundred_round_trips() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, |_| {});
    let identities: Vec<Identity> = (0..10_000)
        .map(|number| identity(&format!("m{number}")))
        .collect();
    let mut admin = ::redis::Client::open(("127.0.0.1", server.port))
        .unwrap()
        .get_connection()
        .unwrap();
    let mut pipeline = ::redis::pipe();
    for identity in &identities {
        let score = payload::encode(&answers(50));
        pipeline
            .cmd("SET")
            .arg(one.keys.score(identity))
            .arg(score)
            .arg("PX")
            .arg(50_000)
            .ignore();
    }
    pipeline.query::<()>(&mut admin).unwrap();
    let calls = || -> u64 {
        let text: String = ::redis::cmd("INFO")
            .arg("commandstats")
            .query(&mut server_admin(&server))
            .unwrap();
        let of = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.map_or(0, |line| {
                let number = line.split(['=', ',']).nth(1).unwrap();
                number.parse::<u64>().unwrap()
            })
        };
        of("cmdstat_evalsha:") + of("cmdstat_eval:")
    };
    let before = calls();
    let begin = Instant::now();
    let Ok(LookUp::Found(found)) = one.look_up(&identities).await else {
        panic!("no answer");
    };
    let took = begin.elapsed();
    assert!(found.iter().all(Option::is_some));
    let round_trips = calls() - before;
    eprintln!(
        "10,000 look-ups: {round_trips} round trips, {} ms",
        took.as_millis()
    );
    assert!(round_trips <= 100, "{round_trips}");
}

fn server_admin(server: &TestServer) -> ::redis::Connection {
    ::redis::Client::open(("127.0.0.1", server.port))
        .unwrap()
        .get_connection()
        .unwrap()
}

#[tokio::test]
async fn over_tls_the_server_must_be_who_it_says() {
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let ca = put("ca.pem", params.self_signed(&key).unwrap().pem());
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["redis.example".to_owned()])
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    let certificate = put("tls.crt", certificate.pem());
    let key = put("tls.key", key.serialize_pem());
    let port = free_port();
    let _server = TestServer::start(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        certificate.to_str().unwrap(),
        "--tls-key-file",
        key.to_str().unwrap(),
        "--tls-ca-cert-file",
        ca.to_str().unwrap(),
        "--tls-auth-clients",
        "no",
    ]);
    let over_tls = |name: &'static str| {
        let files = TlsFiles {
            setting: "coordination.tls",
            pair: None,
            ca: Some(ca.clone()),
        };
        let client = tls::client::load(files, &[]).unwrap();
        replica(port, move |config| {
            config.server.tls = Some((client, ServerName::try_from(name).unwrap()));
        })
    };
    let one = over_tls("redis.example");
    let lease = own(&one, "a").await;
    one.publish(&lease, &answers(3)).await.unwrap();
    assert_eq!(find(&one, "a").await, Some(answers(3)));
    let refused = over_tls("other.example").look_up(&[identity("a")]).await;
    assert!(matches!(refused, Err(Trouble::Connect(reason)) if reason.contains("not valid for name")));
}

#[tokio::test]
async fn a_lease_whose_admission_was_never_answered_is_given_back() {
    let server = TestServer::start(&[]);
    let one = replica(server.port, |config| {
        config.timeout = Duration::from_millis(200);
        config.block = "1 30000 1 1000".parse().unwrap();
    });
    // The server knows the script from then on, or it would only say that it does not.
    let known = own(&one, "a").await;
    one.release(&known).await.unwrap();
    server.signal("STOP");
    let unanswered = one.admit(identity("a"), Duration::ZERO).await;
    assert_eq!(unanswered.unwrap_err(), Trouble::Timeout);
    server.signal("CONT");
    // What was sent is done when the server wakes up, though nobody listens any more.
    let taken = async || (server.command::<u32>(&format!("ZCARD {PREFIX}leases")) == 1).then_some(());
    until(SECOND, taken).await;
    until_owner(&one, "b", 5 * SECOND).await;
}

#[tokio::test]
async fn an_evicting_server_is_told_by_whoever_may_ask() {
    let server = TestServer::start(&["--maxmemory-policy", "allkeys-lru"]);
    let one = replica(server.port, |_| {});
    assert_eq!(one.eviction_policy(), None);
    find(&one, "a").await;
    assert_eq!(one.eviction_policy().as_deref(), Some("allkeys-lru"));
}
