//! Jev fails, refuses or answers oddly: what one replica learns of it holds for all.

use std::time::{Duration, Instant};

use jevmetrics_testkit::mock_jev::{Behaviour, Distortion, RetryHint};
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::Budget;
use jevmetrics_testkit::redis::{Evidence, Publication};
use serde_json::json;

use super::group::{AMPLE, Group, Setup, distinct, droppable, message};
use super::replica::WITHIN;

/// One question at a time: what follows what is clear.
async fn one_at_a_time(replicas: usize) -> Group {
    let budget = Budget {
        max_in_flight: 1,
        ..AMPLE
    };
    let setup = Setup {
        budget,
        ..Setup::default()
    };
    Group::start(replicas, setup).await
}

/// Every question was admitted outside the pauses that were recorded before it.
fn assert_pauses_were_kept(evidence: &Evidence) {
    for admission in &evidence.admissions {
        let before = evidence.cooldowns.iter().filter(|pause| pause.at <= admission.at);
        let until = before.map(|pause| pause.until).max().unwrap_or(0);
        assert!(
            admission.at >= until,
            "{admission:?} within a pause until {until}"
        );
    }
}

/// Lengths of the pauses, in milliseconds.
fn pauses(evidence: &Evidence) -> Vec<u64> {
    evidence
        .cooldowns
        .iter()
        .map(|pause| pause.until - pause.begun)
        .collect()
}

/// *Scenario*: Jev is overloaded (529) four times, then well, then overloaded once more. Three replicas.
/// *Guarantees*: all pause for 1, 2, 4, 8 s; nobody asks in a pause; an answer ends that, so the next pause is of 1 s.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_doubles_for_all_and_an_answer_resets_it_for_all() {
    let group = one_at_a_time(3).await;
    group.jev.script().times(4, &Behaviour::overloaded());
    let first = message(&droppable("shop", 6));
    group.learn(&first, 6).await;
    group.jev.script().once(Behaviour::overloaded());
    let names = droppable("bank", 6);
    group.learn(&message(&names), 12).await;
    let evidence = group.evidence().await;
    assert_eq!(pauses(&evidence), [1_000, 2_000, 4_000, 8_000, 1_000]);
    assert_eq!(group.asked(), 12 + 5);
    assert_pauses_were_kept(&evidence);
    assert!(!evidence.cooldowns_ended.is_empty());
    group.finish().await;
}

/// *Scenario*: Jev answers 401 or 402.
/// *Guarantees*: it is taken for a fault of the configuration: all stop for 32 s after one question; it is named.
#[tokio::test]
async fn a_fault_of_the_configuration_stops_all_for_long() {
    for (behaviour, cause) in [
        (Behaviour::unauthorized(), "unauthorized"),
        (Behaviour::payment_required(), "payment_required"),
    ] {
        let group = one_at_a_time(2).await;
        group.jev.script().always(behaviour);
        let names = droppable("shop", 5);
        let message = message(&names);
        group.replicas[0].deliver(&message).await;
        let named = poll::eventually("the fault's name", WITHIN, async || {
            let ready = group.replicas[0].ready().await;
            if ready.contains(&format!("configuration_fault, cause {cause}")) {
                Ok(())
            } else {
                Err(ready)
            }
        });
        named.await.unwrap();
        let asked_for_in_vain = Instant::now() + Duration::from_secs(3);
        poll::until_some("a while", WITHIN, async || {
            for replica in &group.replicas {
                assert_eq!(replica.kept_of(&message).await, 5);
            }
            (Instant::now() > asked_for_in_vain).then_some(())
        })
        .await
        .unwrap();
        let evidence = group.evidence().await;
        assert_eq!((pauses(&evidence), group.asked()), (vec![32_000], 1), "{cause}");
        assert!(
            group.replicas[1]
                .count("jevmetrics_coordination_waits_total{reason=\"cooldown\"}")
                .await
                > 0
        );
        group.replicas[1].is("healthy").await;
        group.finish().await;
    }
}

