//! Affinity keys say who owns a resource: they are frozen, and they look at what counts and at nothing else.
//! If a key changes, pods of two versions disagree about owners: that needs a new `affinity::VERSION` and
//! `affinity::SCHEMA`, on purpose.

use jevmetrics_otlp::affinity::{INSTANCE_ATTRIBUTES, KeySource, VERSION, affinity_key};
use jevmetrics_otlp::identity::MAX_VALUES;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use prost::Message;

use crate::build::{
    array, attribute, attributes, in_resource, in_scope, int, request, resource, simple, text, value,
};
use crate::read::{context, walk};
use crate::wire::len;

fn of_bytes(request: &[u8], source: &KeySource) -> u64 {
    let walk = walk(request);
    assert_eq!(walk.resources(), 1);
    affinity_key(request, &walk, 0, source).unwrap()
}

fn key_of(attributes: Vec<KeyValue>, source: &KeySource) -> u64 {
    let scopes = vec![in_scope(None, vec![simple("m")])];
    let request = request(vec![in_resource(resource(attributes), scopes)]);
    of_bytes(&request.encode_to_vec(), source)
}

/// By default.
fn key(pairs: &[(&str, &str)]) -> u64 {
    key_of(attributes(pairs), &KeySource::Source)
}

fn listed(names: &[&str]) -> KeySource {
    KeySource::Listed(context(names))
}

fn in_context(names: &[&str]) -> KeySource {
    KeySource::Context(context(names))
}

#[test]
fn keys_are_frozen() {
    let pod = [
        ("service.namespace", "shop"),
        ("service.name", "cart"),
        ("k8s.pod.uid", "5c4b"),
    ];
    let twice = vec![
        attribute("service.name", text("a")),
        attribute("service.name", text("b")),
    ];
    let source = &KeySource::Source;
    let vectors = [
        ("a pod of a service", key(&pod), 0x834f_35c2_ebaf_fc56),
        (
            "a service without instance",
            key(&pod[..2]),
            0xdfb4_4e90_10e4_cc00,
        ),
        (
            "an instance alone",
            key(&[("host.name", "größe")]),
            0xf768_3244_4a55_5c6f,
        ),
        (
            "none of them",
            key(&[("b", "1"), ("a", "2")]),
            0x8025_a19d_8e9d_a55f,
        ),
        ("no attributes", key(&[]), 0xdf6c_0e1d_e28a_fa8f),
        (
            "a number",
            key_of(vec![attribute("host.id", int(7))], source),
            0xd9a4_17e1_b12f_068c,
        ),
        ("a name given twice", key_of(twice, source), 0xf106_d4c3_e0f0_221c),
        (
            "listed",
            key_of(attributes(&pod), &listed(&["service.name", "region"])),
            0x45b0_0b69_5d26_115d,
        ),
        (
            "in a context",
            key_of(attributes(&pod), &in_context(&["region"])),
            0x1873_9905_c24d_227e,
        ),
    ];
    let written = |pick: fn(&(&str, u64, u64)) -> u64| {
        let lines = vectors
            .iter()
            .map(|vector| format!("{:#018x} {}", pick(vector), vector.0));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(written(|vector| vector.1), written(|vector| vector.2));
}

/// The encoding by hand, so that the vectors are not the only witness.
#[test]
fn the_canonical_encoding_is_what_is_hashed() {
    fn number(out: &mut Vec<u8>, number: usize) {
        out.extend_from_slice(&(number as u64).to_le_bytes());
    }
    fn blob(out: &mut Vec<u8>, text: &str) {
        number(out, text.len());
        out.extend_from_slice(text.as_bytes());
    }
    fn hashed(out: &[u8]) -> u64 {
        let mut key = [0; 8];
        let mut hasher = blake3::Hasher::new_derive_key(VERSION);
        hasher.update(out).finalize_xof().fill(&mut key);
        u64::from_le_bytes(key)
    }
    let mut out = vec![1]; // service and instance
    blob(&mut out, "service.namespace");
    out.push(0); // is not there
    blob(&mut out, "service.name");
    out.extend_from_slice(&[1, 2]); // is there, text
    blob(&mut out, "cart");
    blob(&mut out, "host.name");
    out.extend_from_slice(&[1, 2]);
    blob(&mut out, "a1");
    let cart = [("host.name", "a1"), ("service.name", "cart"), ("region", "eu")];
    assert_eq!(key(&cart), hashed(&out));

    let mut out = vec![2]; // listed names
    blob(&mut out, "region");
    out.extend_from_slice(&[1, 2]);
    blob(&mut out, "eu");
    blob(&mut out, "zone");
    out.push(0);
    let names = ["zone", "region"];
    assert_eq!(key_of(attributes(&cart), &listed(&names)), hashed(&out));
    assert_eq!(key_of(attributes(&cart), &in_context(&names)), hashed(&out));

    let mut out = vec![3]; // all attributes
    number(&mut out, 1);
    blob(&mut out, "region");
    out.push(2);
    blob(&mut out, "eu");
    assert_eq!(key(&[("region", "eu")]), hashed(&out));
}

#[test]
fn attributes_that_do_not_count_and_their_order_do_not_matter() {
    let counted = [
        ("service.name", "cart"),
        ("service.instance.id", "1"),
        ("service.namespace", "shop"),
    ];
    let first = key(&counted);
    let mut others = counted.to_vec();
    others.reverse();
    others.insert(1, ("process.pid", "77"));
    others.extend([("k8s.pod.uid", "u"), ("host.name", "h")]);
    assert_eq!(key(&others), first);
}

#[test]
fn each_attribute_that_counts_matters_with_its_type() {
    let base = || {
        attributes(&[
            ("service.namespace", "n"),
            ("service.name", "s"),
            ("host.name", "h"),
        ])
    };
    let mut keys = vec![key_of(base(), &KeySource::Source)];
    for place in 0..3 {
        for other in [text("x"), int(1), array(vec![text("n")])] {
            let mut changed = base();
            changed[place].value = Some(other);
            keys.push(key_of(changed, &KeySource::Source));
        }
        let mut without = base();
        without.remove(place);
        keys.push(key_of(without, &KeySource::Source));
    }
    // The same value under another name is another instance.
    for name in &INSTANCE_ATTRIBUTES[..4] {
        let mut renamed = base();
        renamed[2].key = (*name).to_owned();
        keys.push(key_of(renamed, &KeySource::Source));
    }
    let all = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), all);
}

