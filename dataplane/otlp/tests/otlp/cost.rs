//! Requests made to be expensive. Nothing here is timed: at a cost that grows with the square of the request,
//! each of these would run for hours.

use jevmetrics_otlp::identity::{ContextAttributes, Identities, IdentityMode, MAX_VALUES};
use jevmetrics_otlp::summary::Summaries;
use jevmetrics_otlp::{Checks, MAX_ENTRIES, Walk};

use crate::read::keys;
use crate::wire::{cat, int, len};

/// Everything that may be asked of every metric.
fn ask_everything(bytes: &[u8]) -> usize {
    let keys = keys();
    let mut walk = Walk::default();
    walk.read(bytes, &keys).unwrap();
    let mode = IdentityMode::Complete;
    let context = ContextAttributes::default();
    let mut identities = Identities::new(bytes, &walk, &mode);
    let mut summaries = Summaries::new(bytes, &walk, &context);
    let mut checks = Checks::new(bytes, &walk, &keys);
    for index in 0..walk.metrics().len() {
        let _ = identities.of(index).unwrap();
        checks.of(index);
        summaries.describe(index).unwrap();
        summaries.summarize(index).unwrap();
    }
    walk.metrics().len()
}

fn gauge() -> Vec<u8> {
    len(2, cat(&[len(1, "m"), len(5, "")]))
}

/// As many attributes as an identity may have, with long values: some megabytes.
fn large_message(attributes: u32) -> Vec<u8> {
    let values = (0..MAX_VALUES / 3).flat_map(|number| {
        let text = format!("{number:050}");
        len(attributes, cat(&[len(1, &text), len(2, len(1, &text))]))
    });
    values.collect()
}

#[test]
fn a_resource_given_a_hundred_thousand_times() {
    let again = len(1, len(1, len(1, "k"))).repeat(100_000);
    assert_eq!(ask_everything(&len(1, cat(&[again, len(2, gauge())]))), 1);
}

#[test]
fn very_many_resources_and_scopes_each_given_twice() {
    let scope_metrics = len(2, cat(&[len(1, ""), len(1, len(1, "s")), gauge()]));
    let resource_metrics = len(1, cat(&[len(1, ""), len(1, ""), scope_metrics]));
    let count = MAX_ENTRIES / 7;
    assert_eq!(ask_everything(&resource_metrics.repeat(count)), count);
}

#[test]
fn a_large_resource_with_very_many_metrics() {
    let metrics = gauge().repeat(100_000);
    let bytes = len(1, cat(&[len(1, large_message(1)), len(2, metrics)]));
    assert_eq!(ask_everything(&bytes), 100_000);
}

#[test]
fn a_large_resource_with_very_many_scopes() {
    let scopes = len(2, gauge()).repeat(100_000);
    let bytes = len(1, cat(&[len(1, large_message(1)), scopes]));
    assert_eq!(ask_everything(&bytes), 100_000);
}

#[test]
fn a_large_scope_with_very_many_metrics() {
    let bytes = len(
        1,
        len(2, cat(&[len(1, large_message(3)), gauge().repeat(100_000)])),
    );
    assert_eq!(ask_everything(&bytes), 100_000);
}

#[test]
fn a_resource_with_more_attributes_than_are_read() {
    let attributes = len(1, "").repeat(2_000_000);
    let bytes = len(1, cat(&[len(1, attributes), len(2, gauge().repeat(100_000))]));
    assert_eq!(ask_everything(&bytes), 100_000);
}

#[test]
fn a_metric_with_a_million_data_fields() {
    let data = cat(&[len(5, len(1, "")), len(7, int(2, 1))]).repeat(500_000);
    let bytes = len(1, len(2, len(2, cat(&[len(1, "m"), data]))));
    assert_eq!(ask_everything(&bytes), 1);
    let names = cat(&[len(1, "m"), len(2, "d")]).repeat(500_000);
    assert_eq!(ask_everything(&len(1, len(2, len(2, names)))), 1);
}

#[test]
fn a_value_that_changes_its_kind_a_million_times() {
    let value = cat(&[len(5, len(1, "")), len(6, len(1, ""))]).repeat(MAX_VALUES);
    let resource = len(1, cat(&[len(1, "k"), len(2, value)]));
    assert_eq!(
        ask_everything(&len(1, cat(&[len(1, resource), len(2, gauge())]))),
        1
    );
}

#[test]
fn a_point_with_a_million_attributes() {
    let attributes: Vec<u8> = (0..1_000_000)
        .flat_map(|number| len(7, len(1, format!("{number:07}"))))
        .collect();
    let metric = cat(&[len(1, "m"), len(5, len(1, attributes))]);
    assert_eq!(ask_everything(&len(1, len(2, len(2, metric)))), 1);
}