/// *Scenario*: Jev answers 429 and says when to come again: in seconds, in milliseconds, as a date.
/// *Guarantees*: nobody in the group asks before that.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_jev_asks_for_holds_for_all() {
    for (hint, least, most) in [
        (RetryHint::Seconds(3), 3_000, 3_000),
        (RetryHint::Milliseconds(2_500), 2_500, 2_500),
        // A date has whole seconds.
        (RetryHint::DateIn(Duration::from_secs(4)), 2_500, 4_000),
    ] {
        let group = one_at_a_time(3).await;
        group.jev.script().once(Behaviour::rate_limited(Some(hint)));
        group.learn(&message(&droppable("shop", 4)), 4).await;
        let evidence = group.evidence().await;
        let pauses = pauses(&evidence);
        assert!(
            pauses.len() == 1 && (least..=most).contains(&pauses[0]),
            "{hint:?}: {pauses:?}"
        );
        assert_pauses_were_kept(&evidence);
        assert_eq!(group.asked(), 5);
        group.finish().await;
    }
}

/// *Scenario*: answers that are none: cut off in the middle, with wrong types, without what was asked for, late.
/// *Guarantees*: each is a failure: a pause for all, and nothing is published; then all is well.
#[tokio::test(flavor = "multi_thread")]
async fn an_unusable_answer_is_never_shared() {
    let keep = || "keep".to_owned();
    let late = Behaviour::slow(Duration::from_secs(3));
    for (name, behaviour) in [
        ("cut off", Behaviour::Truncated),
        (
            "another type",
            Behaviour::Distorted(Distortion::WrongType(keep())),
        ),
        (
            "a text",
            Behaviour::Distorted(Distortion::Noul(keep(), json!("0.5"))),
        ),
        (
            "beyond its range",
            Behaviour::Distorted(Distortion::Noul(keep(), json!(1.01))),
        ),
        (
            "a missing answer",
            Behaviour::Distorted(Distortion::Missing(keep())),
        ),
        ("late", late),
    ] {
        let mut setup = Setup::hasty();
        // Short questions for the late answer alone: a busy machine is no fault.
        if name != "late" {
            setup = Setup {
                budget: Budget {
                    max_in_flight: 1,
                    ..AMPLE
                },
                ..Setup::default()
            };
        }
        let group = Group::start(2, setup).await;
        group.jev.script().once(behaviour);
        group.learn(&message(&droppable("shop", 3)), 3).await;
        let evidence = group.evidence().await;
        assert_eq!(pauses(&evidence)[..1], [1_000], "{name}");
        assert_eq!(evidence.publications.len(), 3, "{name}");
        assert_pauses_were_kept(&evidence);
        group.finish().await;
    }
}

/// *Scenario*: answers with more than was asked for, by a model whose alias moves.
/// *Guarantees*: they are used; the version that answered is what is shared.
#[tokio::test]
async fn odd_answers_and_moving_aliases_are_shared_as_they_are() {
    let group = one_at_a_time(2).await;
    for odd in [
        Distortion::UnknownFields,
        Distortion::Extra("bonus".into()),
        Distortion::NoUsage,
    ] {
        group.jev.script().once(Behaviour::Distorted(odd));
    }
    group.learn(&message(&droppable("shop", 3)), 3).await;
    group.jev.set_model("jev-latest", "jev-1.14.0");
    let later = droppable("bank", 1);
    group.learn(&message(&later), 4).await;
    let evidence = group.evidence().await;
    assert!(evidence.cooldowns.is_empty(), "{:?}", evidence.cooldowns);
    let models: Vec<_> = evidence
        .publications
        .iter()
        .filter_map(|stored| stored.payload.rsplit(' ').next())
        .collect();
    assert_eq!(models, ["jev-1.13.0", "jev-1.13.0", "jev-1.13.0", "jev-1.14.0"]);
    for replica in &group.replicas {
        for (name, model) in [
            (&droppable("shop", 1)[0], "jev-1.13.0"),
            (&later[0], "jev-1.14.0"),
        ] {
            assert_eq!(replica.decision(name).await.unwrap()["model"], model);
        }
    }
    group.finish().await;
}

