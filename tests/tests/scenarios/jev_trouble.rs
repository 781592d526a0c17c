//! Jev is away, slow, wrong or refuses: metrics flow, nothing unscored is dropped, and the state is named.

use std::time::{Duration, Instant};

use jevmetrics_testkit::mock_jev::{Behaviour, DROP_MARKERS};
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::Mode;
use tokio::task::{JoinSet, LocalSet};

use crate::messages::{SMALL_METRICS, SMALL_POINTS, bytes, gauges, small};
use crate::support::{BOTH, Via, WITHIN, World};

const KEY: &str = "sk-0a1b2c3d-must-never-be-seen";
/// Part of what Jev is asked, and of what a 422 echoes.
const DESCRIPTION: &str = "canary description";

/// Everything that a person can read, but the admin pages' own names of instruments.
async fn everything_shown(world: &World, metric: &str) -> String {
    let mut shown = world.plane.printed() + &world.ready().await;
    shown += &world.plane.get("/metrics").await.unwrap().1;
    shown += &world.plane.get_admin("/api/summary").await.unwrap().1;
    shown
        + &world
            .plane
            .get_admin(&format!("/api/decisions?metric={metric}"))
            .await
            .unwrap()
            .1
}

/// What is expected of one trouble.
struct Trouble {
    /// `None`: nobody listens.
    behaviour: Option<Behaviour>,
    cause: &'static str,
    state: &'static str,
    /// In the one log line.
    line: &'static str,
}

impl Trouble {
    fn passing(behaviour: Option<Behaviour>, cause: &'static str) -> Self {
        Self {
            behaviour,
            cause,
            state: "cooling_down",
            line: "asking the model fails",
        }
    }

    async fn bear(self) {
        let world = World::start_with(Mode::Reduce, |options| {
            options.settings.inference.timeout_milliseconds = Some(500);
            options.api_key = Some(KEY.to_owned());
        })
        .await;
        world.jev.set_key(KEY);
        match &self.behaviour {
            Some(behaviour) => world.jev.script().always(behaviour.clone()),
            None => world.jev.stop().await,
        }
        let names = ["shop.debug.a", "shop.debug.b", "shop.noise", "shop.orders"];
        let request = bytes(&gauges(&names, 1, DESCRIPTION));
        let mut sent = 0;

        // Until asking was taken up again after a pause, or pauses for long: metrics flow at any time.
        let is_lasting = self.state != "cooling_down";
        let failures = format!("jevmetrics_score_failure_total{{cause=\"{}\"}}", self.cause);
        let borne = poll::until_some("repeated failures", WITHIN, async || {
            for via in BOTH {
                world.deliver(via, &request).await;
                sent += names.len() as u64;
            }
            let wanted = if is_lasting { 1 } else { 2 * names.len() as u64 };
            (world.count(&failures).await >= wanted).then_some(())
        });
        borne.await.unwrap();
        let named = format!("inference: {}, cause {}", self.state, self.cause);
        assert!(world.ready().await.contains(&named), "{}", world.ready().await);
        // The gauge is read while the pause lasts: each failure begins one.
        let paused = poll::until_some("the gauge of the pause", WITHIN, async || {
            world.deliver(Via::Grpc, &request).await;
            sent += names.len() as u64;
            (world.count("jevmetrics_inference_cooling_down").await == 1).then_some(())
        });
        paused.await.unwrap();

        world.logged(self.line).await;
        let equation = world.settled().await;
        assert_eq!((equation.dropped, equation.exported), (0, sent));
        assert_eq!(world.sink.counts().accepted.others.points, sent);
        assert_eq!(world.count("jevmetrics_score_success_total").await, 0);
        let shown = everything_shown(&world, names[0]).await;
        for secret in [KEY, DESCRIPTION] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
        for name in names {
            let open = world.plane.printed() + &world.plane.get("/metrics").await.unwrap().1;
            assert!(!open.contains(name), "{name}: {open}");
        }
        if !is_lasting {
            self.passes(&world, names.len() as u64).await;
        }
    }

