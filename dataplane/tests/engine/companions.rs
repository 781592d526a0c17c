//! Companion gauges in Annotate: of whom, how many, with what in them.

use jevmetrics_dataplane::retain::assessments::Assessments;
use jevmetrics_dataplane::retain::decide::{Decision, Reason};
use jevmetrics_otlp::identity::IdentityMode;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;

use crate::requests::{decode, encode, gauge, gauges, of_resource, text_of};
use crate::setup::{COLLECTOR, LIFETIME, NANOS, Setup, by_name, context};

const NAMES: [&str; 4] = [
    "jev.metric.relevance",
    "jev.metric.redundancy",
    "jev.metric.keep_probability",
    "jev.metric.recommended_action",
];

fn companions(output: &bytes::Bytes) -> Vec<Metric> {
    decode(output)
        .into_iter()
        .filter(|metric| NAMES.contains(&&metric.name[..]))
        .collect()
}

/// The instruments that have companions, once for each set.
fn annotated(output: &bytes::Bytes) -> Vec<String> {
    let of_one = companions(output)
        .into_iter()
        .filter(|metric| metric.name == NAMES[0]);
    of_one
        .map(|metric| text_of(&metric, "metric.name").unwrap().to_owned())
        .collect()
}

#[test]
fn a_fresh_assessment_is_shown_beside_the_unchanged_metric() {
    let setup = Setup::in_mode("Annotate");
    let request = gauges(&[("k42", 3)]);
    setup.teach(&request, by_name);
    let processed = setup.at(1, &request);
    let output = processed.output.unwrap();
    assert_eq!(decode(&output)[0], decode(&request)[0]);
    let companions = companions(&output);
    let shown: Vec<_> = companions
        .iter()
        .map(|metric| {
            let Some(Data::Gauge(gauge)) = &metric.data else {
                panic!("a gauge")
            };
            assert_eq!(gauge.data_points.len(), 1);
            assert_eq!(gauge.data_points[0].time_unix_nano, NANOS);
            let Some(Value::AsDouble(value)) = gauge.data_points[0].value else {
                panic!("a double")
            };
            assert_eq!(text_of(metric, "metric.name"), Some("k42"));
            assert_eq!(text_of(metric, "jev.model"), Some("jev-1"));
            assert_eq!(text_of(metric, "jev.collector.id"), Some(COLLECTOR));
            (&metric.name[..], value, text_of(metric, "action"))
        })
        .collect();
    let expected = [
        (NAMES[0], 0.25, None),
        (NAMES[1], 0.5, None),
        (NAMES[2], 0.42, None),
        (NAMES[3], 1.0, Some("reduce")),
    ];
    assert_eq!(shown, expected);
    assert_eq!((processed.annotated_metrics, processed.companion_points), (1, 4));
    assert_eq!(
        (processed.received_points, processed.kept_points),
        (3, 3),
        "not counted as input"
    );
}

#[test]
fn in_reduce_there_are_none() {
    let setup = Setup::in_mode("Reduce");
    let request = gauges(&[("k42", 3)]);
    setup.teach(&request, by_name);
    assert_eq!(setup.at(1, &request).output, Some(request));
}

#[test]
fn who_is_awaiting_refused_unreadable_expired_or_protected_has_none() {
    let setup = Setup::in_mode("Annotate");
    let known = gauges(&[("k42", 1), ("k0", 1), ("refused", 1)]);
    setup.teach(&known, by_name);
    setup.set_policy("Annotate", 70, 30, ", protectedMetrics: [k42]");
    let request = gauges(&[("k42", 1), ("k0", 1), ("refused", 1), ("k1", 1), ("", 1)]);
    assert_eq!(annotated(&setup.at(1, &request).output.unwrap()), ["k0"]);
    assert_eq!(setup.at(LIFETIME, &request).output, Some(request));
}

#[test]
fn an_instrument_is_annotated_once_a_request_however_often_it_is_there() {
    let setup = Setup::in_mode("Annotate");
    let twice = |first: &str| {
        of_resource(
            &[("service.name", "shop")],
            vec![gauge(first, 1), gauge("k1", 1), gauge("k1", 2)],
        )
    };
    let request = encode(vec![twice("k2"), twice("k3")]);
    setup.teach(&request, by_name);
    let processed = setup.at(1, &request);
    assert_eq!(annotated(&processed.output.unwrap()), ["k2", "k1", "k3"]);
    assert_eq!((processed.annotated_metrics, processed.companion_points), (3, 12));
    let again = setup.at(2, &request);
    assert_eq!(again.annotated_metrics, 3, "in the next request again");
}

#[test]
fn of_instances_that_share_an_assessment_one_is_annotated() {
    let setup = Setup::with(IdentityMode::Context(context()), Assessments::new(8, 8, LIFETIME));
    setup.set_policy("Annotate", 70, 30, "");
    let instance = |host: &str| {
        of_resource(
            &[("service.name", "shop"), ("host.name", host)],
            vec![gauge("k5", 1)],
        )
    };
    let request = encode(vec![instance("a"), instance("b"), instance("c")]);
    setup.at(0, &request);
    assert_eq!(setup.pending(), ["k5"], "one question for all of them");
    setup.answer(by_name);
    let processed = setup.at(1, &request);
    assert_eq!(
        processed
            .tally
            .get(Decision::Drop, Reason::CachedScore)
            .instruments,
        3
    );
    assert_eq!(processed.annotated_metrics, 1);
    assert_eq!(setup.engine.assessments().fill().0, 1);
    setup.set_policy("Reduce", 70, 30, "");
    assert_eq!(setup.at(2, &request).output, None);
    let elsewhere = encode(vec![of_resource(
        &[("service.name", "desk")],
        vec![gauge("k5", 1)],
    )]);
    assert_eq!(
        setup.at(2, &elsewhere).output,
        Some(elsewhere),
        "another service is another instrument"
    );
}

#[test]
fn companions_of_a_data_plane_before_us_are_kept_counted_and_left_alone() {
    for mode in ["Annotate", "Reduce"] {
        let setup = Setup::in_mode(mode);
        let request = gauges(&NAMES.map(|name| (name, 1)));
        for second in 0..3 {
            let processed = setup.at(second, &request);
            assert_eq!(processed.output.as_ref(), Some(&request));
            let protected = processed.tally.get(Decision::Keep, Reason::Protected);
            assert_eq!((protected.instruments, protected.points), (4, 4));
            assert_eq!((processed.received_points, processed.companion_points), (4, 0));
            assert!(setup.pending().is_empty());
        }
    }
}

#[test]
fn companions_never_make_a_request_larger_than_downstream_takes() {
    let names: Vec<String> = (0..50).map(|number| format!("k{number}")).collect();
    let metrics: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let request = gauges(&metrics);
    for room in [0, request.len(), request.len() + 100, request.len() + 5_000] {
        let assessments = Assessments::new(100, 100, LIFETIME);
        let setup = Setup::with_room(IdentityMode::Complete, assessments, room);
        setup.set_policy("Annotate", 70, 30, "");
        setup.teach(&request, by_name);
        let processed = setup.at(1, &request);
        let output = processed.output.unwrap();
        assert!(
            output.len() <= room.max(request.len()),
            "{} in {room}",
            output.len()
        );
        assert_eq!(processed.kept_points, 50, "what came in is sent in any case");
        assert_eq!(
            companions(&output).len() as u64,
            processed.companion_points,
            "what is counted is what is written"
        );
        assert_eq!(processed.annotated_metrics > 0, room > request.len() + 1_000);
    }
}