/// *Scenario*: Jev refuses one of ten instruments with 422; two replicas.
/// *Guarantees*: the group asks about it once a lifetime and keeps it as `unassessable`; nobody pauses, and the others are
/// assessed.
#[tokio::test]
async fn one_refused_instrument_is_asked_about_once_and_stops_nobody() {
    let group = one_at_a_time(2).await;
    group.jev.script().once(Behaviour::Unprocessable);
    let message = message(&droppable("shop", 10));
    group.learn(&message, 10).await;
    for replica in &group.replicas {
        assert_eq!(replica.kept_of(&message).await, 1);
    }
    let refused = group.asked_about().remove(0);
    let evidence = group.evidence().await;
    let refusals = evidence.publications.iter().filter(|stored| stored.is_refusal());
    assert_eq!(refusals.count(), 1);
    assert!(evidence.cooldowns.is_empty(), "{:?}", evidence.cooldowns);
    for replica in &group.replicas {
        assert_eq!(replica.reason(&refused).await, "unassessable");
    }
    assert_eq!(group.asked(), 10);
    group.finish().await;
}

/// *Scenario*: as before, with a lifetime of ten seconds.
/// *Guarantees*: when it is over, the group asks once more, and the answer counts.
#[tokio::test]
async fn a_refused_instrument_is_asked_about_again_after_a_lifetime() {
    let setup = Setup {
        lifetime: 10,
        ..Setup::default()
    };
    let group = Group::start(2, setup).await;
    group.jev.script().once(Behaviour::Unprocessable);
    let message = message(&droppable("shop", 1));
    group.learn(&message, 1).await;
    for replica in &group.replicas {
        let dropped = poll::eventually("a drop", WITHIN, async || match replica.kept_of(&message).await {
            0 => Ok(()),
            some => Err(some),
        });
        dropped.await.unwrap();
    }
    let evidence = group.evidence().await;
    let [refusal, answer] = evidence.publications.as_slice() else {
        panic!("{:?}", evidence.publications);
    };
    assert!(refusal.is_refusal() && !answer.is_refusal());
    println!(
        "asked again {} ms after the refusal, which lived 10 s",
        answer.at - refusal.at
    );
    assert_eq!(group.asked(), 2);
    group.finish().await;
}

/// *Scenario*: Jev refuses every instrument with 422.
/// *Guarantees*: nothing is dropped, nothing is asked about twice, and after five in a row all pause.
#[tokio::test]
async fn if_all_are_refused_all_pause() {
    let group = one_at_a_time(2).await;
    group.jev.script().always(Behaviour::Unprocessable);
    let message = message(&droppable("shop", 40));
    let paused = poll::eventually("a pause", WITHIN, async || {
        for replica in &group.replicas {
            assert_eq!(replica.kept_of(&message).await, 40);
        }
        let pauses = group.evidence().await.cooldowns.len();
        if pauses > 0 { Ok(()) } else { Err(pauses) }
    });
    paused.await.unwrap();
    let evidence = group.evidence().await;
    assert!(evidence.publications.iter().all(Publication::is_refusal));
    let refused: Vec<String> = evidence
        .publications
        .iter()
        .map(|stored| stored.about.clone())
        .collect();
    assert_eq!(distinct(refused.clone()).len(), refused.len(), "{refused:?}");
    // Each replica has a run of its own: at most four refusals, and the fifth is no refusal any more.
    assert!((4..=8).contains(&refused.len()), "{refused:?}");
    assert_pauses_were_kept(&evidence);
    group.finish().await;
}
