//! Identities of random attributes and requests.

use std::collections::BTreeMap;

use jevmetrics_otlp::Checks;
use jevmetrics_otlp::identity::{Identities, IdentityMode, identify};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use proptest::prelude::*;
use prost::Message;

use crate::build::{
    array, attribute, gauge, in_resource, in_scope, int, map, metric, number, request, resource, scope,
    simple, text, value,
};
use crate::identity_properties::with_value;
use crate::read::{complete, keys, walk};

fn any_value() -> impl Strategy<Value = AnyValue> {
    let leaf = prop_oneof![
        "[a-c]{0,2}".prop_map(|string| text(&string)),
        any::<bool>().prop_map(|bool| value(Value::BoolValue(bool))),
        (-1..2_i64).prop_map(int),
        prop::collection::vec(any::<u8>(), 0..3).prop_map(|bytes| value(Value::BytesValue(bytes))),
        Just(AnyValue { value: None }),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(array),
            prop::collection::btree_map("[a-d]{1,2}", inner, 0..4).prop_map(|pairs| map(listed(pairs))),
        ]
    })
}

fn listed(pairs: BTreeMap<String, AnyValue>) -> Vec<KeyValue> {
    pairs
        .into_iter()
        .map(|(key, value)| attribute(&key, value))
        .collect()
}

fn reversed(mut attributes: Vec<KeyValue>) -> Vec<KeyValue> {
    attributes.reverse();
    for attribute in &mut attributes {
        if let Some(AnyValue {
            value: Some(Value::KvlistValue(list)),
        }) = &mut attribute.value
        {
            list.values = reversed(std::mem::take(&mut list.values));
        }
    }
    attributes
}

proptest! {
    #[test]
    fn the_order_of_attributes_does_not_count_at_any_depth(
        pairs in prop::collection::btree_map("[a-d]{1,2}", any_value(), 0..6),
        rotation in 0..6_usize,
    ) {
        let make = |attributes: Vec<KeyValue>| {
            let mut scope = scope("s");
            scope.attributes = attributes.clone();
            request(vec![in_resource(resource(attributes), vec![in_scope(scope, vec![simple("m")])])])
        };
        let sorted = listed(pairs);
        let mut rotated = reversed(sorted.clone());
        let middle = rotation.min(rotated.len());
        rotated.rotate_left(middle);
        prop_assert_eq!(complete(&make(sorted)), complete(&make(rotated)));
    }

    #[test]
    fn the_order_of_elements_of_an_array_counts(first in any_value(), second in any_value()) {
        let is_same = first == second;
        let there = complete(&with_value(Some(array(vec![first.clone(), second.clone()]))));
        let back = complete(&with_value(Some(array(vec![second, first]))));
        prop_assert_eq!(there == back, is_same);
    }

    /// What metrics share is read once for a request: that must not mix up parents.
    #[test]
    fn identities_read_together_in_any_order_are_those_read_alone(
        shape in prop::collection::vec(prop::collection::vec((0..3_usize, 0..3_usize), 0..4), 1..5),
        order in prop::collection::vec(any::<prop::sample::Index>(), 1..40),
    ) {
        let resources = shape.iter().enumerate().map(|(number, scopes)| {
            let scopes = scopes.iter().map(|&(name, metrics)| {
                let metrics = (0..metrics).map(|name| {
                    metric(["", "a", "b"][name], gauge(vec![number_of(name)]))
                });
                in_scope(scope(["x", "y", "z"][name]), metrics.collect())
            });
            let value = if number % 3 == 2 { None } else { Some(int(number as i64 % 2)) };
            in_resource(value.map(|value| resource(vec![attribute("r", value)])), scopes.collect())
        });
        let bytes = request(resources.collect()).encode_to_vec();
        let walk = walk(&bytes);
        prop_assume!(!walk.metrics().is_empty());
        let keys = keys();
        let mut together = Identities::new(&bytes, &walk, &IdentityMode::Complete);
        let mut checks = Checks::new(&bytes, &walk, &keys);
        for index in order {
            let index = index.index(walk.metrics().len());
            let alone = identify(&bytes, &walk, index, &IdentityMode::Complete);
            prop_assert_eq!(together.of(index), alone);
            prop_assert_eq!(checks.of(index), Checks::new(&bytes, &walk, &keys).of(index));
        }
    }
}

fn number_of(value: usize) -> opentelemetry_proto::tonic::metrics::v1::NumberDataPoint {
    number(value as f64, &[])
}
