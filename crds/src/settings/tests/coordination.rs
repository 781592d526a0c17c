//! Where Redis is, and budgets that fit.

use super::*;
use crate::live::LivePolicy;

const PLACE: &str = "host: redis, namespace: ns/policy/1";

fn coordination(fields: &str) -> Coordination {
    settings(&with("coordination", fields))
        .coordination()
        .unwrap()
        .clone()
}

#[test]
fn without_the_section_nothing_is_shared() {
    assert!(settings(MINIMAL).coordination().is_none());
}

#[test]
fn a_host_and_a_namespace_are_enough() {
    let read = coordination(PLACE);
    assert_eq!((read.host(), read.port(), read.database()), ("redis", 6379, 0));
    assert_eq!((read.user(), read.password(), read.tls()), (None, None, None));
    assert_eq!(read.timeout(), Duration::from_secs(1));
    assert_eq!(read.namespace(), "ns/policy/1");
}

#[test]
fn tls_without_files_trusts_the_system() {
    let read = coordination(&format!("{PLACE}, tls: {{}}"));
    assert_eq!(read.tls(), Some(&ClientTls::default()));
}

#[test]
fn what_breaks_its_rule_is_named() {
    for (fields, path) in [
        ("host: redis", "coordination.namespace"),
        ("namespace: n", "coordination.host"),
        ("host: \"redis:6379\", namespace: n", "coordination.host"),
        ("host: \"redis://redis\", namespace: n", "coordination.host"),
        ("host: redis, namespace: \"a b\"", "coordination.namespace"),
        ("host: redis, namespace: \"a}\"", "coordination.namespace"),
        ("host: redis, namespace: n, port: 0", "coordination.port"),
        ("host: redis, namespace: n, user: \"a b\"", "coordination.user"),
        ("host: redis, namespace: n, user: jm", "coordination.password"),
        (
            "host: redis, namespace: n, timeoutMilliseconds: 9",
            "coordination.timeoutMilliseconds",
        ),
    ] {
        let message = refusal(&with("coordination", fields));
        assert!(
            message.starts_with(&format!("{path}: must ")),
            "{fields}: {message}"
        );
    }
    for host in ["10.0.0.1", "\"fd00::1\"", "Redis.ns.svc"] {
        coordination(&format!("host: {host}, namespace: n"));
    }
}

#[test]
fn a_lease_outlasts_a_question_and_two_timeouts_of_redis() {
    let read = coordination(PLACE);
    let budget = |seconds: u32| {
        let yaml = format!("policy: {{schema: 1, coordination: {{leaseTTLSeconds: {seconds}}}}}");
        *LivePolicy::from_yaml(&yaml).unwrap().budget()
    };
    let question = Duration::from_secs(3);
    assert_eq!(read.refuse_budget(&budget(6), question), None);
    let refused = read.refuse_budget(&budget(5), question).unwrap();
    assert!(
        refused.contains("5000 ms") && refused.ends_with("is 5 s"),
        "{refused}"
    );
}
