#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;
use std::time::Duration;

use super::*;

mod addresses;
mod coordination;
mod live;
mod secrets;
mod tls;

const MINIMAL: &str = "schema: 1\nlive: {file: /live.yaml}\nexport: {endpoint: \"http://sink:4317\"}\n";

fn settings(yaml: &str) -> DataPlaneSettings {
    DataPlaneSettings::from_yaml(yaml).unwrap_or_else(|error| panic!("{yaml}: {error}"))
}

fn refusal(yaml: &str) -> String {
    DataPlaneSettings::from_yaml(yaml).expect_err(yaml).to_string()
}

/// Minimal settings with `fields` in `section`.
fn with(section: &str, fields: &str) -> String {
    match section {
        "" => format!("{MINIMAL}{fields}\n"),
        "export" => MINIMAL.replace("4317\"}", &format!("4317\", {fields}}}")),
        _ => format!("{MINIMAL}{section}: {{{fields}}}\n"),
    }
}

fn endpoint(protocol: &str, url: &str) -> String {
    format!("schema: 1\nlive: {{file: /l}}\nexport: {{protocol: {protocol}, endpoint: \"{url}\"}}\n")
}

#[test]
fn minimal_settings_have_the_defaults() {
    let read = settings(MINIMAL);
    assert_eq!(read.revision(), "1");
    assert_eq!(
        read.listen().grpc(),
        "0.0.0.0:4317".parse::<SocketAddr>().unwrap()
    );
    assert_eq!(
        read.listen().http(),
        "0.0.0.0:4318".parse::<SocketAddr>().unwrap()
    );
    assert_eq!(
        read.listen().metrics(),
        "0.0.0.0:9464".parse::<SocketAddr>().unwrap()
    );
    assert_eq!(
        read.listen().admin(),
        "127.0.0.1:9465".parse::<SocketAddr>().unwrap()
    );
    assert_eq!(
        read.listen().peer(),
        "0.0.0.0:4319".parse::<SocketAddr>().unwrap()
    );
    assert_eq!(read.peer().tls(), None);
    assert_eq!(read.live(), &LiveSource::File("/live.yaml".into()));
    assert_eq!(read.ingest().max_request_bytes(), 16_777_216);
    assert_eq!(read.ingest().max_unpacked_bytes(), 33_554_432);
    assert_eq!(read.ingest().max_connections(), 128);
    assert_eq!(read.ingest().connection_age(), Duration::from_mins(5));
    assert_eq!(read.export().protocol(), Protocol::Grpc);
    assert_eq!(read.export().compression(), Compression::None);
    assert_eq!(read.export().timeout(), Duration::from_secs(8));
    assert_eq!(read.export().headers(), []);
    assert_eq!(read.inference().base_url(), "https://api.typesafe.ai");
    assert_eq!(read.inference().model(), "jev-latest");
    assert_eq!(read.inference().api_key(), None);
    assert_eq!(read.inference().identity(), Identity::Complete);
    assert_eq!(read.inference().timeout(), Duration::from_secs(3));
    assert_eq!(read.inference().workers(), 2);
    assert_eq!(read.inference().queue_size(), 256);
    assert_eq!(read.inference().cache_size(), 10_000);
    assert_eq!(read.inference().score_ttl(), Duration::from_mins(15));
    assert_eq!(read.inference().requests_per_second(), 10);
    assert_eq!(read.inference().burst(), 1);
    assert_eq!(
        read.inference().context_attributes(),
        [
            "service.name",
            "service.namespace",
            "deployment.environment.name",
            "cloud.region",
            "k8s.namespace.name"
        ]
    );
}

