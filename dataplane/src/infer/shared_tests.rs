#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
//! A room that is shared: its answers are the test's. Under tokio's paused clock.

use std::collections::HashMap;
use std::future::ready;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use jevmetrics_api::member::InferenceState;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::coordinate::{Admission, Answering, Coordinate, Lease, LookUp, Mismatch, Publication, Setback};
use crate::infer::ask::{Ask, Asking};
use crate::infer::rank::Rank;
use crate::infer::{Enquiry, Inference, Item, Outcomes, Pace, Summary, Ticket, Want, fixtures, reply};
use crate::retain::answers::Answers;
use crate::test_identity;

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_mins(15);

/// What the room answers.
#[derive(Clone)]
enum Says {
    Owner,
    Wait(Wait),
    Down,
    Mismatch,
}

struct Room {
    /// By identity; the rest gets `otherwise`.
    says: Mutex<HashMap<String, Says>>,
    otherwise: Mutex<Says>,
    scores: Mutex<HashMap<String, Duration>>,
    look_ups: AtomicUsize,
    calls: Mutex<Vec<String>>,
    /// What an admission takes.
    delay: Mutex<Duration>,
}

impl Room {
    fn note(&self, call: impl Into<String>) {
        self.calls.lock().unwrap().push(call.into());
    }

    fn shared(&self, identity: &Identity) -> Option<Shared> {
        let left = *self.scores.lock().unwrap().get(&identity.to_string())?;
        Some(Shared {
            verdict: Verdict::Assessed {
                answers: answer().answers,
                model: "jev-9".to_owned(),
            },
            expires: now() + left,
        })
    }

    fn say(&self, says: Says) {
        *self.otherwise.lock().unwrap() = says;
    }

    fn says(&self, identity: &Identity) -> Says {
        let says = self.says.lock().unwrap().get(&identity.to_string()).cloned();
        says.unwrap_or_else(|| self.otherwise.lock().unwrap().clone())
    }
}

fn mismatch() -> Mismatch {
    Mismatch {
        mine: "0 10000 4 10".parse().unwrap(),
        theirs: "0 10000 4 20".parse().unwrap(),
    }
}

impl Coordinate for Room {
    fn is_shared(&self) -> bool {
        true
    }

    fn look_up<'a>(&'a self, identities: &'a [Identity]) -> Answering<'a, LookUp> {
        self.look_ups.fetch_add(1, Ordering::Relaxed);
        let found = match *self.otherwise.lock().unwrap() {
            Says::Down => Err(Trouble::Timeout),
            Says::Mismatch => Ok(LookUp::Mismatch(mismatch())),
            _ => Ok(LookUp::Found(
                identities.iter().map(|identity| self.shared(identity)).collect(),
            )),
        };
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            found
        })
    }

    fn admit(&self, identity: Identity, least: Duration) -> Answering<'_, Admission> {
        let hit = self
            .shared(&identity)
            .filter(|shared| shared.expires > now() + least);
        let admission = match (self.says(&identity), hit) {
            (Says::Down, _) => Err(Trouble::Timeout),
            (Says::Mismatch, _) => Ok(Admission::Mismatch(mismatch())),
            (_, Some(shared)) => Ok(Admission::Hit(shared)),
            (Says::Wait(wait), None) => Ok(Admission::Wait(wait)),
            (Says::Owner, None) => Ok(Admission::Owner(Lease {
                identity,
                token: "t-1".to_owned(),
                asked_at: now(),
                deadline: Some(now() + 9 * SECOND),
            })),
        };
        let delay = *self.delay.lock().unwrap();
        Box::pin(async move {
            tokio::time::sleep(delay).await;
            admission
        })
    }

    fn publish<'a>(&'a self, _lease: &'a Lease, _verdict: &'a Verdict) -> Answering<'a, Publication> {
        self.note("publish");
        Box::pin(ready(Ok(Publication::Published(now() + TTL))))
    }

    fn fail<'a>(&'a self, _lease: &'a Lease, _setback: Setback) -> Answering<'a, Duration> {
        self.note("fail");
        Box::pin(ready(Ok(SECOND)))
    }

    fn release<'a>(&'a self, _lease: &'a Lease) -> Answering<'a, ()> {
        self.note("release");
        Box::pin(ready(Ok(())))
    }

    fn pauses(&self) -> Pauses {
        Pauses {
            reading: SECOND,
            writing: SECOND,
        }
    }
}

