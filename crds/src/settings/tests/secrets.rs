//! Where secrets are found, and that nothing of the document is ever shown.

use std::path::PathBuf;

use super::*;

#[test]
fn a_secret_in_the_settings_is_refused_and_never_shown() {
    for secret in [
        "hunter2",
        "\"hunter2\"",
        "{hunter2}",
        "{hunter2: x}",
        "{file: hunter2}",
        "{env: \"hunter2!\"}",
        "[hunter2]",
        "{file: /a, env: hunter2}",
        "{file: /a, hunter2: b}",
        "{file: [hunter2]}",
        "{value: hunter2}",
        "!!int hunter2",
        "!hunter2 x",
        "{env: hunter2, env: hunter2}",
        "{file: /a, hunter2}",
        "\"/hunter2\"",
    ] {
        let header = format!("headers: [{{name: a, value: {{env: A}}}}, {{name: b, value: {secret}}}]");
        for (yaml, path) in [
            (
                with("inference", &format!("apiKey: {secret}")),
                "inference.apiKey",
            ),
            (with("export", &header), "export.headers[1].value"),
        ] {
            let message = refusal(&yaml);
            assert!(message.starts_with(path), "{secret}: {message}");
            assert!(!message.contains("hunter2"), "{secret}: {message}");
            let debug = format!("{:?}", DataPlaneSettings::from_yaml(&yaml));
            assert!(!debug.contains("hunter2"), "{secret}: {debug}");
        }
    }
    assert!(
        refusal(&with("inference", "apiKey: hunter2"))
            .contains("a secret itself never stands in the settings")
    );
}

#[test]
fn no_text_of_the_document_is_in_an_error() {
    for yaml in [
        with("export", "protocol: hunter2"),
        with("export", "compression: hunter2"),
        with("export", "headers: [{name: \"hunter2 x\", value: {env: A}}]"),
        with("export", "headers: hunter2"),
        with("inference", "baseURL: \"https://user:hunter2@host\""),
        with("inference", "baseURL: \"https://host/?key=hunter2\""),
        with("inference", "model: \"hunter2 x\""),
        with("inference", "identity: hunter2"),
        with("inference", "workers: hunter2"),
        with("inference", "contextAttributes: [hunter2, hunter2]"),
        with("listen", "grpc: hunter2"),
        with("", "revision: \"hunter2!\""),
        with("", "ingest: hunter2"),
        with("", "\"hunter2 with space\": x"),
        endpoint("GRPC", "http://user:hunter2@host:1"),
        endpoint("HTTP", "http://host:hunter2"),
        endpoint("HTTP", "hunter2"),
        MINIMAL.replace("/live.yaml", "hunter2"),
        "schema: [hunter2\n".to_owned(),
        "schema: *hunter2\n".to_owned(),
        "hunter2".to_owned(),
        "hunter2: {hunter2".to_owned(),
    ] {
        let message = refusal(&yaml);
        assert!(!message.contains("hunter2"), "{yaml}: {message}");
    }
}

#[test]
fn secrets_are_found_in_files_and_variables() {
    let read = settings(&with("inference", "apiKey: {file: /run/key}"));
    assert_eq!(
        read.inference().api_key(),
        Some(&SecretSource::File(PathBuf::from("/run/key")))
    );
    let read = settings(&with(
        "export",
        "headers: [{name: X-Scope-OrgID, value: {env: _TENANT1}}]",
    ));
    let header = &read.export().headers()[0];
    assert_eq!(
        (header.name(), header.value()),
        ("x-scope-orgid", &SecretSource::Env("_TENANT1".to_owned()))
    );
    assert_eq!(header.value().to_string(), "secret environment variable _TENANT1");
}

#[test]
fn paths_are_absolute() {
    for path in ["live.yaml", "./live.yaml", ""] {
        let message = refusal(&MINIMAL.replace("/live.yaml", &format!("\"{path}\"")));
        assert_eq!(
            message,
            "live.file: must be an absolute path of at most 4095 bytes"
        );
    }
}
