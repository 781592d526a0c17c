//! The chain of decisions, end to end, in its order.

use bytes::Bytes;
use jevmetrics_dataplane::retain::decide::Decision::{Drop, Keep};
use jevmetrics_dataplane::retain::decide::{Decision, Reason};
use jevmetrics_dataplane::retain::engine::{Moment, Processed};

use crate::requests::{attributes, encode, gauge, gauges, names, of_resource};
use crate::setup::{LIFETIME, NANOS, Setup, by_name};

/// Outcomes with their instruments and points; those that did not happen left out.
fn outcomes(processed: &Processed) -> Vec<(Decision, Reason, u64, u64)> {
    let all = processed.tally.iter();
    all.filter(|(_, _, count)| count.instruments > 0)
        .map(|(decision, reason, count)| (decision, reason, count.instruments, count.points))
        .collect()
}

#[test]
fn without_a_policy_everything_is_kept_byte_for_byte_and_nothing_asked() {
    let setup = Setup::new();
    let request = gauges(&[("k0", 3), ("k100", 2), ("jev.metric.relevance", 1)]);
    let processed = setup.at(0, &request);
    assert_eq!(processed.output.as_ref(), Some(&request));
    assert_eq!(processed.mode, None);
    assert_eq!(outcomes(&processed), [(Keep, Reason::AwaitingPolicy, 3, 6)]);
    assert_eq!(
        (
            processed.received_points,
            processed.kept_points,
            processed.dropped_points
        ),
        (6, 6, 0)
    );
    assert_eq!((processed.companion_points, processed.annotated_metrics), (0, 0));
    assert!(setup.pending().is_empty());
}

#[test]
fn every_reason_is_reached_and_only_a_low_score_drops() {
    for mode in ["Annotate", "Reduce"] {
        let setup = Setup::new();
        setup.set_policy(mode, 70, 30, ", protectedMetrics: [k1], protectedPrefixes: [k2]");
        let names = [
            "k0",
            "k1",
            "k20",
            "k30",
            "k31",
            "k69",
            "k70",
            "k100",
            "refused",
            "jev.metric.relevance",
        ];
        let metrics = names.iter().map(|name| gauge(name, 2)).collect();
        let known = of_resource(&[("service.name", "shop")], metrics);
        let mut unreadable = of_resource(&[], vec![gauge("k0", 1), gauge("k1", 1)]);
        unreadable.resource.as_mut().unwrap().attributes = attributes(&[("a", "1"), ("a", "2")]);
        setup.teach(&encode(vec![known.clone()]), by_name);
        let unknown = of_resource(&[("service.name", "new")], vec![gauge("k0", 5)]);
        let processed = setup.at(1, &encode(vec![known, unreadable, unknown]));
        let expected = [
            (Keep, Reason::Protected, 4, 7), // k1 twice, k20, the companion
            (Keep, Reason::InvalidIdentity, 1, 1),
            (Keep, Reason::Unassessable, 1, 2),
            (Keep, Reason::AwaitingAssessment, 1, 5),
            (Keep, Reason::CachedScore, 2, 4), // k70, k100
            (Keep, Reason::Uncertain, 2, 4),   // k31, k69
            (Drop, Reason::CachedScore, 2, 4), // k0, k30
        ];
        assert_eq!(outcomes(&processed), expected, "{mode}");
        assert_eq!(
            setup.pending(),
            ["k0"],
            "{mode}: only what is unknown is asked about"
        );
    }
}

#[test]
fn what_was_dropped_is_kept_again_once_its_assessment_expires() {
    let setup = Setup::in_mode("Reduce");
    let request = gauges(&[("k0", 1), ("k100", 1)]);
    setup.teach(&request, by_name);
    assert_eq!(names(setup.at(LIFETIME - 1, &request).output.as_ref()), ["k100"]);
    let expired = setup.at(LIFETIME, &request);
    assert_eq!(expired.output.as_ref(), Some(&request));
    assert_eq!(outcomes(&expired), [(Keep, Reason::AwaitingAssessment, 2, 2)]);
    assert_eq!(setup.pending(), ["k0", "k100"]);
}

