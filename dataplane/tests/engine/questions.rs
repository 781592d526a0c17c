//! Who is asked about, when, and with what.

use std::sync::atomic::Ordering;

use crate::requests::{attributes, encode, gauge, gauges, of_resource};
use crate::setup::{LIFETIME, Setup, by_name};
use jevmetrics_dataplane::infer::rank::Rank;
use opentelemetry_proto::tonic::metrics::v1::NumberDataPoint;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;

#[test]
fn an_instrument_is_asked_about_once_until_the_question_ends() {
    let setup = Setup::in_mode("Reduce");
    let request = gauges(&[("k1", 1), ("k2", 1), ("k1", 1)]);
    for second in 0..5 {
        setup.at(second, &request);
        assert_eq!(setup.pending(), ["k1", "k2"]);
    }
    setup.answer(by_name);
    setup.at(5, &request);
    assert!(setup.pending().is_empty());
}

#[test]
fn after_a_failure_the_next_request_asks_again() {
    let setup = Setup::in_mode("Reduce");
    let request = gauges(&[("k1", 1)]);
    setup.at(0, &request);
    let item = setup.asked.items.lock().unwrap().pop().unwrap();
    setup.at(1, &request);
    assert!(setup.pending().is_empty());
    setup.engine.assessments().stop_asking(item.ticket);
    setup.at(2, &request);
    assert_eq!(setup.pending(), ["k1"]);
}

#[test]
fn a_refused_instrument_is_left_alone_for_a_lifetime() {
    let setup = Setup::in_mode("Reduce");
    let request = gauges(&[("refused", 1)]);
    setup.teach(&request, by_name);
    setup.at(LIFETIME - 1, &request);
    assert!(setup.pending().is_empty());
    setup.at(LIFETIME, &request);
    assert_eq!(setup.pending(), ["refused"]);
}

#[test]
fn while_nothing_is_wanted_nothing_is_offered_and_nothing_is_blocked() {
    let setup = Setup::in_mode("Reduce");
    let request = gauges(&[("k1", 1), ("k2", 1)]);
    setup.asked.is_closed.store(true, Ordering::Relaxed);
    setup.at(0, &request);
    assert!(setup.pending().is_empty());
    assert_eq!(setup.asked.rejected.load(Ordering::Relaxed), 2);
    setup.asked.is_closed.store(false, Ordering::Relaxed);
    setup.at(0, &request);
    assert_eq!(setup.pending(), ["k1", "k2"]);
}

#[test]
fn an_offer_that_is_given_back_is_made_again() {
    let setup = Setup::in_mode("Reduce");
    let request = gauges(&[("k1", 1)]);
    setup.asked.refuses_offers.store(true, Ordering::Relaxed);
    let processed = setup.at(0, &request);
    assert_eq!(processed.output.as_ref(), Some(&request));
    setup.asked.refuses_offers.store(false, Ordering::Relaxed);
    setup.at(0, &request);
    assert_eq!(setup.pending(), ["k1"]);
}

#[test]
fn the_summary_is_that_of_the_batch_which_raised_the_question() {
    let setup = Setup::in_mode("Reduce");
    let with_points = |points: &[&[(&str, &str)]]| {
        let mut metric = gauge("k1", 0);
        if let Some(Data::Gauge(gauge)) = &mut metric.data {
            let point = |pairs: &&[(&str, &str)]| NumberDataPoint {
                attributes: attributes(pairs),
                ..NumberDataPoint::default()
            };
            gauge.data_points = points.iter().map(point).collect();
        }
        encode(vec![of_resource(
            &[("service.name", "shop"), ("host.name", "a")],
            vec![metric],
        )])
    };
    setup.asked.is_closed.store(true, Ordering::Relaxed);
    setup.at(0, &with_points(&[&[("old", "1")]]));
    setup.asked.is_closed.store(false, Ordering::Relaxed);
    setup.at(
        1,
        &with_points(&[
            &[("b", "1"), ("a", "1")],
            &[("a", "1"), ("b", "1")],
            &[("b", "2")],
        ]),
    );
    setup.at(2, &with_points(&[&[("later", "1")]]));
    let items = setup.asked.items.lock().unwrap();
    let [item] = &items[..] else {
        panic!("one question: {items:?}")
    };
    let summary = &item.summary;
    assert_eq!((summary.data_points, summary.attribute_sets), (3, 2));
    assert_eq!(summary.attribute_keys, ["a", "b"]);
    assert_eq!(
        summary.resource,
        [("service.name".to_owned(), "shop".to_owned())],
        "only what is allow-listed"
    );
    assert_eq!(summary.scope_name, "scope");
}

