#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn two_texts(yaml: &str) -> Result<(Option<String>, Option<String>), SettingsError> {
    read(yaml, |fields| {
        let first = fields.text("first");
        let second = fields.text("second");
        Ok((first?, second?))
    })
}

fn message(yaml: &str) -> String {
    two_texts(yaml).expect_err(yaml).to_string()
}

#[test]
fn all_violations_are_named_in_one_error() {
    assert_eq!(
        message("first: 1\nsecond: []\nthird: x\n"),
        "first: must be text: put it in quotes; second: must be text; \
         third: is not known here; known are first, second"
    );
}

#[test]
fn a_key_given_twice_is_refused() {
    assert_eq!(
        message("first: a\nfirst: b\n"),
        "first: must be given once, is given again"
    );
}

#[test]
fn null_and_an_empty_place_count_as_absent() {
    for yaml in [
        "",
        "~",
        "# only a comment\n",
        "first:\nsecond: null\n",
        "{first: ~}",
    ] {
        assert_eq!(two_texts(yaml), Ok((None, None)), "{yaml:?}");
    }
}

#[test]
fn text_stays_as_it_was_written() {
    let read = two_texts("first: \"1.10\"\nsecond: yes\n").unwrap();
    assert_eq!(read, (Some("1.10".to_owned()), Some("yes".to_owned())));
}

#[test]
fn a_top_level_that_is_no_mapping_is_refused() {
    for yaml in ["hunter2", "[hunter2]", "5"] {
        assert_eq!(message(yaml), "document: must be a mapping of fields");
    }
}

#[test]
fn broken_yaml_is_named_by_its_line() {
    let message = message("first: a\nsecond: [b\n");
    assert!(
        message.starts_with("not readable as YAML: ") && message.contains("line"),
        "{message}"
    );
}

#[test]
fn a_second_document_is_refused() {
    assert!(message("first: a\n---\nfirst: b\n").contains("more than one document"));
}

#[test]
fn an_alias_without_anchor_is_refused() {
    assert!(message("first: *hunter2\n").starts_with("not readable as YAML"));
}

#[test]
fn tags_and_odd_keys_are_refused_with_path_and_line_but_without_their_text() {
    for yaml in [
        "second: a\nfirst: !!int hunter2\n",
        "second: a\nfirst: !!null hunter2\n",
        "second: a\nfirst: !!bool hunter2\n",
        "second: a\nfirst: !hunter2 b\n",
        "second: a\nfirst: !hunter2 [b]\n",
        "second: a\nfirst: {[hunter2]: b}\n",
        "second: a\nfirst: {1: hunter2}\n",
    ] {
        let message = message(yaml);
        assert!(message.starts_with("first"), "{yaml}: {message}");
        assert!(
            message.contains("(line 2): must be plain YAML"),
            "{yaml}: {message}"
        );
        assert!(!message.contains("hunter2"), "{yaml}: {message}");
    }
}

#[test]
fn aliases_cannot_multiply_a_short_document() {
    let wide = format!(
        "first: &a [{}]\nsecond: [{}]\n",
        "x, ".repeat(1000),
        "*a, ".repeat(1000)
    );
    let long = format!(
        "first: &a {}\nsecond: [{}]\n",
        "x".repeat(100_000),
        "*a, ".repeat(1000)
    );
    let nested = "first: &a [*a, *a, *a, *a]\n".to_owned();
    for yaml in [wide, long] {
        assert!(message(&yaml).starts_with("holds too much, aliases written out"));
    }
    assert!(two_texts(&nested).is_err());
}

#[test]
fn a_document_over_a_mebibyte_is_refused_and_one_of_a_mebibyte_is_read() {
    let padded = |bytes: usize| format!("first: a\n#{}", "x".repeat(bytes - 10));
    assert!(two_texts(&padded(MAX_DOCUMENT_BYTES)).is_ok());
    assert_eq!(
        two_texts(&padded(MAX_DOCUMENT_BYTES + 1)),
        Err(SettingsError::TooLarge {
            bytes: MAX_DOCUMENT_BYTES + 1
        })
    );
}

#[test]
fn a_long_list_of_violations_is_cut() {
    let many = (0..15)
        .map(|number| format!("unknown{number}: x"))
        .collect::<Vec<_>>()
        .join("\n");
    let message = message(&many);
    assert!(
        message.contains("unknown9:") && !message.contains("unknown10:"),
        "{message}"
    );
    assert!(message.ends_with("; and 5 more"), "{message}");
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    for yaml in [
        "[".repeat(20_000),
        "first: ".to_owned() + &"{a: ".repeat(10_000),
        "- ".repeat(20_000),
    ] {
        assert!(two_texts(&yaml).is_err());
    }
}
