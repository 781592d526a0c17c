//! Where certificates and keys are found.

use super::*;

#[test]
fn peer_tls_is_absent_or_whole() {
    let read = settings(&with(
        "peer",
        "tls: {certificateFile: /c, keyFile: /k, caFile: /a}",
    ));
    let tls = read.peer().tls().unwrap();
    assert_eq!(tls.key_pair().certificate_file(), "/c");
    assert_eq!(
        (tls.key_pair().key_file(), tls.ca_file()),
        ("/k".as_ref(), "/a".as_ref())
    );
    assert_eq!(settings(&with("peer", "tls: null")).peer().tls(), None);
    for (fields, message) in [
        (
            "tls: {}",
            "peer.tls.certificateFile: must be given; peer.tls.keyFile: must be given; peer.tls.caFile: must be given",
        ),
        (
            "tls: {certificateFile: c, keyFile: /k, caFile: /a}",
            "peer.tls.certificateFile: must be an absolute path",
        ),
        (
            "tls: {certificateFile: /c, keyFile: /k, caFile: /a, serverName: x}",
            "peer.tls.serverName: is not known",
        ),
        ("tls: true", "peer.tls: must be a mapping"),
    ] {
        let error = refusal(&with("peer", fields));
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn tls_of_the_ports_has_a_pair_and_perhaps_roots_of_clients() {
    let read = settings(&with("ingest", "tls: {certificateFile: /c, keyFile: /k}"));
    let tls = read.ingest().tls().unwrap();
    assert_eq!(
        (tls.key_pair().key_file(), tls.client_ca_file()),
        ("/k".as_ref(), None)
    );
    let read = settings(&with(
        "ingest",
        "tls: {certificateFile: /c, keyFile: /k, clientCAFile: /a}",
    ));
    assert_eq!(read.ingest().tls().unwrap().client_ca_file(), Some("/a".as_ref()));
    assert_eq!(settings(MINIMAL).ingest().tls(), None);
    for (fields, message) in [
        ("tls: {certificateFile: /c}", "ingest.tls.keyFile: must be given"),
        (
            "tls: {certificateFile: /c, keyFile: /k, clientCAFile: a}",
            "ingest.tls.clientCAFile: must be an absolute",
        ),
        (
            "tls: {certificateFile: /c, keyFile: /k, caFile: /a}",
            "ingest.tls.caFile: is not known here",
        ),
    ] {
        let error = refusal(&with("ingest", fields));
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn tls_to_downstream_belongs_to_https() {
    let export = |scheme: &str, fields: &str| {
        format!("schema: 1\nlive: {{file: /l}}\nexport: {{endpoint: \"{scheme}://sink:4317\", {fields}}}\n")
    };
    assert_eq!(settings(&export("https", "")).export().tls(), None);
    let all = "tls: {caFile: /a, certificateFile: /c, keyFile: /k, serverName: Sink.Example}";
    let read = settings(&export("https", all));
    let tls = read.export().tls().unwrap();
    assert_eq!(
        (tls.ca_file(), tls.server_name()),
        (Some("/a".as_ref()), Some("sink.example"))
    );
    assert_eq!(tls.key_pair().unwrap().certificate_file(), "/c");
    for (scheme, fields, message) in [
        (
            "http",
            all,
            "export.tls: must not be given with an http:// endpoint",
        ),
        (
            "https",
            "tls: {certificateFile: /c}",
            "export.tls.keyFile: must be given beside certificateFile",
        ),
        (
            "https",
            "tls: {keyFile: /k}",
            "export.tls.certificateFile: must be given beside keyFile",
        ),
        (
            "https",
            "tls: {serverName: \"10.0.0.1\"}",
            "export.tls.serverName: must be a DNS name",
        ),
        (
            "https",
            "tls: {serverName: \"a b\"}",
            "export.tls.serverName: must be a DNS name",
        ),
    ] {
        let error = refusal(&export(scheme, fields));
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn tls_of_inference_is_its_roots() {
    let read = settings(&with("inference", "tls: {caFile: /a}"));
    assert_eq!(read.inference().tls().unwrap().ca_file(), Some("/a".as_ref()));
    for (fields, message) in [
        ("tls: {}", "inference.tls.caFile: must be given"),
        (
            "tls: {caFile: /a}, baseURL: \"http://jev\"",
            "inference.tls: must not be given with an http:// baseURL",
        ),
        (
            "tls: {caFile: /a, keyFile: /k}",
            "inference.tls.keyFile: is not known here",
        ),
    ] {
        let error = refusal(&with("inference", fields));
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn the_reference_page_lists_every_field() {
    let page = include_str!("../../../../docs/reference/settings.md");
    for name in [
        "object.namespace",
        "object.name",
        "tls.certificateFile",
        "tls.keyFile",
        "tls.caFile",
        "tls.clientCAFile",
        "tls.serverName",
    ] {
        assert!(
            page.contains(&format!("| `{name}` |")),
            "{name} is missing in the tables"
        );
    }
}