#[test]
fn another_order_of_attributes_is_the_same_instrument() {
    let setup = Setup::in_mode("Reduce");
    let of = |pairs: &[(&str, &str)]| encode(vec![of_resource(pairs, vec![gauge("k1", 1)])]);
    let (there, back) = (of(&[("a", "1"), ("b", "2")]), of(&[("b", "2"), ("a", "1")]));
    setup.teach(&there, by_name);
    assert_eq!(
        setup.at(1, &back).output,
        None,
        "its assessment is found under the other form"
    );
    assert_eq!(setup.at(1, &there).output, None);
    assert!(setup.pending().is_empty());
}

#[test]
fn answers_in_use_are_asked_for_anew_before_they_end_drops_first() {
    let setup = Setup::in_mode("Reduce");
    let request = gauges(&[("k90", 1), ("k1", 1), ("refused", 1)]);
    setup.teach(&request, by_name);
    let ranks = |second| {
        assert_eq!(
            setup.at(second, &request).dropped_metrics,
            1,
            "in force meanwhile"
        );
        let items = setup.asked.items.lock().unwrap();
        let ranks = items.iter().map(|item| (item.summary.name.clone(), item.rank));
        ranks.collect::<Vec<_>>()
    };
    assert_eq!(ranks(LIFETIME - LIFETIME / 5 - 1), []);
    assert_eq!(
        ranks(LIFETIME - LIFETIME / 10),
        [
            ("k90".to_owned(), Rank::keep_runs_out(1, LIFETIME)),
            ("k1".to_owned(), Rank::drop_runs_out(1, LIFETIME)),
        ],
        "a refusal is left alone until it ends"
    );
}

#[test]
fn without_room_for_summaries_identities_are_looked_up_and_then_rest() {
    let setup = Setup::in_mode("Reduce");
    let request = gauges(&[("k1", 1), ("d1", 4)]);
    setup.asked.only_looks_up.store(true, Ordering::Relaxed);
    setup.at(0, &request);
    setup.at(1, &request);
    let enquiries: Vec<_> = setup.asked.enquiries.lock().unwrap().drain(..).collect();
    assert_eq!(enquiries.len(), 2, "once each");
    assert_eq!(enquiries[1].rank, Rank::unknown(4));
    for enquiry in &enquiries {
        setup.engine.assessments().rest_from_look_ups(enquiry.ticket, 1);
        setup.engine.assessments().stop_asking(enquiry.ticket);
    }
    setup.at(2, &request);
    assert!(setup.asked.enquiries.lock().unwrap().is_empty());
    setup.asked.only_looks_up.store(false, Ordering::Relaxed);
    setup.at(2, &request);
    assert_eq!(
        setup.pending(),
        ["k1", "d1"],
        "with their summaries they need not rest"
    );
    let items = setup.asked.items.lock().unwrap();
    assert!(
        items
            .iter()
            .zip(&enquiries)
            .all(|(item, enquiry)| item.identity == enquiry.identity)
    );
}

#[test]
fn one_that_was_asked_in_vain_lets_the_others_pass() {
    let setup = Setup::in_mode("Reduce");
    let request = gauges(&[("k1", 1)]);
    setup.at(0, &request);
    let item = setup.asked.items.lock().unwrap().pop().unwrap();
    setup.engine.assessments().rest_from_questions(item.ticket, 0);
    setup.engine.assessments().stop_asking(item.ticket);
    setup.at(29, &request);
    assert!(setup.pending().is_empty());
    setup.at(30, &request);
    assert_eq!(setup.pending(), ["k1"]);
}