    /// Jev is well again: assessments come, drops happen, one line says so.
    async fn passes(&self, world: &World, instruments: u64) {
        world.jev.script().always(Behaviour::Answer);
        world.jev.restart().await.unwrap();
        let begin = Instant::now();
        let names = ["shop.debug.a", "shop.debug.b", "shop.noise", "shop.orders"];
        let request = bytes(&gauges(&names, 1, DESCRIPTION));
        let recovered = poll::until_some("drops", WITHIN, async || {
            world.deliver(Via::Grpc, &request).await;
            (world.equation().await.dropped > 0).then_some(())
        });
        recovered.await.unwrap();
        println!("after {}: drops again within {:?}", self.cause, begin.elapsed());
        world.assessed(instruments).await;
        assert!(world.ready().await.contains("inference: healthy"));
        world.logged("asking the model works again").await;
        world.settled().await;
    }
}

/// *Scenario*: nobody listens where Jev should be.
/// *Guarantees*: metrics flow, all are kept, the state is named once in the log and in all pages, and it passes.
#[tokio::test]
async fn jev_away_is_borne() {
    Trouble::passing(None, "connect").bear().await;
}

/// *Scenario*: Jev takes 3 s, its timeout is half a second.
/// *Guarantees*: as for Jev away.
#[tokio::test]
async fn jev_slow_is_borne() {
    let slow = Behaviour::slow(Duration::from_secs(3));
    Trouble::passing(Some(slow), "timeout").bear().await;
}

/// *Scenario*: Jev accepts questions and never answers.
/// *Guarantees*: as for Jev away.
#[tokio::test]
async fn jev_hanging_is_borne() {
    Trouble::passing(Some(Behaviour::Silent), "timeout").bear().await;
}

/// *Scenario*: Jev answers something that is no answer.
/// *Guarantees*: as for Jev away.
#[tokio::test]
async fn jev_talking_nonsense_is_borne() {
    Trouble::passing(Some(Behaviour::not_json()), "bad_answer")
        .bear()
        .await;
}

/// *Scenario*: Jev answers 500.
/// *Guarantees*: as for Jev away.
#[tokio::test]
async fn jev_failing_is_borne() {
    Trouble::passing(Some(Behaviour::internal_error()), "server_error")
        .bear()
        .await;
}

/// *Scenario*: Jev answers 401.
/// *Guarantees*: as for Jev away, named as a configuration fault.
#[tokio::test]
async fn a_refused_key_is_borne_and_named_as_a_fault_of_the_configuration() {
    let trouble = Trouble {
        behaviour: Some(Behaviour::unauthorized()),
        cause: "unauthorized",
        state: "configuration_fault",
        line: "cannot be asked as configured",
    };
    trouble.bear().await;
}

