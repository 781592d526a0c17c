//! Input whose structure cannot be read is refused, naming the place; what we do not read is not judged.

use jevmetrics_otlp::{Fault, Keys, MAX_ENTRIES, Malformed, Place, Walk};
use prost::Message;

use crate::build::{Request, full};
use crate::read::{all, keys, refusal};
use crate::wire::{cat, key, len, unknown};

const PLACES: [Place; 8] = [
    Place::Request,
    Place::ResourceMetrics,
    Place::Resource,
    Place::ScopeMetrics,
    Place::Scope,
    Place::Metric,
    Place::Data,
    Place::Attribute,
];

/// Fields that lead to a place, outermost first; the resource's for attributes.
fn path(place: Place) -> &'static [u32] {
    match place {
        Place::Request => &[],
        Place::ResourceMetrics => &[1],
        Place::Resource => &[1, 1],
        Place::ScopeMetrics => &[1, 2],
        Place::Scope => &[1, 2, 1],
        Place::Metric => &[1, 2, 2],
        Place::Data => &[1, 2, 2, 5],
        Place::Attribute => &[1, 1, 1],
    }
}

/// A request with `content` at a place, at its very end.
fn at(place: Place, content: &[u8]) -> Vec<u8> {
    path(place)
        .iter()
        .rev()
        .fold(content.to_vec(), |inner, field| len(*field, inner))
}

/// A field of each message that must be length-delimited.
fn known_field(place: Place) -> u32 {
    match place {
        Place::ResourceMetrics | Place::ScopeMetrics => 2,
        Place::Metric => 5,
        _ => 1,
    }
}

#[test]
fn every_fault_is_found_at_every_place_with_its_offset() {
    for place in PLACES {
        let groups = 101 - path(place).len();
        let faults = [
            (Fault::Truncated, cat(&[key(100, 2), vec![5, b'x']]), 3),
            (Fault::Truncated, cat(&[key(100, 1), vec![0; 7]]), 2),
            (Fault::Truncated, cat(&[key(100, 5), vec![0; 3]]), 2),
            (Fault::Truncated, cat(&[key(100, 0), vec![0x80]]), 2),
            (Fault::Truncated, cat(&[key(100, 2), vec![0xff; 9], vec![1]]), 12),
            (Fault::VarintTooLong, cat(&[key(100, 0), vec![0x80; 11]]), 2),
            (
                Fault::VarintTooLong,
                cat(&[key(100, 0), vec![0xff; 9], vec![2]]),
                2,
            ),
            (Fault::TagTooLarge, vec![0x82, 0x80, 0x80, 0x80, 0x10, 0], 5),
            (Fault::UnknownWireType, vec![0x0e], 1),
            (Fault::UnknownWireType, vec![0x0f], 1),
            (Fault::FieldNumberZero, vec![0x00, 0x00], 1),
            (Fault::GroupEndMismatch, key(100, 4), 2),
            (Fault::GroupEndMismatch, cat(&[key(100, 3), key(101, 4)]), 4),
            (Fault::Truncated, key(100, 3), 2),
            (
                Fault::NestedTooDeep,
                cat(&[key(100, 3).repeat(groups), key(100, 4).repeat(groups)]),
                2 * groups,
            ),
        ];
        let known = known_field(place);
        let wrong = (
            Fault::WrongWireType { field: known },
            cat(&[key(known, 0), vec![1]]),
            1,
        );
        for (fault, content, offset) in faults.into_iter().chain([wrong]) {
            let bytes = at(place, &content);
            let expected = Malformed {
                place,
                offset: bytes.len() - content.len() + offset,
                fault,
            };
            assert_eq!(refusal(&bytes), Some(expected), "{content:x?}");
            assert!(
                Request::decode(&bytes[..]).is_err(),
                "prost refuses it too: {expected}"
            );
            if matches!(place, Place::Resource | Place::Attribute) {
                // The same in a resource that metrics refer to: found when their identity is read.
                let resource = path(place)[1..]
                    .iter()
                    .rev()
                    .fold(content, |inner, field| len(*field, inner));
                let metrics = len(2, len(2, cat(&[len(1, "m"), len(5, "")])));
                let found = refusal(&len(1, cat(&[metrics, resource])));
                assert_eq!(
                    found.map(|found| (found.place, found.fault)),
                    Some((place, fault))
                );
            }
        }
    }
}

#[test]
fn groups_as_deep_as_decoders_read_are_read() {
    for place in PLACES {
        let groups = 100 - path(place).len();
        let bytes = at(
            place,
            &cat(&[key(100, 3).repeat(groups), key(100, 4).repeat(groups)]),
        );
        assert_eq!(refusal(&bytes), None, "{place}");
        assert!(Request::decode(&bytes[..]).is_ok());
    }
}

