//! Rules about what never reaches the data plane's settings. The API server checks them too; here they hold
//! for objects that slipped by, such as those written before a rule was there.

use std::collections::BTreeMap;

use super::super::JevMetricsPolicySpec;
use super::MAX_NAME_LENGTH;
use crate::routing::{MAX_ATTRIBUTE_BYTES, MAX_KEY_ATTRIBUTES};

/// One message a broken rule.
pub(super) fn broken(name: &str, spec: &JevMetricsPolicySpec) -> Vec<String> {
    let mut broken = Vec::new();
    let mut must = |holds: bool, message: &str| {
        if !holds {
            broken.push(message.to_owned());
        }
    };
    must(
        is_name(name),
        "metadata.name: must have at most 36 characters of a-z 0-9 -, begin with a letter and end with a letter or digit",
    );
    must(
        spec.replicas.is_none_or(|replicas| (0..=500).contains(&replicas)),
        "spec.replicas: must be 0 to 500",
    );
    for (index, header) in spec.export.headers.iter().enumerate() {
        // The list is a map by name, and HTTP does not tell upper and lower case apart.
        let message = format!("spec.export.headers[{index}].name: must be an HTTP header name in lower case");
        must(
            !header.name.bytes().any(|byte| byte.is_ascii_uppercase()),
            &message,
        );
    }
    let service = spec.ingest.as_ref().and_then(|ingest| ingest.service.as_ref());
    must(
        keys(service.and_then(|service| service.annotations.as_ref())).all(|key| !is_ours(key)),
        "spec.ingest.service.annotations: must have no key of jevmetrics.io/",
    );
    if let Some(routing) = &spec.routing {
        let within =
            |number: Option<i32>, most: i32| number.is_none_or(|number| (1..=most).contains(&number));
        must(
            within(routing.settle_seconds, 300),
            "spec.routing.settleSeconds: must be 1 to 300",
        );
        must(
            within(routing.hold_seconds, 300),
            "spec.routing.holdSeconds: must be 1 to 300",
        );
        must(
            within(routing.minimum_members, 500),
            "spec.routing.minimumMembers: must be 1 to 500",
        );
        let are_names = |names: &Vec<String>| {
            let is_name = |name: &String| (1..=MAX_ATTRIBUTE_BYTES).contains(&name.len());
            (1..=MAX_KEY_ATTRIBUTES).contains(&names.len()) && names.iter().all(is_name)
        };
        must(
            routing.key_attributes.as_ref().is_none_or(are_names),
            "spec.routing.keyAttributes: must have 1 to 32 names of 1 to 256 bytes",
        );
    }
    if let Some(template) = &spec.template {
        let is_image = |image: &String| {
            (1..=1024).contains(&image.len()) && image.bytes().all(|byte| byte.is_ascii_graphic())
        };
        must(
            template.image.as_ref().is_none_or(is_image),
            "spec.template.image: must have 1 to 1024 characters of printable ASCII without spaces",
        );
        must(
            keys(template.labels.as_ref()).all(|key| !is_ours(key) && !key.starts_with("app.kubernetes.io/")),
            "spec.template.labels: must have no key of jevmetrics.io/ or app.kubernetes.io/",
        );
        must(
            keys(template.annotations.as_ref()).all(|key| !is_ours(key)),
            "spec.template.annotations: must have no key of jevmetrics.io/",
        );
    }
    broken
}

fn is_name(name: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.len() <= MAX_NAME_LENGTH
        && name.bytes().all(inside)
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-')
}

fn is_ours(key: &str) -> bool {
    key.contains("jevmetrics.io/")
}

fn keys(map: Option<&BTreeMap<String, String>>) -> impl Iterator<Item = &str> {
    map.into_iter().flatten().map(|(key, _)| key.as_str())
}
