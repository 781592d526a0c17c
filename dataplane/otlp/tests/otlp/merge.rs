//! Protobuf's rules for what an encoder may also do: pieces of a message, scalars and oneofs given twice, any
//! order, unknown fields, long varints. Each vector means what prost makes of it, and what we say it means.

use jevmetrics_otlp::identity::InvalidIdentity;
use jevmetrics_otlp::{Fault, Place};
use prost::Message;

use crate::build::{
    Request, array, attribute, attributes, in_resource, in_scope, int as int_value, map, request, resource,
    scope, simple, text,
};
use crate::read::{all, assert_reads_as_prost, complete, keys, refusal, walk};
use crate::wire::{cat, fixed64, int, len, long_len, unknown};

fn pair(key: &str, value: &[u8]) -> Vec<u8> {
    cat(&[len(1, key), len(2, value)])
}

fn text_value(text: &str) -> Vec<u8> {
    len(1, text)
}

/// A gauge named "m" with one point.
fn gauge() -> Vec<u8> {
    len(2, cat(&[len(1, "m"), len(5, len(1, fixed64(4, 0)))]))
}

fn plain(resource_pairs: &[(&str, &str)]) -> Request {
    let resource = resource(attributes(resource_pairs));
    request(vec![in_resource(
        resource,
        vec![in_scope(None, vec![simple("m")])],
    )])
}

/// Asserts that the only metric of `odd` is that of `plain`.
#[track_caller]
fn assert_same(odd: &[u8], plain: &Request) {
    assert_reads_as_prost(odd);
    let (identity, points) = all(odd)[0];
    assert_eq!(identity, Ok(complete(plain)));
    assert_eq!(points, 1);
}

#[test]
fn a_resource_in_pieces_is_one_resource() {
    let first = len(1, len(1, pair("a", &text_value("1"))));
    let second = len(1, cat(&[len(1, pair("b", &text_value("2"))), int(2, 5)]));
    let odd = len(1, cat(&[first, len(2, gauge()), len(1, ""), second]));
    assert_same(&odd, &plain(&[("a", "1"), ("b", "2")]));
}

#[test]
fn a_scope_in_pieces_is_one_scope_and_its_last_name_counts() {
    let first = len(1, cat(&[len(1, "old"), len(3, pair("a", &text_value("1")))]));
    let second = len(1, cat(&[len(2, "v"), len(1, "s")]));
    let third = len(1, len(3, pair("b", &text_value("2"))));
    let odd = len(1, len(2, cat(&[first, gauge(), second, third])));
    let mut scope = scope("s");
    scope.version = "v".into();
    scope.attributes = attributes(&[("b", "2"), ("a", "1")]);
    assert_same(
        &odd,
        &request(vec![in_resource(None, vec![in_scope(scope, vec![simple("m")])])]),
    );
}

#[test]
fn broken_pieces_do_not_pass_for_the_whole_that_they_add_up_to() {
    let whole = len(1, pair("a", &text_value("1")));
    let (head, tail) = whole.split_at(3);
    let of_resource = |parts: &[&[u8]]| {
        let parts: Vec<u8> = parts.iter().flat_map(|part| len(1, part)).collect();
        len(1, cat(&[parts, len(2, gauge())]))
    };
    let (sound, broken) = (of_resource(&[&whole]), of_resource(&[head, tail]));
    assert_eq!(refusal(&sound), None);
    let malformed = refusal(&broken).expect("a piece is no message");
    assert_eq!(
        (malformed.place, malformed.fault),
        (Place::Resource, Fault::Truncated)
    );
    assert!(Request::decode(&broken[..]).is_err());
    // An alias that is known is not parsed again: the two must not share one, in any division.
    let alias = |bytes: &[u8]| walk(bytes).metrics()[0].alias();
    let aliases = [
        alias(&sound),
        alias(&broken),
        alias(&of_resource(&[&whole[..1], &whole[1..]])),
        alias(&of_resource(&[b"", &whole])),
        alias(&of_resource(&[&whole, b""])),
    ];
    assert_eq!(std::collections::HashSet::from(aliases).len(), aliases.len());
}