#[test]
fn values_nested_beyond_what_decoders_read_are_refused_before_the_stack_is_at_stake() {
    let nested = |levels: usize| (0..levels).fold(len(1, "x"), |inner, _| len(5, len(1, inner)));
    let request = |levels: usize| {
        let resource = len(1, len(1, cat(&[len(1, "k"), len(2, nested(levels))])));
        len(
            1,
            cat(&[resource, len(2, len(2, cat(&[len(1, "m"), len(5, "")])))]),
        )
    };
    for levels in 1..60 {
        let bytes = request(levels);
        assert_eq!(
            refusal(&bytes).is_some(),
            Request::decode(&bytes[..]).is_err(),
            "{levels} levels"
        );
    }
    let found = refusal(&request(50_000)).expect("refused");
    assert_eq!(
        (found.place, found.fault),
        (Place::Attribute, Fault::NestedTooDeep)
    );
}

#[test]
fn a_message_names_place_offset_and_cause_and_echoes_nothing() {
    let names = [
        "the request",
        "resource_metrics",
        "resource_metrics.resource",
        "resource_metrics.scope_metrics",
        "resource_metrics.scope_metrics.scope",
        "resource_metrics.scope_metrics.metrics",
        "resource_metrics.scope_metrics.metrics.data",
        "an attribute of a resource or scope",
    ];
    for (place, name) in PLACES.into_iter().zip(names) {
        let content = cat(&[unknown(), key(100, 2), vec![20], b"secret".to_vec()]);
        let bytes = at(place, &content);
        let message = refusal(&bytes).unwrap().to_string();
        let offset = bytes.len() - b"secret".len();
        assert_eq!(
            message,
            format!("malformed OTLP in {name} at byte {offset}: the data end before the field does")
        );
    }
    let wrong = refusal(&at(Place::Metric, &[0x28, 0x01])).unwrap().to_string();
    assert!(
        wrong.ends_with("field 5 has a wire type that it must not have"),
        "{wrong}"
    );
}

#[test]
fn every_truncation_of_a_request_is_refused_or_read_as_prost_reads_it() {
    let bytes = full().encode_to_vec();
    for end in 0..bytes.len() {
        let cut = &bytes[..end];
        assert_eq!(
            refusal(cut).is_some(),
            Request::decode(cut).is_err(),
            "cut at {end}"
        );
    }
}

#[test]
fn what_lies_in_data_points_metadata_and_entities_is_not_read() {
    let broken = b"\x0a\xff\xff\xff\xff\x0f broken";
    let metric = cat(&[len(1, "m"), len(5, len(1, broken)), len(12, broken)]);
    let bytes = len(1, cat(&[len(1, len(3, broken)), len(2, len(2, metric))]));
    assert_eq!(refusal(&bytes), None);
    assert_eq!(all(&bytes)[0].1, 1);
    assert!(
        Request::decode(&bytes[..]).is_err(),
        "downstream may judge otherwise"
    );
}

#[test]
fn nothing_at_all_is_a_request_without_metrics() {
    assert_eq!(refusal(b""), None);
    assert!(all(&unknown()).is_empty());
}

#[test]
fn requests_with_more_entries_than_memory_is_meant_for_are_refused() {
    let read = |bytes: &[u8]| {
        let mut walk = Walk::default();
        let result = walk.read(bytes, &keys());
        result.map(|()| walk.entries())
    };
    let metrics = |count: usize| len(1, len(2, len(2, "").repeat(count)));
    assert_eq!(read(&metrics(MAX_ENTRIES - 2)), Ok(MAX_ENTRIES));
    let malformed = read(&metrics(MAX_ENTRIES - 1)).unwrap_err();
    assert_eq!(
        (malformed.place, malformed.fault),
        (Place::ScopeMetrics, Fault::TooManyEntries)
    );
    assert!(malformed.to_string().contains("524288"), "{malformed}");
    let entries: [(Place, Vec<u8>); 4] = [
        (Place::Request, len(1, "").repeat(MAX_ENTRIES + 1)),
        (Place::ResourceMetrics, len(1, len(2, "").repeat(MAX_ENTRIES))),
        (Place::ResourceMetrics, len(1, len(1, "").repeat(MAX_ENTRIES))),
        (
            Place::ScopeMetrics,
            len(1, len(2, len(1, "").repeat(MAX_ENTRIES))),
        ),
    ];
    for (place, bytes) in entries {
        let malformed = read(&bytes).unwrap_err();
        assert_eq!((malformed.place, malformed.fault), (place, Fault::TooManyEntries));
    }
}

#[test]
#[cfg(target_pointer_width = "64")]
fn a_request_beyond_four_gibibytes_is_refused_before_it_is_read() {
    // Zeroed memory that is never touched is never there.
    let bytes = vec![0_u8; u32::MAX as usize + 1];
    let malformed = Walk::default().read(&bytes, &Keys::new([0; 6])).unwrap_err();
    let expected = Malformed {
        place: Place::Request,
        offset: 0,
        fault: Fault::RequestTooLarge,
    };
    assert_eq!(malformed, expected);
}