/// Answers after two seconds.
#[derive(Default)]
struct Jev(Mutex<Vec<String>>);

fn answer() -> Reply {
    reply::parse(fixtures::reply().to_string().as_bytes()).unwrap()
}

impl Ask for Jev {
    fn obstacle(&self) -> Option<Cause> {
        None
    }

    fn ask<'a>(&'a self, summary: &'a Summary) -> Asking<'a> {
        self.0.lock().unwrap().push(summary.name.clone());
        Box::pin(async {
            tokio::time::sleep(2 * SECOND).await;
            Ok(answer())
        })
    }
}

/// Ticket, what became of it, and the model that answered.
type End = (u32, &'static str, String);

struct Ends(mpsc::UnboundedSender<End>);

impl Ends {
    fn send(&self, ticket: Ticket, what: &'static str, model: &str) {
        let _ = self.0.send((ticket.slot, what, model.to_owned()));
    }
}

impl Outcomes for Ends {
    fn assessed(&self, ticket: Ticket, _answers: Answers, model: &str, expires: Instant) {
        assert!(expires > now() && expires <= now() + TTL);
        self.send(ticket, "assessed", model);
    }

    fn refused(&self, ticket: Ticket, _expires: Instant) {
        self.send(ticket, "refused", "");
    }

    fn missed(&self, ticket: Ticket) {
        self.send(ticket, "missed", "");
    }

    fn failed(&self, ticket: Ticket) {
        self.send(ticket, "failed", "");
    }
}

struct Bench {
    inference: Arc<Inference>,
    task: JoinHandle<()>,
    stop: CancellationToken,
    room: Arc<Room>,
    jev: Arc<Jev>,
    ends: mpsc::UnboundedReceiver<End>,
    registry: Registry,
}

/// Two workers, four places.
fn bench() -> Bench {
    let (ended, ends) = mpsc::unbounded_channel();
    let room = Arc::new(Room {
        says: Mutex::default(),
        otherwise: Mutex::new(Says::Owner),
        scores: Mutex::default(),
        look_ups: AtomicUsize::new(0),
        calls: Mutex::default(),
        delay: Mutex::new(Duration::from_millis(1)),
    });
    let jev = Arc::new(Jev::default());
    let mut registry = Registry::default();
    let stop = CancellationToken::new();
    let pace = Pace {
        queue_size: NonZeroUsize::new(4).unwrap(),
        workers: NonZeroUsize::new(2).unwrap(),
        ttl: TTL,
    };
    let (inference, task) = Inference::start_asking(
        Arc::clone(&jev) as _,
        pace,
        Arc::clone(&room) as _,
        Arc::new(Ends(ended)),
        &mut registry,
        stop.clone(),
    );
    Bench {
        inference,
        task,
        stop,
        room,
        jev,
        ends,
        registry,
    }
}

fn name(slot: u32) -> String {
    format!("m{slot}")
}

fn identity(slot: u32) -> Identity {
    test_identity::identity(&name(slot))
}

impl Bench {
    fn offer(&self, slot: u32, rank: Rank) -> bool {
        let item = Item {
            ticket: Ticket { slot, generation: 1 },
            identity: identity(slot),
            rank,
            summary: Summary {
                name: name(slot),
                ..fixtures::summary()
            },
        };
        self.inference.offer(item).is_ok()
    }

    fn enquire(&self, slot: u32) -> bool {
        self.inference.look_up(Enquiry {
            ticket: Ticket { slot, generation: 1 },
            identity: identity(slot),
            rank: unknown(1),
        })
    }

    async fn end(&mut self) -> End {
        self.ends.recv().await.unwrap()
    }

    fn says(&self, slot: u32, says: Says) {
        let mut all = self.room.says.lock().unwrap();
        all.insert(identity(slot).to_string(), says);
    }

    fn is_shared(&self, slot: u32, left: Duration) {
        let mut scores = self.room.scores.lock().unwrap();
        scores.insert(identity(slot).to_string(), left);
    }

    fn asked(&self) -> Vec<String> {
        self.jev.0.lock().unwrap().clone()
    }

    fn metric(&self, series: &str) -> Option<f64> {
        fixtures::metric(&self.registry, series)
    }

    fn line(&self) -> String {
        self.inference.sharing(now()).unwrap().line
    }
}

fn unknown(points: u64) -> Rank {
    Rank::unknown(points)
}

fn ended(slot: u32, what: &'static str, model: &str) -> End {
    (slot, what, model.to_owned())
}

#[tokio::test(start_paused = true)]
async fn what_the_group_knows_is_not_asked() {
    let mut bench = bench();
    bench.is_shared(0, 300 * SECOND);
    assert!(bench.offer(0, unknown(1)) && bench.offer(1, unknown(1)));
    assert_eq!(bench.end().await, ended(0, "assessed", "jev-9"));
    assert_eq!(bench.end().await, ended(1, "assessed", "jev-1.13.0"));
    assert_eq!(bench.asked(), ["m1"]);
    assert_eq!(*bench.room.calls.lock().unwrap(), ["publish"]);
    for (series, value) in [
        ("jevmetrics_queue_enqueued_total", 2.0),
        ("jevmetrics_score_shared_total", 1.0),
        ("jevmetrics_score_success_total", 1.0),
        ("jevmetrics_coordination_lookups_total{result=\"hit\"}", 1.0),
        ("jevmetrics_coordination_lookups_total{result=\"miss\"}", 1.0),
    ] {
        assert_eq!(bench.metric(series), Some(value), "{series}");
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_identities_take_a_round_trip_for_each_256_and_no_summary() {
    let mut bench = bench();
    for slot in 0..10_000 {
        if slot % 2 == 0 {
            bench.is_shared(slot, 300 * SECOND);
        }
        assert!(bench.enquire(slot), "{slot}");
    }
    let mut hits = 0;
    for _ in 0..10_000 {
        let (slot, what, _) = bench.end().await;
        assert_eq!(what, if slot % 2 == 0 { "assessed" } else { "missed" });
        hits += u32::from(what == "assessed");
    }
    assert_eq!((hits, bench.room.look_ups.load(Ordering::Relaxed)), (5_000, 40));
    assert!(bench.asked().is_empty());
    assert_eq!(bench.metric("jevmetrics_queue_enqueued_total"), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_for_anothers_answer_holds_no_worker() {
    let mut bench = bench();
    for slot in 0..3 {
        bench.says(slot, Says::Wait(Wait::Lease(9 * SECOND)));
        assert!(bench.offer(slot, unknown(100)));
    }
    assert!(bench.offer(3, unknown(1)));
    assert_eq!(bench.end().await, ended(3, "assessed", "jev-1.13.0"));
    bench.is_shared(1, 300 * SECOND);
    assert_eq!(bench.end().await, ended(1, "assessed", "jev-9"));
    assert_eq!(bench.asked(), ["m3"]);
    assert!(
        bench
            .metric("jevmetrics_coordination_waits_total{reason=\"lease\"}")
            .unwrap()
            > 2.0
    );
}

#[tokio::test(start_paused = true)]
async fn while_the_room_is_away_nothing_is_asked_nothing_is_wanted_and_all_goes_on_after() {
    let mut bench = bench();
    bench.room.say(Says::Down);
    assert!(bench.offer(0, unknown(1)) && bench.enquire(1));
    assert_eq!(bench.end().await, ended(1, "failed", ""));
    tokio::time::sleep(500 * SECOND / 1000).await;
    assert_eq!(bench.inference.wants(unknown(1)), Want::Nothing);
    tokio::time::sleep(100 * SECOND).await;
    assert!(bench.asked().is_empty());
    assert_eq!(bench.line(), "failing, no answer in time");
    let tries = bench.room.look_ups.load(Ordering::Relaxed);
    assert!(tries < 110, "once a second: {tries}");
    bench.room.say(Says::Owner);
    assert_eq!(bench.end().await, ended(0, "assessed", "jev-1.13.0"));
    assert_eq!(bench.inference.wants(unknown(1)), Want::Summary);
    assert_eq!(bench.line(), "healthy");
}

#[tokio::test(start_paused = true)]
async fn a_mismatch_names_both_budgets_and_heals() {
    let mut bench = bench();
    bench.room.say(Says::Mismatch);
    assert!(bench.offer(0, unknown(1)));
    tokio::time::sleep(30 * SECOND).await;
    assert!(bench.asked().is_empty());
    let line = bench.line();
    assert!(
        line.contains("10 per second") && line.contains("20 per second"),
        "{line}"
    );
    bench.room.say(Says::Owner);
    assert_eq!(bench.end().await, ended(0, "assessed", "jev-1.13.0"));
    assert_eq!(bench.line(), "healthy");
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_the_group_stops_questions_and_not_look_ups() {
    let mut bench = bench();
    bench.room.say(Says::Wait(Wait::Cooldown(20 * SECOND)));
    assert!(bench.offer(0, unknown(1)));
    tokio::time::sleep(SECOND).await;
    assert_eq!(bench.inference.wants(unknown(1)), Want::Identity);
    assert_eq!(bench.metric("jevmetrics_inference_cooling_down"), Some(1.0));
    bench.is_shared(1, 300 * SECOND);
    assert!(bench.enquire(1));
    assert_eq!(bench.end().await, ended(1, "assessed", "jev-9"));
    bench.room.say(Says::Owner);
    let began = now();
    assert_eq!(bench.end().await, ended(0, "assessed", "jev-1.13.0"));
    assert!(now() - began >= 19 * SECOND);
    assert_eq!(bench.metric("jevmetrics_inference_cooling_down"), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn a_refresh_takes_only_what_is_newer() {
    let mut bench = bench();
    let refresh = Rank::drop_runs_out(1, 900);
    bench.is_shared(0, 100 * SECOND);
    bench.is_shared(1, 800 * SECOND);
    assert!(bench.offer(0, refresh) && bench.offer(1, refresh));
    assert_eq!(bench.end().await, ended(1, "assessed", "jev-9"));
    assert_eq!(bench.end().await, ended(0, "assessed", "jev-1.13.0"));
    assert_eq!(bench.asked(), ["m0"]);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_takes_what_ranks_higher_in_place_of_the_least() {
    let mut bench = bench();
    bench.room.say(Says::Wait(Wait::Rate(60 * SECOND)));
    for slot in 0..4 {
        assert!(bench.offer(slot, unknown(10 + u64::from(slot))));
    }
    tokio::time::sleep(SECOND).await;
    assert_eq!(bench.inference.wants(unknown(10)), Want::Identity);
    assert_eq!(bench.inference.wants(unknown(11)), Want::Summary);
    assert!(bench.offer(4, Rank::drop_runs_out(1, 900)));
    assert_eq!(bench.end().await, ended(0, "failed", ""));
    assert_eq!(
        bench.metric("jevmetrics_score_failure_total{cause=\"displaced\"}"),
        Some(1.0)
    );
    bench.room.say(Says::Owner);
    for slot in [4, 3, 2, 1] {
        assert_eq!(bench.end().await.0, slot, "{:?}", bench.asked());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_gives_back_what_is_held_and_what_is_just_being_given() {
    let mut bench = bench();
    assert!(bench.offer(0, unknown(2)));
    tokio::time::sleep(SECOND).await;
    assert_eq!(bench.inference.held_leases(), [identity(0).to_string()]);
    *bench.room.delay.lock().unwrap() = SECOND;
    assert!(bench.offer(1, unknown(1)));
    tokio::time::sleep(100 * SECOND / 1000).await;
    bench.stop.cancel();
    let began = now();
    (&mut bench.task).await.unwrap();
    assert!(now() - began <= SECOND);
    assert_eq!(*bench.room.calls.lock().unwrap(), ["release", "release"]);
    assert_eq!(bench.asked(), ["m0"], "nothing was begun after the stop");
    assert!(bench.inference.held_leases().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_its_turn_finds_what_others_have_asked_meanwhile() {
    let mut bench = bench();
    bench
        .room
        .say(Says::Wait(Wait::Superseded("9 10000 4 10".parse().unwrap())));
    for slot in 0..3 {
        assert!(bench.offer(slot, unknown(1)));
    }
    tokio::time::sleep(10 * SECOND).await;
    bench.is_shared(2, 300 * SECOND);
    let began = now();
    assert_eq!(bench.end().await, ended(2, "assessed", "jev-9"));
    assert!(now() - began <= 4 * SECOND);
    assert!(bench.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn whose_questions_others_ask_first_is_healthy_and_notices_the_end_of_a_pause() {
    let bench = bench();
    bench.room.say(Says::Wait(Wait::Cooldown(5 * SECOND)));
    assert!(bench.offer(0, unknown(1)));
    tokio::time::sleep(SECOND).await;
    let state = bench.inference.state(now());
    assert_eq!(state.health.cause(), Some(Cause::GroupPause));
    bench.room.say(Says::Wait(Wait::Rate(SECOND)));
    tokio::time::sleep(70 * SECOND).await;
    assert_eq!(bench.inference.state(now()).health.cause(), None);
    assert_eq!(bench.inference.reported(now()), InferenceState::Healthy);
}