#[test]
fn data_of_one_type_given_twice_is_joined() {
    let point = || len(1, fixed64(3, 9));
    let first = len(7, cat(&[point(), point(), int(2, 1), int(3, 1)]));
    let second = len(7, cat(&[int(2, 2), point()]));
    let odd = len(1, len(2, len(2, cat(&[first, len(1, "m"), second]))));
    assert_reads_as_prost(&odd);
    assert_eq!(all(&odd)[0].1, 3);
}

#[test]
fn data_of_another_type_replaces_all_that_was_before() {
    let point = || len(1, fixed64(3, 9));
    let sum = len(7, cat(&[point(), point(), int(2, 2), int(3, 1)]));
    let gauge = len(5, point());
    let plain = complete(&plain(&[]));
    let of = |data: &[Vec<u8>]| {
        len(
            1,
            cat(&[len(1, ""), len(2, len(2, cat(&[len(1, "m"), cat(data)])))]),
        )
    };
    for data in [
        vec![sum.clone(), gauge.clone()],
        vec![gauge.clone(), sum.clone(), gauge.clone()],
    ] {
        let odd = of(&data);
        assert_reads_as_prost(&odd);
        assert_eq!(all(&odd), [(Ok(plain), 1)]);
    }
    // Temporality and monotonicity of the first sum are forgotten with it.
    let odd = of(&[sum.clone(), gauge, len(7, point())]);
    assert_reads_as_prost(&odd);
    assert_eq!(all(&odd)[0].1, 1);
}

#[test]
fn a_value_given_twice_is_merged_and_its_last_kind_counts() {
    let of = |values: &[Vec<u8>]| {
        let values: Vec<Vec<u8>> = values.iter().map(|value| len(2, value)).collect();
        let attribute = cat(&[cat(&values), len(1, "k")]);
        len(1, cat(&[len(1, len(1, attribute)), len(2, gauge())]))
    };
    let plain = |value| {
        let resource = resource(vec![attribute("k", Some(value))]);
        request(vec![in_resource(
            resource,
            vec![in_scope(None, vec![simple("m")])],
        )])
    };
    let list = |text: &str| len(5, len(1, text_value(text)));
    let pairs = |key: &str| len(6, len(1, pair(key, &text_value("1"))));
    assert_same(&of(&[int(3, 7), text_value("x")]), &plain(text("x")));
    assert_same(&of(&[text_value("x"), vec![]]), &plain(text("x")));
    assert_same(
        &of(&[list("a"), list("b")]),
        &plain(array(vec![text("a"), text("b")])),
    );
    assert_same(
        &of(&[cat(&[list("a"), int(3, 1), list("b")])]),
        &plain(array(vec![text("b")])),
    );
    let joined = map(vec![attribute("a", text("1")), attribute("b", text("1"))]);
    assert_same(&of(&[pairs("b"), pairs("a")]), &plain(joined));
    assert_same(&of(&[pairs("b"), list("a")]), &plain(array(vec![text("a")])));
    assert_same(&of(&[cat(&[int(3, 1), int(3, 2)])]), &plain(int_value(2)));
    let odd = of(&[pairs("b"), pairs("b")]);
    assert_reads_as_prost(&odd);
    assert_eq!(
        all(&odd)[0].0,
        Err(InvalidIdentity::RepeatedKey),
        "joined lists repeat a key"
    );
}

#[test]
fn scalars_given_twice_take_the_last() {
    let metric = cat(&[
        len(1, "old"),
        len(3, "s"),
        len(5, len(1, "")),
        len(3, ""),
        len(1, "m"),
    ]);
    let url = |url: &str| len(3, url);
    let odd = len(
        1,
        cat(&[
            url("x"),
            len(1, ""),
            len(2, cat(&[url("y"), len(2, metric), url("")])),
            url(""),
        ]),
    );
    assert_same(&odd, &plain(&[]));
}