#[test]
fn the_reference_page_shows_every_field_at_its_default() {
    let page = include_str!("../../../../docs/reference/settings.md");
    let block = page
        .split("```yaml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("a block");
    let same = "schema: 1\nlive: {file: /etc/jevmetrics/live.yaml}\n\
                export: {endpoint: \"http://collector:4317\"}\n\
                inference: {apiKey: {file: /etc/jevmetrics/jev-api-key}}\n";
    assert_eq!(settings(block), settings(same));
    for name in [
        "schema",
        "revision",
        "listen",
        "grpc",
        "http",
        "metrics",
        "peer",
        "admin",
        "live",
        "ingest",
        "maxRequestBytes",
        "maxUnpackedBytes",
        "maxConnections",
        "connectionAgeSeconds",
        "export",
        "endpoint",
        "protocol",
        "compression",
        "timeoutMilliseconds",
        "headers",
        "inference",
        "baseURL",
        "model",
        "apiKey",
        "identity",
        "workers",
        "queueSize",
        "cacheSize",
        "scoreTTLSeconds",
        "requestsPerSecondPerReplica",
        "burst",
        "contextAttributes",
    ] {
        assert!(
            block.contains(&format!("{name}:")),
            "{name} is missing in the example"
        );
        assert!(
            page.contains(&format!("{name}` |")),
            "{name} is missing in the tables"
        );
    }
}

#[test]
fn absent_null_and_empty_sections_mean_their_defaults() {
    for section in ["listen", "ingest", "inference"] {
        for empty in ["", " null", " ~", " {}"] {
            let yaml = format!("{MINIMAL}{section}:{empty}\n");
            assert_eq!(settings(&yaml), settings(MINIMAL), "{yaml}");
        }
    }
}

#[test]
fn an_empty_document_names_all_that_is_required() {
    assert_eq!(
        refusal(""),
        "schema: must be given; live.file: must be given, or else live.object; export.endpoint: must be given"
    );
}

#[test]
fn integers_are_accepted_at_their_bounds_and_refused_beyond() {
    for (section, field, lowest, highest) in [
        ("ingest", "maxRequestBytes", 1024, 33_554_432_i64),
        ("ingest", "maxUnpackedBytes", 16_777_216, 1_073_741_824),
        ("ingest", "maxConnections", 1, 65_536),
        ("ingest", "connectionAgeSeconds", 1, 86_400),
        ("export", "timeoutMilliseconds", 1, 600_000),
        ("inference", "timeoutMilliseconds", 1, 600_000),
        ("inference", "workers", 1, 64),
        ("inference", "queueSize", 1, 65_536),
        ("inference", "cacheSize", 1, 4_000_000),
        ("inference", "scoreTTLSeconds", 10, 86_400),
        ("inference", "requestsPerSecondPerReplica", 1, 10_000),
        ("inference", "burst", 1, 10_000),
    ] {
        for accepted in [lowest, highest] {
            settings(&with(section, &format!("{field}: {accepted}")));
        }
        for refused in [lowest - 1, highest + 1, -1, i64::MAX] {
            let message = refusal(&with(section, &format!("{field}: {refused}")));
            let place = if field.starts_with("max") {
                format!("{section}.max")
            } else {
                format!("{section}.{field}: ")
            };
            assert!(message.starts_with(&place), "{field} {refused}: {message}");
            assert!(message.contains("must be "), "{field} {refused}: {message}");
        }
        for odd in [
            "1.5",
            "1e3",
            "\"5\"",
            "five",
            "true",
            "[5]",
            "{a: 5}",
            ".inf",
            "99999999999999999999999999999999999999999",
        ] {
            let message = refusal(&with(section, &format!("{field}: {odd}")));
            assert!(
                message.starts_with(&format!("{section}.{field}: must be a whole number from")),
                "{odd}: {message}"
            );
        }
    }
}

#[test]
fn the_largest_request_is_accepted_with_room_to_unpack_it() {
    let read = settings(&with(
        "ingest",
        "maxRequestBytes: 268435456, maxUnpackedBytes: 268435456",
    ));
    assert_eq!(read.ingest().max_request_bytes(), 268_435_456);
    assert_eq!(
        refusal(&with(
            "ingest",
            "maxRequestBytes: 268435457, maxUnpackedBytes: 1073741824"
        )),
        "ingest.maxRequestBytes: must be a whole number from 1024 to 268435456, is 268435457"
    );
    assert_eq!(
        refusal(&with("ingest", "maxRequestBytes: 33554433")),
        "ingest.maxUnpackedBytes: must be at least maxRequestBytes (33554433), is 33554432"
    );
}

#[test]
fn only_schema_1_is_read() {
    for schema in ["0", "2", "-1"] {
        let yaml = MINIMAL.replace("schema: 1", &format!("schema: {schema}"));
        assert_eq!(refusal(&yaml), format!("schema: must be 1, is {schema}"));
    }
    assert_eq!(
        refusal(&MINIMAL.replace("schema: 1", "schema: \"1\"")),
        "schema: must be 1, is text"
    );
}

#[test]
fn a_revision_is_a_label_value() {
    for accepted in ["1", "a", "2026.01_x-y", &"r".repeat(63)] {
        assert_eq!(
            settings(&with("", &format!("revision: \"{accepted}\""))).revision(),
            accepted
        );
    }
    for refused in ["", "-a", "a-", ".", "a b", "ä", &"r".repeat(64)] {
        let message = refusal(&with("", &format!("revision: \"{refused}\"")));
        assert!(
            message.starts_with("revision: must have 1 to 63"),
            "{refused}: {message}"
        );
    }
    assert_eq!(
        refusal(&with("", "revision: 1.10")),
        "revision: must be text: put it in quotes"
    );
}

#[test]
fn misspelt_fields_are_refused_at_every_level() {
    for (yaml, path) in [
        (with("", "revisoin: \"1\""), "revisoin"),
        (with("listen", "gprc: \"0.0.0.0:1\""), "listen.gprc"),
        (MINIMAL.replace("file: ", "file: /x, fil: "), "live.fil"),
        (with("ingest", "maxrequestbytes: 5"), "ingest.maxrequestbytes"),
        (with("export", "timeout: 5"), "export.timeout"),
        (
            with("export", "headers: [{name: a, value: {env: A}, kind: b}]"),
            "export.headers[0].kind",
        ),
        (with("inference", "base_url: x"), "inference.base_url"),
    ] {
        let message = refusal(&yaml);
        assert!(
            message.starts_with(&format!("{path}: is not known here; known are ")),
            "{message}"
        );
    }
}

#[test]
fn sections_and_lists_of_the_wrong_kind_are_refused() {
    assert_eq!(
        refusal(&with("", "ingest: 5")),
        "ingest: must be a mapping of fields"
    );
    assert_eq!(
        refusal(&with("", "inference: [a]")),
        "inference: must be a mapping of fields"
    );
    assert_eq!(
        refusal(&with("export", "headers: {a: b}")),
        "export.headers: must be a list"
    );
    assert_eq!(
        refusal(&with("export", "headers: [a]")),
        "export.headers[0]: must be a mapping of fields"
    );
}

#[test]
fn context_attributes_are_unique_names_of_1_to_256_bytes() {
    let longest = "a".repeat(256);
    let read = settings(&with("inference", &format!("contextAttributes: [{longest}]")));
    assert_eq!(read.inference().context_attributes(), [longest.as_str()]);
    for (refused, rule) in [
        (
            format!("[a, {longest}a]"),
            "inference.contextAttributes[1]: must have 1 to 256 bytes, has 257",
        ),
        (
            "[a, \"\"]".to_owned(),
            "inference.contextAttributes[1]: must have 1 to 256 bytes, has 0",
        ),
        (
            "[a, b, a]".to_owned(),
            "inference.contextAttributes[2]: must differ from the names before it",
        ),
        (
            "[a, 1]".to_owned(),
            "inference.contextAttributes[1]: must be text: put it in quotes",
        ),
        (
            "[a, null]".to_owned(),
            "inference.contextAttributes[1]: must be text",
        ),
    ] {
        assert_eq!(
            refusal(&with("inference", &format!("contextAttributes: {refused}"))),
            rule
        );
    }
}

#[test]
fn two_listeners_cannot_claim_one_port() {
    for fields in [
        "grpc: \"0.0.0.0:4318\"",
        "http: \"127.0.0.1:4317\"",
        "metrics: \"[::]:4317\"",
        "admin: \"[::ffff:10.0.0.1]:4318\"",
        "grpc: \"10.0.0.1:7000\", admin: \"10.0.0.1:7000\"",
    ] {
        let message = refusal(&with("listen", fields));
        assert!(
            message.starts_with("listen.") && message.contains(": must not use port "),
            "{message}"
        );
    }
    for fields in [
        "grpc: \"127.0.0.1:0\", http: \"127.0.0.1:0\", metrics: \"127.0.0.1:0\", admin: \"127.0.0.1:0\"",
        "grpc: \"127.0.0.1:7000\", http: \"127.0.0.2:7000\"",
        "grpc: \"0.0.0.0:7000\", http: \"[::1]:7000\"",
    ] {
        settings(&with("listen", fields));
    }
    for address in ["4317", "localhost:4317", "0.0.0.0", "0.0.0.0:65536"] {
        let message = refusal(&with("listen", &format!("grpc: \"{address}\"")));
        assert!(
            message.starts_with("listen.grpc: must be "),
            "{address}: {message}"
        );
    }
}

#[test]
fn names_are_accepted_as_written_only() {
    assert_eq!(
        settings(&with("export", "compression: Gzip"))
            .export()
            .compression(),
        Compression::Gzip
    );
    assert_eq!(
        settings(&with("inference", "identity: Context"))
            .inference()
            .identity(),
        Identity::Context
    );
    assert_eq!(
        refusal(&with("export", "protocol: grpc")),
        "export.protocol: must be GRPC or HTTP (upper and lower case matter)"
    );
}

#[test]
fn a_model_is_a_short_name() {
    for (accepted, model) in [
        (true, "m".repeat(128)),
        (false, "m".repeat(129)),
        (false, String::new()),
    ] {
        let yaml = with("inference", &format!("model: \"{model}\""));
        assert_eq!(DataPlaneSettings::from_yaml(&yaml).is_ok(), accepted, "{model}");
    }
}

#[test]
fn the_digest_of_settings_is_frozen() {
    assert_eq!(settings_digest(""), "af1349b9f5f9a1a6");
    assert_eq!(settings_digest(MINIMAL).len(), 16);
    assert_ne!(settings_digest(MINIMAL), settings_digest(&format!("{MINIMAL} ")));
}
