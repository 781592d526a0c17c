//! The pages for people: why an instrument is kept or dropped.

use jevmetrics_testkit::mock_jev::{Behaviour, Opinion};
use jevmetrics_testkit::process::Mode;

use crate::messages::{SMALL_METRICS, SMALL_POINTS, bytes, gauges, small};
use crate::support::{Via, World};

/// *Scenario*: `Reduce`; somebody asks why one instrument is missing and another is not.
/// *Guarantees*: decision, reason, answers, the versioned model that gave them and the time left are shown.
#[tokio::test]
async fn decisions_say_why() {
    let world = World::start(Mode::Reduce).await;
    let request = bytes(&gauges(&["shop.debug", "shop.orders"], 1, ""));
    world.learn(&request, 2).await;
    world.deliver(Via::Grpc, &request).await;
    for (name, decision) in [("shop.debug", "drop"), ("shop.orders", "keep")] {
        let page = world.page(&format!("/api/decisions?metric={name}")).await;
        assert_eq!((&page["metric"], &page["mode"]), (&name.into(), &"reduce".into()));
        assert_eq!(page["truncated"], false);
        let row = world.decision(name).await;
        assert_eq!(
            (&row["decision"], &row["reason"]),
            (&decision.into(), &"cached_score".into())
        );
        let keep = (Opinion::of(name).keep * 100.0).round() / 100.0;
        assert_eq!(row["answers"]["keep_probability"], keep, "{row}");
        assert_eq!(row["answers"]["recommended_action"], decision);
        assert_eq!(row["model"], "jev-1.13.0");
        assert!(
            (1..=900).contains(&row["expires_in_seconds"].as_u64().unwrap()),
            "{row}"
        );
        assert_eq!((&row["is_asking"], &row["points"]), (&false.into(), &2.into()));
        assert_eq!(row["identity"]["metric"], name);
        assert_eq!(row["identity"]["type"], "gauge");
        assert_eq!(row["identity"]["resource"]["service.name"], "shop");
    }
}

/// *Scenario*: Jev does not answer.
/// *Guarantees*: the page says that the instrument is kept for want of an assessment, and that it is asked about.
#[tokio::test]
async fn an_instrument_without_assessment_is_shown_as_awaiting_one() {
    let world = World::start_with(Mode::Reduce, |options| {
        options.settings.inference.timeout_milliseconds = Some(600_000);
    })
    .await;
    world.jev.script().always(Behaviour::Silent);
    world
        .deliver(Via::Grpc, &bytes(&gauges(&["shop.debug"], 1, "")))
        .await;
    let row = world.decision("shop.debug").await;
    assert_eq!(
        (&row["decision"], &row["reason"]),
        (&"keep".into(), &"awaiting_assessment".into())
    );
    assert_eq!(row["is_asking"], true);
    assert!(
        row.get("answers").is_none() && row.get("model").is_none(),
        "{row}"
    );
}

/// *Scenario*: somebody asks for a name that never came, or for none.
/// *Guarantees*: an unknown name is an empty list; a missing name is refused with words that say what is missing.
#[tokio::test]
async fn unknown_and_missing_names_are_told_apart() {
    let world = World::start(Mode::Reduce).await;
    let page = world.page("/api/decisions?metric=never.seen").await;
    assert_eq!(page["decisions"], serde_json::json!([]));
    for path in ["/api/decisions", "/api/decisions?metric="] {
        let (status, body) = world.plane.get_admin(path).await.unwrap();
        assert_eq!(status, 400, "{path}: {body}");
        assert!(body.contains("metric"), "{path}: {body}");
    }
    assert_eq!(world.plane.get_admin("/api/nothing").await.unwrap().0, 404);
    assert_eq!(
        world.plane.get("/api/summary").await.unwrap().0,
        404,
        "not on the port that is open to all"
    );
}

/// *Scenario*: `Reduce`, half of the instruments dropped.
/// *Guarantees*: the summary has the equation's numbers, the outcomes by reason, and the largest instruments.
#[tokio::test]
async fn the_summary_adds_up() {
    let world = World::start(Mode::Reduce).await;
    let mut generator = small(50);
    world.learn(&generator.next_bytes(), SMALL_METRICS).await;
    world.deliver(Via::Http, &generator.next_bytes()).await;
    let equation = world.settled().await;
    let page = world.page("/api/summary").await;
    assert_eq!(page["mode"], "reduce");
    for (field, value) in [
        ("received", equation.received),
        ("kept", equation.kept),
        ("dropped", equation.dropped),
        ("exported", equation.exported),
        ("failed", 0),
        ("in_flight", 0),
    ] {
        assert_eq!(page["points"][field], value, "{field}: {page}");
    }
    let outcome = |reason: &str, decision: &str| {
        let rows = page["outcomes"].as_array().unwrap().iter();
        let mut rows = rows.filter(|row| row["reason"] == reason && row["decision"] == decision);
        rows.next().map_or(0, |row| row["points"].as_u64().unwrap())
    };
    assert_eq!(outcome("awaiting_assessment", "keep"), SMALL_POINTS);
    assert_eq!(outcome("cached_score", "keep"), SMALL_POINTS / 2);
    assert_eq!(outcome("cached_score", "drop"), SMALL_POINTS / 2);
    assert_eq!(page["identities"]["known"], SMALL_METRICS);
    let largest = page["largest"].as_array().unwrap();
    assert_eq!(largest.len() as u64, SMALL_METRICS);
    assert!(largest.iter().all(|row| row["points"] == 4), "{page}");
    assert!(
        page["bytes"]["received"].as_u64() > page["bytes"]["exported"].as_u64(),
        "{page}"
    );
}

/// *Scenario*: a process without Redis and without a routing table; somebody looks who is there.
/// *Guarantees*: the list and the page show the process itself, marked, and say why there is nobody else; what is shown is
/// not kept by a browser and runs nothing; neither is on the port that is open to all.
#[tokio::test]
async fn a_process_by_itself_lists_itself_and_says_why() {
    let world = World::start(Mode::Reduce).await;
    let list = world.page("/api/admin/cluster").await;
    let own = world.plane.member().await.unwrap();
    let members = list["members"].as_array().unwrap();
    assert_eq!((members.len(), &list["selfId"]), (1, &own.id.as_str().into()));
    for (field, value) in [
        ("id", own.id.as_str().into()),
        ("hostname", own.hostname.as_str().into()),
        ("version", own.version.as_str().into()),
        ("startedAt", own.started_at.into()),
        ("isThisPod", true.into()),
        ("isStale", false.into()),
        ("state", "Serving".into()),
        ("revision", "1".into()),
    ] {
        let value: serde_json::Value = value;
        assert_eq!(members[0][field], value, "{field}: {list}");
    }
    assert_eq!(list["source"]["kind"], "alone");
    let reason = list["source"]["reason"].as_str().unwrap();
    assert!(reason.contains("no Redis is configured"), "{reason}");
    let (status, page) = world.plane.get_admin("/cluster").await.unwrap();
    assert_eq!(status, 200);
    for words in [own.id.as_str(), "this pod", reason] {
        assert!(page.contains(words), "{words}: {page}");
    }
    for path in ["/cluster", "/api/admin/cluster"] {
        assert_eq!(world.plane.get(path).await.unwrap().0, 404, "{path}");
    }
    let scrape = world.plane.scrape().await.unwrap();
    assert!(scrape["jevmetrics_cluster_members{state=\"serving\"}"] > 0.0);
    assert!(scrape["jevmetrics_routing_epoch"].is_nan());
}