#[test]
fn the_first_instance_attribute_that_has_a_value_counts() {
    let mut with = vec![("service.name", "s")];
    let mut later = None;
    // From the last to the first: each one that comes before outdoes those that follow.
    for name in INSTANCE_ATTRIBUTES.iter().rev() {
        with.push((name, "1"));
        let alone = key(&[("service.name", "s"), (name, "1")]);
        assert_eq!(key(&with), alone, "{name}");
        assert_ne!(Some(alone), later.replace(alone), "{name}");
    }
    let host = ("host.name", "h");
    for nothing in [None, Some(AnyValue { value: None }), Some(text(""))] {
        let mut attributes = attributes(&[host]);
        attributes.push(attribute("service.instance.id", nothing));
        assert_eq!(key_of(attributes, &KeySource::Source), key(&[host]));
    }
}

#[test]
fn a_resource_with_nothing_that_counts_is_known_by_all_it_has() {
    let listed = listed(&["region"]);
    let [a, b] = [[("a", "1"), ("b", "2")], [("a", "1"), ("b", "3")]];
    for source in [&KeySource::Source, &listed] {
        assert_ne!(key_of(attributes(&a), source), key_of(attributes(&b), source));
    }
    // One form for all resources of which nothing counts.
    assert_eq!(key_of(attributes(&a), &listed), key(&a));
    // In a context both have one identity, so both must have one owner.
    let source = in_context(&["region"]);
    assert_eq!(key_of(attributes(&a), &source), key_of(attributes(&b), &source));
}

#[test]
fn a_resource_that_is_absent_is_one_without_attributes() {
    let scopes = || vec![in_scope(None, vec![simple("m")])];
    let absent = request(vec![in_resource(None, scopes())]).encode_to_vec();
    assert_eq!(of_bytes(&absent, &KeySource::Source), key(&[]));
}

#[test]
fn what_cannot_be_read_safely_is_known_by_its_bytes() {
    let twice = |second: &str| {
        vec![
            attribute("service.name", text("a")),
            attribute("service.name", text(second)),
        ]
    };
    let deep = |leaf: &str| {
        let value = (0..17).fold(text(leaf), |inner, _| array(vec![inner]));
        vec![attribute("service.name", value)]
    };
    let many = |last: i64| {
        let mut values = vec![int(0); MAX_VALUES];
        values.push(int(last));
        vec![attribute("a", array(values))]
    };
    for (one, other) in [
        (twice("b"), twice("c")),
        (deep("b"), deep("c")),
        (many(1), many(2)),
    ] {
        let first = key_of(one.clone(), &KeySource::Source);
        assert_eq!(key_of(one, &KeySource::Source), first);
        assert_ne!(key_of(other, &KeySource::Source), first);
    }
    // A value that is no text, in an attribute that counts, and beside one that does.
    let name = len(1, attribute("service.name", text("a")).encode_to_vec());
    let with_no_text = |key: &str| {
        let attribute = [len(1, key), len(2, len(1, [0xff]))].concat();
        len(1, len(1, [name.clone(), len(1, attribute)].concat()))
    };
    let counts = with_no_text("host.name");
    assert_ne!(
        of_bytes(&counts, &KeySource::Source),
        key(&[("service.name", "a")])
    );
    let beside = with_no_text("other");
    assert_eq!(
        of_bytes(&beside, &KeySource::Source),
        key(&[("service.name", "a")])
    );
}

#[test]
fn a_resource_given_in_pieces_has_the_key_of_the_whole() {
    let [name, host] = [("service.name", "a"), ("host.name", "h")].map(|(name, held)| {
        let held = attribute(name, value(Value::StringValue(held.to_owned())));
        len(1, len(1, held.encode_to_vec()))
    });
    let pieces = len(1, [name, host].concat());
    assert_eq!(
        of_bytes(&pieces, &KeySource::Source),
        key(&[("service.name", "a"), ("host.name", "h")])
    );
}

#[test]
fn a_broken_resource_refuses_the_request() {
    // A tag that promises more than there is.
    let broken = len(1, [0x0a, 5, 1]);
    // A metric refers to it, so the walk leaves it to whoever parses it.
    let scopes = in_scope(None, vec![simple("m")]).encode_to_vec();
    let request = len(1, [broken, len(2, scopes)].concat());
    assert!(affinity_key(&request, &walk(&request), 0, &KeySource::Source).is_err());
}
