#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn policy(yaml: &str) -> LivePolicy {
    LivePolicy::from_yaml(yaml).unwrap_or_else(|error| panic!("{yaml}: {error}"))
}

fn refusal(yaml: &str) -> String {
    LivePolicy::from_yaml(yaml).expect_err(yaml).to_string()
}

fn with(retention: &str) -> String {
    format!("policy: {{schema: 1, retention: {{{retention}}}}}\n")
}

#[test]
fn what_is_absent_has_its_default() {
    for yaml in [
        "policy: {schema: 1}",
        "policy: {schema: 1, mode: null, retention: null}",
        "policy: {schema: 1, retention: {keepThresholdPercent: ~, protectedMetrics: ~}}",
    ] {
        let read = policy(yaml);
        assert_eq!(read.mode(), Mode::Annotate);
        assert_eq!(
            (read.keep_threshold_percent(), read.drop_threshold_percent()),
            (70, 30)
        );
        assert_eq!(read.protected_metrics(), ["up"]);
        assert_eq!(read.protected_prefixes(), ["otelcol_", "scrape_", "target_"]);
    }
}

#[test]
fn the_reference_page_shows_every_field_at_its_default() {
    let page = include_str!("../../../docs/reference/settings.md");
    let block = page
        .split("```yaml\n")
        .nth(2)
        .and_then(|rest| rest.split("```").next())
        .expect("a block");
    assert_eq!(policy(block), policy("policy: {schema: 1}"));
    for name in [
        "mode",
        "keepThresholdPercent",
        "dropThresholdPercent",
        "protectedMetrics",
        "protectedPrefixes",
    ] {
        assert!(
            block.contains(&format!("{name}:")),
            "{name} is missing in the example"
        );
        assert!(
            page.contains(&format!("{name}` |")),
            "{name} is missing in the table"
        );
    }
}

#[test]
fn the_text_of_an_object_is_what_stands_below_policy_in_a_file() {
    let text = "schema: 1\nmode: Reduce\nretention: {keepThresholdPercent: 60}\n";
    let file = "policy:\n  schema: 1\n  mode: Reduce\n  retention: {keepThresholdPercent: 60}\n";
    assert_eq!(LivePolicy::from_policy_yaml(text).unwrap(), policy(file));
    for (text, message) in [
        ("", "policy.schema: must be given"),
        ("schema: 2", "policy.schema: must be 1, is 2"),
        ("[hunter2]", "policy: must be a mapping of fields"),
        (
            "schema: 1\nretention: {x: 1}",
            "policy.retention.x: is not known here",
        ),
        ("!x {schema: 1}", "policy (line "),
        ("schema: !x 1", "policy.schema (line "),
        ("- !x 1", "policy[0] (line "),
        ("policy: {schema: 1}", "policy.schema: must be given"),
        ("schema: [", "not readable as YAML"),
    ] {
        let error = LivePolicy::from_policy_yaml(text).expect_err(text).to_string();
        assert!(error.starts_with(message), "{text}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn an_empty_list_protects_nothing() {
    let read = policy(&with("protectedMetrics: [], protectedPrefixes: []"));
    assert!(read.protected_metrics().is_empty() && read.protected_prefixes().is_empty());
}

#[test]
fn thresholds_are_percents_and_drop_is_never_above_keep() {
    for (keep, drop) in [(100, 0), (0, 0), (100, 100), (50, 50)] {
        let read = policy(&with(&format!(
            "keepThresholdPercent: {keep}, dropThresholdPercent: {drop}"
        )));
        assert_eq!(
            (read.keep_threshold_percent(), read.drop_threshold_percent()),
            (keep, drop)
        );
    }
    for (fields, message) in [
        (
            "keepThresholdPercent: 101",
            "policy.retention.keepThresholdPercent: must be a whole number from 0 to 100, is 101",
        ),
        (
            "dropThresholdPercent: -1",
            "policy.retention.dropThresholdPercent: must be a whole number from 0 to 100, is -1",
        ),
        (
            "keepThresholdPercent: 0.7",
            "policy.retention.keepThresholdPercent: must be a whole number from 0 to 100",
        ),
        (
            "keepThresholdPercent: 50, dropThresholdPercent: 51",
            "policy.retention.dropThresholdPercent: must be at most keepThresholdPercent (50), is 51",
        ),
        (
            "keepThresholdPercent: 29",
            "policy.retention.dropThresholdPercent: must be at most keepThresholdPercent (29), is 30",
        ),
    ] {
        assert_eq!(refusal(&with(fields)), message);
    }
}

#[test]
fn lists_are_sorted_and_duplicates_folded() {
    let read = policy(&with("protectedMetrics: [b, a, b]"));
    assert_eq!(read.protected_metrics(), ["a", "b"]);
    assert_eq!(read, policy(&with("protectedMetrics: [a, b]")));
}

#[test]
fn names_have_1_to_255_bytes() {
    for list in ["protectedMetrics", "protectedPrefixes"] {
        let longest = "x".repeat(255);
        policy(&with(&format!("{list}: [{longest}]")));
        assert_eq!(
            refusal(&with(&format!("{list}: [a, {longest}x]"))),
            format!("policy.retention.{list}[1]: must have 1 to 255 bytes, has 256")
        );
        assert_eq!(
            refusal(&with(&format!("{list}: [a, \"\"]"))),
            format!("policy.retention.{list}[1]: must have 1 to 255 bytes, has 0")
        );
    }
}

#[test]
fn lists_are_bounded() {
    for (list, most) in [("protectedMetrics", 10_000), ("protectedPrefixes", 1_000)] {
        let of = |count: usize| with(&format!("{list}: [{}]", vec!["n"; count].join(",")));
        policy(&of(most));
        assert_eq!(
            refusal(&of(most + 1)),
            format!(
                "policy.retention.{list}: must have at most {most} items, has {}",
                most + 1
            )
        );
    }
}

#[test]
fn both_lists_at_their_most_fit_into_one_document() {
    let names = |count: usize| {
        (0..count)
            .map(|i| format!("name_{i}"))
            .collect::<Vec<_>>()
            .join(",")
    };
    let read = policy(&with(&format!(
        "protectedMetrics: [{}], protectedPrefixes: [{}]",
        names(10_000),
        names(1_000)
    )));
    assert_eq!(
        (read.protected_metrics().len(), read.protected_prefixes().len()),
        (10_000, 1_000)
    );
}

#[test]
fn misspelt_and_later_keys_are_refused() {
    for (yaml, message) in [
        (
            "policy: {schema: 1}\nroutes: {}\n",
            "routes: is not known here; known are routing, policy",
        ),
        (
            "policy: {schema: 1, modus: Reduce}\n",
            "policy.modus: is not known here; known are schema, mode, retention, coordination",
        ),
        ("policy: {schema: 2}\n", "policy.schema: must be 1, is 2"),
        ("", "policy.schema: must be given"),
        (
            "policy: {schema: 1, mode: reduce}\n",
            "policy.mode: must be Annotate or Reduce (upper and lower case matter)",
        ),
        (
            "policy: {schema: 1}\npolicy: {schema: 1}\n",
            "policy: must be given once, is given again",
        ),
    ] {
        assert_eq!(refusal(yaml), message);
    }
    assert!(
        refusal(&with("protectedMetric: [a]"))
            .starts_with("policy.retention.protectedMetric: is not known here")
    );
}