#[test]
fn unknown_fields_change_nothing_at_any_level() {
    let with = |inner: Vec<u8>| cat(&[unknown(), inner, unknown()]);
    let value = with(text_value("1"));
    let attribute = with(cat(&[len(1, "a"), len(2, value)]));
    let resource = with(len(1, attribute));
    let data = with(len(1, with(fixed64(4, 0))));
    let metric = with(cat(&[len(1, "m"), unknown(), len(5, data)]));
    let scope_metrics = with(len(2, metric));
    let odd = with(len(1, with(cat(&[len(1, resource), len(2, scope_metrics)]))));
    assert_same(&odd, &plain(&[("a", "1")]));
}

#[test]
fn varints_longer_than_they_need_be_change_nothing() {
    let attribute = cat(&[long_len(1, "a"), long_len(2, long_len(1, "1"))]);
    let metric = cat(&[long_len(1, "m"), long_len(5, long_len(1, ""))]);
    let odd = long_len(
        1,
        cat(&[
            long_len(1, long_len(1, attribute)),
            long_len(2, long_len(2, metric)),
        ]),
    );
    assert_same(&odd, &plain(&[("a", "1")]));
}

#[test]
fn any_order_of_fields_is_read() {
    let attribute = cat(&[len(2, text_value("1")), len(1, "a")]);
    let metric = cat(&[len(5, len(1, "")), len(3, "u"), len(2, "d"), len(1, "m")]);
    let scope = cat(&[len(2, "v"), len(1, "s")]);
    let scope_metrics = cat(&[len(3, "y"), len(2, metric), len(1, scope)]);
    let odd = len(
        1,
        cat(&[len(3, "x"), len(2, scope_metrics), len(1, len(1, attribute))]),
    );
    assert_reads_as_prost(&odd);
    let mut reordered = Request::decode(&odd[..]).unwrap();
    let metric = &mut reordered.resource_metrics[0].scope_metrics[0].metrics[0];
    assert_eq!(
        (&metric.name[..], &metric.description[..], &metric.unit[..]),
        ("m", "d", "u")
    );
    assert_eq!(all(&odd)[0].0, Ok(complete(&reordered)));
}

#[test]
fn packed_and_unpacked_points_are_alike_to_us() {
    // A histogram point with bucket counts (6, fixed64) and bounds (7, double), both ways.
    let packed = cat(&[len(6, [1; 16]), len(7, [0; 8])]);
    let unpacked = cat(&[fixed64(6, 1), fixed64(6, 1), fixed64(7, 0)]);
    let of = |point: &[u8]| {
        len(
            1,
            len(
                2,
                len(2, cat(&[len(1, "m"), len(9, cat(&[len(1, point), int(2, 1)]))])),
            ),
        )
    };
    assert_reads_as_prost(&of(&packed));
    assert_eq!(all(&of(&packed)), all(&of(&unpacked)));
}

#[test]
fn one_instrument_in_different_clothes_has_other_aliases_and_one_identity() {
    let plain = plain(&[("a", "1"), ("b", "2")]).encode_to_vec();
    let mut turned = self::plain(&[("a", "1"), ("b", "2")]);
    turned.resource_metrics[0]
        .resource
        .as_mut()
        .unwrap()
        .attributes
        .reverse();
    let turned = turned.encode_to_vec();
    assert_eq!(all(&plain), all(&turned));
    assert_ne!(
        walk(&plain).metrics()[0].alias(),
        walk(&turned).metrics()[0].alias()
    );
    let other = jevmetrics_otlp::Keys::new([9, 8, 7, 6, 5, 4]);
    let mut elsewhere = jevmetrics_otlp::Walk::default();
    elsewhere.read(&plain, &other).unwrap();
    assert_ne!(
        elsewhere.metrics()[0].alias(),
        walk(&plain).metrics()[0].alias(),
        "aliases are a process's own"
    );
    let mut again = jevmetrics_otlp::Walk::default();
    again.read(&plain, &keys()).unwrap();
    assert_eq!(again.metrics()[0].alias(), walk(&plain).metrics()[0].alias());
}
