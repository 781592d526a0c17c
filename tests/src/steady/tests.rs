#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::{Comparison, Counts, Options, Protocol, Retry, Steady};
use crate::numbers::Numbers;
use crate::poll;
use crate::sink::{Answer, Refusal, Sink};

const WITHIN: Duration = Duration::from_mins(1);

/// Waits that no test waits for.
const QUICK: Retry = Retry {
    first: Duration::from_millis(10),
    most: Duration::from_millis(50),
    attempt: Duration::from_millis(500),
    give_up: Duration::from_secs(20),
};

fn options(sink: &Sink, protocol: Protocol, requests: u64) -> Options {
    Options {
        protocol,
        requests_per_second: 500.0,
        sources: 3,
        connections: 2,
        requests: Some(requests),
        retry: QUICK,
        ..Options::new(&sink.endpoint())
    }
}

fn adds_up(counts: &Counts) {
    let ended = counts.points_acknowledged + counts.rejected + counts.points_failed;
    assert_eq!(counts.points_sent, ended + counts.points_in_flight, "{counts:?}");
    assert_eq!(counts.attempts, counts.requests + counts.retries, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_delayed_or_unanswered_comes_again_and_nothing_is_lost() {
    for protocol in [Protocol::Grpc, Protocol::Http] {
        let sink = Sink::start().await.unwrap();
        let script = sink.script();
        script.times(5, &Answer::Refuse(Refusal::temporary("later")));
        script.times(
            3,
            &Answer::Delay(Duration::from_millis(30), Box::new(Answer::Accept)),
        );
        let full = Refusal::overloaded("full").after(Duration::from_millis(20));
        script.times(2, &Answer::Refuse(full));
        script.once(Answer::Hang);
        // Taken, but nobody is told: these come twice.
        script.times(
            4,
            &Answer::AcceptThen(Box::new(Answer::Refuse(Refusal::temporary("lost")))),
        );
        let steady = Steady::start(options(&sink, protocol, 60)).unwrap();
        let counts = steady.ended().await;

        adds_up(&counts);
        assert_eq!(
            (counts.requests, counts.retries, counts.failed_exports),
            (60, 12, 0),
            "{counts:?}"
        );
        assert_eq!(
            (counts.in_flight, counts.points_sent, counts.points_acknowledged),
            (0, 600, 600)
        );
        assert_eq!(counts.causes.values().sum::<u64>(), 12, "{counts:?}");
        let ledger = sink.ledger();
        assert_eq!((ledger.sources.len(), ledger.unnumbered), (3, 0));
        let found = Comparison::new(&counts, &ledger);
        assert!(found.is_complete(), "{found}");
        assert_eq!(
            (found.acknowledged, found.delivered, found.droppable_delivered),
            (300, 300, 300)
        );
        assert_eq!((found.duplicates, found.unconfirmed), (40, 0), "{found}");
        // One may have come more than twice.
        let doubled: u64 = found.doubled.values().map(Numbers::count).sum();
        assert!((10..=40).contains(&doubled), "{found:?}");
        assert_eq!(sink.counts().accepted.others.points, 640);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_for_good_or_for_too_long_has_failed_and_is_named() {
    let sink = Sink::start().await.unwrap();
    sink.script().once(Answer::Refuse(Refusal::permanent("never")));
    let forever = Refusal::temporary("later").after(QUICK.give_up);
    sink.script().once(Answer::Refuse(forever));
    let sequential = Options {
        requests_per_second: 20.0,
        sources: 1,
        connections: 1,
        ..options(&sink, Protocol::Grpc, 4)
    };
    let counts = Steady::start(sequential).unwrap().ended().await;
    adds_up(&counts);
    assert_eq!(
        (counts.failed_exports, counts.retries, counts.points_failed),
        (2, 0, 20),
        "{counts:?}"
    );
    assert_eq!(counts.sources["source-0"].failed.to_string(), "1-2");
    let found = Comparison::new(&counts, &sink.ledger());
    assert!(found.is_complete(), "{found}");
    assert_eq!((found.acknowledged, found.delivered), (10, 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn points_that_are_acknowledged_and_not_there_are_lost_and_named() {
    let sink = Sink::start().await.unwrap();
    let steady = Steady::start(options(&sink, Protocol::Http, 6)).unwrap();
    let counts = steady.ended().await;
    let (mut ledger, name) = (sink.ledger(), counts.kept_instruments[0].clone());
    let source = ledger.sources.get_mut("source-1").unwrap();
    source.instruments.remove(&name);
    let found = Comparison::new(&counts, &ledger);
    assert!(!found.is_complete());
    assert_eq!((found.acknowledged, found.delivered), (30, 28));
    assert!(
        found
            .to_string()
            .ends_with(&format!("\nlost: source-1 {name}: 1-2")),
        "{found}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_begins_nothing_and_another_rate_or_a_stop_acts_at_once() {
    let sink = Sink::start().await.unwrap();
    let slow = Options {
        requests_per_second: 0.001,
        requests: None,
        ..options(&sink, Protocol::Grpc, 0)
    };
    let steady = Steady::start(slow).unwrap();
    steady.set_rate(200.0);
    let begun = || steady.counts().requests;
    poll::until("exports", WITHIN, || begun() > 10).await.unwrap();
    steady.pause();
    poll::until("what is in flight", WITHIN, || steady.counts().in_flight == 0)
        .await
        .unwrap();
    // One may have been due in the moment of the pause.
    let before = begun();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(begun() <= before + 1);
    steady.set_rate(300.0);
    let before = begun();
    steady.resume();
    poll::until("more exports", WITHIN, || begun() > before + 10)
        .await
        .unwrap();
    let last = steady.stop().await;
    assert_eq!(last.in_flight, 0);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(steady.counts(), last);
    assert_eq!(last.points_acknowledged, last.points_sent);
}