/// *Scenario*: Jev answers every question with 422 and echoes it.
/// *Guarantees*: as for Jev away; above all, nothing of the echo is shown.
#[tokio::test]
async fn an_echo_of_all_questions_is_borne_and_not_shown() {
    let world = World::start(Mode::Reduce).await;
    world.jev.script().always(Behaviour::Unprocessable);
    let names: Vec<String> = (0..8).map(|number| format!("canary.debug.{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let request = bytes(&gauges(&names, 1, DESCRIPTION));
    let failed = poll::until_some("refusals", WITHIN, async || {
        world.deliver(Via::Http, &request).await;
        world
            .ready()
            .await
            .contains("cooling_down, cause refused")
            .then_some(())
    });
    failed.await.unwrap();
    let (shown, open) = (
        everything_shown(&world, "other").await,
        world.plane.printed() + &world.ready().await + &world.plane.get("/metrics").await.unwrap().1,
    );
    assert!(!shown.contains(DESCRIPTION), "{shown}");
    assert!(!open.contains("canary"), "{open}");
    assert_eq!(world.settled().await.dropped, 0);
}

/// One failing reply: nothing is dropped or assessed for it.
async fn leads_to_no_drop(name: &str, behaviour: Behaviour) {
    let world = World::start(Mode::Reduce).await;
    world.jev.script().always(behaviour);
    let names = DROP_MARKERS.map(|marker| format!("shop.{marker}"));
    let request = bytes(&gauges(&names.each_ref().map(String::as_str), 1, ""));
    world.deliver(Via::Grpc, &request).await;
    let failed = poll::until_some("a failure", WITHIN, async || {
        (world.count("jevmetrics_score_failure_total").await > 0).then_some(())
    });
    failed.await.unwrap_or_else(|error| panic!("{name}: {error}"));
    for via in BOTH {
        world.deliver(via, &request).await;
    }
    let equation = world.settled().await;
    assert_eq!((equation.dropped, equation.exported), (0, 9), "{name}");
    assert_eq!(world.count("jevmetrics_score_success_total").await, 0, "{name}");
    let page = world.page("/api/summary").await;
    for row in page["identities"]["now"].as_array().unwrap() {
        let reason = row["reason"].as_str().unwrap();
        assert!(
            ["awaiting_assessment", "unassessable"].contains(&reason),
            "{name}: {page}"
        );
    }
}

/// *Scenario*: each reply that is no usable answer, one after the other, about instruments that would be dropped.
/// *Guarantees*: none leads to a drop or to an assessment.
#[tokio::test]
async fn no_unusable_answer_leads_to_a_drop() {
    let mut failures = Behaviour::failures().into_iter();
    let all = async {
        let mut running = JoinSet::new();
        loop {
            // A few processes at a time.
            while running.len() < 4
                && let Some((name, behaviour)) = failures.next()
            {
                running.spawn_local(leads_to_no_drop(name, behaviour));
            }
            match running.join_next().await {
                Some(ended) => ended.unwrap(),
                None => break,
            }
        }
    };
    LocalSet::new().run_until(all).await;
}

/// *Scenario*: Jev refuses one of ten instruments with 422.
/// *Guarantees*: that one is kept as `unassessable`; the others are assessed and decided.
#[tokio::test]
async fn one_refused_instrument_harms_no_other() {
    let world = World::start_with(Mode::Reduce, |options| {
        options.settings.inference.workers = Some(1);
    })
    .await;
    world.jev.script().once(Behaviour::Unprocessable);
    let mut generator = small(100);
    world.deliver(Via::Grpc, &generator.next_bytes()).await;
    world.assessed(SMALL_METRICS).await;
    let refused = world.jev.requests()[0].metric.clone().unwrap();
    world.sink.reset();
    world.deliver(Via::Grpc, &generator.next_bytes()).await;
    let names: Vec<String> = world.sink.counts().accepted.by_name.into_keys().collect();
    assert_eq!(names, std::slice::from_ref(&refused));
    let row = world.decision(&refused).await;
    assert_eq!(
        (&row["decision"], &row["reason"]),
        (&"keep".into(), &"unassessable".into())
    );
    assert!(row["expires_in_seconds"].as_u64().unwrap() > 0);
    assert!(world.ready().await.contains("inference: healthy"));
    assert_eq!(
        world.jev.counters().received,
        SMALL_METRICS,
        "it is not asked about again"
    );
}

/// *Scenario*: Jev goes away after all is assessed, stays away beyond the life of assessments, and returns.
/// *Guarantees*: what is fresh stays in force, drops included; what has expired is kept until it is assessed anew.
#[tokio::test]
async fn assessments_outlive_an_outage_until_they_expire() {
    let world = World::start_with(Mode::Reduce, |options| {
        options.settings.inference.score_ttl_seconds = Some(12);
    })
    .await;
    let mut generator = small(50);
    let droppable = generator.droppable_names();
    world.learn(&generator.next_bytes(), SMALL_METRICS).await;
    world.jev.stop().await;
    let begin = Instant::now();
    world.deliver(Via::Grpc, &generator.next_bytes()).await;
    assert_eq!(world.settled().await.dropped, SMALL_POINTS / 2);

    let expired = poll::until_some("the end of the assessments", WITHIN, async || {
        world.sink.reset();
        world.deliver(Via::Http, &generator.next_bytes()).await;
        (world.sink.counts().accepted.others.points == SMALL_POINTS).then_some(())
    });
    expired.await.unwrap();
    println!(
        "outage: all kept again after {:?} with a life of 12 s",
        begin.elapsed()
    );
    assert_eq!(
        world.decision(&droppable[0]).await["reason"],
        "awaiting_assessment"
    );

    world.jev.restart().await.unwrap();
    let returned = poll::until_some("drops after the outage", WITHIN, async || {
        world.sink.reset();
        world.deliver(Via::Http, &generator.next_bytes()).await;
        (world.sink.counts().accepted.others.points == SMALL_POINTS / 2).then_some(())
    });
    returned.await.unwrap();
    world.settled().await;
}