#[test]
fn a_request_that_loses_everything_is_nothing_to_send() {
    let setup = Setup::in_mode("Reduce");
    let request = gauges(&[("k0", 4), ("k10", 1)]);
    setup.teach(&request, by_name);
    let processed = setup.at(1, &request);
    assert_eq!(processed.output, None);
    assert_eq!(
        (
            processed.received_points,
            processed.kept_points,
            processed.dropped_points
        ),
        (5, 0, 5)
    );
    assert_eq!((processed.received_metrics, processed.dropped_metrics), (2, 2));
}

#[test]
fn one_metric_that_cannot_be_judged_does_not_cost_its_neighbours() {
    let setup = Setup::in_mode("Reduce");
    let mut metrics = vec![gauge("k0", 1), gauge("k100", 1)];
    metrics.insert(1, gauge("", 7));
    let request = encode(vec![of_resource(&[], metrics)]);
    setup.teach(&request, by_name);
    let processed = setup.at(1, &request);
    assert_eq!(names(processed.output.as_ref()), ["", "k100"]);
    assert_eq!(processed.tally.get(Keep, Reason::InvalidIdentity).points, 7);
}

#[test]
fn a_request_that_cannot_be_read_is_refused_and_counts_nothing() {
    let setup = Setup::in_mode("Reduce");
    let sound = gauges(&[("k0", 1)]);
    setup.at(0, &sound);
    let seen = || {
        setup
            .engine
            .assessments()
            .rows()
            .map(|row| row.points)
            .collect::<Vec<_>>()
    };
    let before = seen();
    // The known metric first, then a resource whose attribute ends too early, with a metric.
    let broken = b"\x0a\x0d\x0a\x04\x0a\x02\x0a\x05\x12\x05\x12\x03\x0a\x01m";
    let request = Bytes::from([&sound[..], broken].concat());
    let moment = Moment {
        seconds: 1,
        unix_nanos: NANOS,
    };
    let malformed = setup.engine.process(&request, moment).unwrap_err();
    assert!(malformed.to_string().contains("attribute"), "{malformed}");
    assert_eq!(seen(), before);
    assert_eq!(
        setup.pending(),
        ["k0"],
        "the question of the sound request and no other"
    );
    assert_eq!(
        names(setup.at(1, &sound).output.as_ref()),
        ["k0"],
        "the next request is served as ever"
    );
}

#[test]
fn in_a_full_table_newcomers_are_kept_and_who_was_there_is_still_judged() {
    let assessments = jevmetrics_dataplane::retain::assessments::Assessments::new(2, 8, LIFETIME);
    let setup = Setup::with(jevmetrics_otlp::identity::IdentityMode::Complete, assessments);
    setup.set_policy("Reduce", 70, 30, ", protectedMetrics: [up]");
    setup.teach(&gauges(&[("k0", 1), ("k100", 1)]), by_name);
    let mut metrics = vec![
        gauge("k0", 1),
        gauge("k1", 1),
        gauge("k2", 1),
        gauge("up", 1),
        gauge("k100", 1),
    ];
    metrics.push(gauge("", 1));
    let request = encode(vec![of_resource(&[("service.name", "shop")], metrics)]);
    for second in 1..100 {
        let processed = setup.at(second, &request);
        assert_eq!(names(processed.output.as_ref()), ["k1", "k2", "up", "k100", ""]);
        let expected = [
            (Keep, Reason::Protected, 1, 1),
            (Keep, Reason::InvalidIdentity, 1, 1),
            (Keep, Reason::AwaitingAssessment, 2, 2),
            (Keep, Reason::CachedScore, 1, 1),
            (Drop, Reason::CachedScore, 1, 1),
        ];
        assert_eq!(outcomes(&processed), expected);
    }
    assert!(
        setup.pending().is_empty(),
        "no place, no question: its answer could not be kept"
    );
    assert!(setup.engine.assessments().not_admitted() > 0);
}
