//! What leaves after drops: kept bytes as they came, parents emptied by drops gone, the rest untouched.

use jevmetrics_otlp::companion::Stamp;
use jevmetrics_otlp::{Plan, Spliced, splice};
use prost::Message;

use crate::build::{Request, in_resource, in_scope, request, scope, simple};
use crate::read::walk;
use crate::wire::{cat, len, long_len, unknown};

const STAMP: Stamp<'_> = Stamp {
    collector_id: "c",
    time_unix_nano: 1,
};

fn without(bytes: &[u8], dropped: &[usize]) -> Spliced {
    let walk = walk(bytes);
    let mut plan = Plan::default();
    plan.reset(walk.metrics().len());
    for metric in dropped {
        plan.drop_metric(*metric);
    }
    splice(bytes, &walk, &mut plan, &[], STAMP)
}

fn rewritten(bytes: &[u8], dropped: &[usize]) -> Vec<u8> {
    match without(bytes, dropped) {
        Spliced::Rewritten(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

/// Two resources, of two scopes and one, of two metrics each: m0 to m5.
fn six() -> Request {
    let pair = |first: usize| vec![simple(&format!("m{first}")), simple(&format!("m{}", first + 1))];
    let two = vec![in_scope(scope("a"), pair(0)), in_scope(scope("b"), pair(2))];
    request(vec![
        in_resource(None, two),
        in_resource(None, vec![in_scope(scope("c"), pair(4))]),
    ])
}

#[test]
fn nothing_to_drop_is_unchanged() {
    assert_eq!(without(&six().encode_to_vec(), &[]), Spliced::Unchanged);
    assert_eq!(without(b"", &[]), Spliced::Unchanged);
    assert_eq!(without(&unknown(), &[]), Spliced::Unchanged);
}

#[test]
fn one_metric_goes_with_its_points_and_its_neighbours_stay() {
    let mut expected = six();
    expected.resource_metrics[0].scope_metrics[1].metrics.remove(0);
    assert_eq!(rewritten(&six().encode_to_vec(), &[2]), expected.encode_to_vec());
}

#[test]
fn a_scope_left_empty_goes() {
    let mut expected = six();
    expected.resource_metrics[0].scope_metrics.remove(0);
    assert_eq!(
        rewritten(&six().encode_to_vec(), &[0, 1]),
        expected.encode_to_vec()
    );
}

#[test]
fn a_resource_left_empty_goes() {
    let mut expected = six();
    expected.resource_metrics.remove(0);
    assert_eq!(
        rewritten(&six().encode_to_vec(), &[0, 1, 2, 3]),
        expected.encode_to_vec()
    );
}

#[test]
fn a_request_left_empty_is_nothing_to_send() {
    assert_eq!(
        without(&six().encode_to_vec(), &[0, 1, 2, 3, 4, 5]),
        Spliced::Nothing
    );
    let with_unknown = cat(&[unknown(), six().encode_to_vec()]);
    assert_eq!(without(&with_unknown, &[0, 1, 2, 3, 4, 5]), Spliced::Nothing);
}

#[test]
fn parents_that_arrived_empty_stay() {
    let empty_scope = in_scope(scope("empty"), vec![]);
    let full_scope = in_scope(scope("full"), vec![simple("m")]);
    let arrived = request(vec![
        in_resource(None, vec![]),
        in_resource(None, vec![empty_scope.clone(), full_scope.clone()]),
        in_resource(None, vec![full_scope]),
    ]);
    let expected = request(vec![
        in_resource(None, vec![]),
        in_resource(None, vec![empty_scope]),
    ]);
    assert_eq!(
        rewritten(&arrived.encode_to_vec(), &[0, 1]),
        expected.encode_to_vec()
    );
    let only_shells = request(vec![in_resource(None, vec![])]).encode_to_vec();
    assert_eq!(without(&only_shells, &[]), Spliced::Unchanged);
}

#[test]
fn unknown_fields_of_parents_that_stay_stay_where_they_are() {
    let metric = |name: &str| len(2, cat(&[unknown(), len(1, name), len(5, len(1, ""))]));
    let scope_metrics = |metrics: &[Vec<u8>]| len(2, cat(&[unknown(), cat(metrics), unknown()]));
    let of = |first: &[Vec<u8>], second: Vec<u8>| {
        cat(&[
            unknown(),
            len(1, cat(&[unknown(), scope_metrics(first), second, unknown()])),
            unknown(),
        ])
    };
    let arrived = of(
        &[metric("a"), unknown(), metric("b")],
        scope_metrics(&[metric("c")]),
    );
    assert_eq!(
        rewritten(&arrived, &[0]),
        of(&[unknown(), metric("b")], scope_metrics(&[metric("c")]))
    );
    assert_eq!(
        rewritten(&arrived, &[1, 2]),
        of(&[metric("a"), unknown()], Vec::new())
    );
}

#[test]
fn what_did_not_change_keeps_its_odd_lengths_and_what_did_gets_minimal_ones() {
    let metric = |name: &str| long_len(2, cat(&[long_len(1, name), long_len(5, "")]));
    let scope_metrics = |metrics: &[Vec<u8>]| long_len(2, cat(metrics));
    let arrived = cat(&[
        long_len(
            1,
            cat(&[
                scope_metrics(&[metric("a"), metric("b")]),
                scope_metrics(&[metric("c")]),
            ]),
        ),
        long_len(1, scope_metrics(&[metric("d")])),
    ]);
    let changed = cat(&[len(2, metric("b")), scope_metrics(&[metric("c")])]);
    let expected = cat(&[len(1, changed), long_len(1, scope_metrics(&[metric("d")]))]);
    assert_eq!(rewritten(&arrived, &[0]), expected);
}

#[test]
fn pieces_of_a_resource_and_a_scope_stay_pieces() {
    let piece = len(1, len(1, len(1, "k")));
    let scope = |metrics: &[Vec<u8>]| len(2, cat(&[len(1, len(1, "s")), cat(metrics), len(1, len(2, "v"))]));
    let of = |metrics: &[Vec<u8>]| len(1, cat(&[piece.clone(), scope(metrics), len(1, "")]));
    let (a, b) = (len(2, len(1, "a")), len(2, len(1, "b")));
    assert_eq!(rewritten(&of(&[a.clone(), b.clone()]), &[0]), of(&[b]));
}

#[test]
fn lengths_cross_varint_borders_rightly() {
    for total in [
        126_usize, 127, 128, 129, 16_383, 16_384, 16_385, 2_097_151, 2_097_152,
    ] {
        let metric = |size: usize| len(2, len(1, vec![b'x'; size]));
        let of = |metrics: &[Vec<u8>]| len(1, len(2, cat(metrics)));
        for size in total.saturating_sub(12)..=total {
            let kept = metric(size);
            assert_eq!(
                rewritten(&of(&[metric(300), kept.clone(), metric(1)]), &[0, 2]),
                of(&[kept])
            );
        }
    }
}

#[test]
fn a_plan_used_again_remembers_nothing() {
    let bytes = six().encode_to_vec();
    let walk = walk(&bytes);
    let mut plan = Plan::default();
    plan.reset(walk.metrics().len());
    (0..6).for_each(|metric| plan.drop_metric(metric));
    assert_eq!(splice(&bytes, &walk, &mut plan, &[], STAMP), Spliced::Nothing);
    plan.reset(walk.metrics().len());
    assert_eq!(splice(&bytes, &walk, &mut plan, &[], STAMP), Spliced::Unchanged);
    plan.drop_metric(5);
    let mut expected = six();
    expected.resource_metrics[1].scope_metrics[0].metrics.pop();
    assert_eq!(
        splice(&bytes, &walk, &mut plan, &[], STAMP),
        Spliced::Rewritten(expected.encode_to_vec())
    );
}
