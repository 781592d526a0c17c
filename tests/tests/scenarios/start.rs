//! What the process does not start with: its last line names the place.

use std::net::TcpListener;
use std::process::Command;

use jevmetrics_testkit::mock_jev::MockJev;
use jevmetrics_testkit::process::{
    DataPlane, Header, Live, Mode, Options, ProcessError, SettingsFile, Source, find_binary,
};
use jevmetrics_testkit::sink::Sink;

use crate::support::{World, fast};

/// Starts it, and returns the last line that it printed when it ended with an error.
async fn last_line(options: Options) -> String {
    match DataPlane::start(options).await {
        Err(ProcessError::Ended { status, printed }) => {
            assert_eq!(status.code(), Some(1), "{printed}");
            printed.lines().last().unwrap_or_default().to_owned()
        }
        other => panic!("{other:?}"),
    }
}

fn options() -> Options {
    Options::new(
        SettingsFile::new("http://127.0.0.1:1", "http://127.0.0.1:2"),
        Mode::Annotate,
    )
}

/// The settings as text, with one piece replaced.
fn altered(from: &str, to: &str) -> String {
    let mut settings = options().settings;
    settings.live = Live::File {
        file: "/nowhere/live.yaml".into(),
    };
    let text = serde_yaml::to_string(&settings).unwrap();
    let altered = text.replacen(from, to, 1);
    assert_ne!(text, altered);
    altered
}

/// *Scenario*: settings with a typo, an unknown field, a wrong value, a secret in the wrong place, broken YAML.
/// *Guarantees*: the process ends with status 1, its last line names file and field and what must hold, and never
/// shows a value.
#[tokio::test]
async fn wrong_settings_are_named_by_their_place() {
    for (from, to, named) in [
        (
            "protocol: GRPC",
            "protcol: GRPC",
            "export.protcol: is not known here; known are ",
        ),
        (
            "schema: 1",
            "schema: 1\nextra: hunter2",
            "extra: is not known here",
        ),
        (
            "protocol: GRPC",
            "protocol: hunter2",
            "export.protocol: must be GRPC or HTTP",
        ),
        (
            "protocol: GRPC",
            "protocol: HTTP\n  timeoutMilliseconds: 0",
            "export.timeoutMilliseconds: must be ",
        ),
        ("http://127.0.0.1:1", "ftp://hunter2", "export.endpoint: must "),
        (
            "inference:",
            "inference:\n  apiKey: hunter2",
            "inference.apiKey: must be {file: /path} or {env: NAME}",
        ),
        (
            "inference:",
            "inference:\n  scoreTTLSeconds: 9",
            "inference.scoreTTLSeconds: must be ",
        ),
        ("schema: 1", "schema: [hunter2", "not readable as YAML"),
    ] {
        let line = last_line(Options {
            settings_text: Some(altered(from, to)),
            ..options()
        })
        .await;
        assert!(line.contains("ERROR"), "{line}");
        assert!(
            line.contains("settings.yaml") && line.contains(named),
            "{named}: {line}"
        );
        assert!(!line.contains("hunter2"), "{line}");
    }
}

/// *Scenario*: the settings file is not there.
/// *Guarantees*: the process ends with status 1 and its last line names the file.
#[tokio::test]
async fn a_missing_settings_file_is_named() {
    let output = Command::new(find_binary().unwrap())
        .args(["--settings", "/nowhere/settings.yaml"])
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8(output.stderr).unwrap();
    let line = printed.lines().last().unwrap();
    assert!(line.contains("settings file /nowhere/settings.yaml: "), "{line}");
}

/// *Scenario*: the file with the value of an export header is not there, or is empty.
/// *Guarantees*: the process ends with status 1 and its last line names header and file.
#[tokio::test]
async fn a_missing_secret_of_an_export_header_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty");
    std::fs::write(&empty, "\n").unwrap();
    for (file, problem) in [
        ("/nowhere/token".into(), "not found"),
        (empty, "must not be empty"),
    ] {
        let mut options = options();
        options.settings.export.headers = vec![Header {
            name: "authorization".to_owned(),
            value: Source::File { file: file.clone() },
        }];
        let line = last_line(options).await;
        let named = format!(
            "export.headers[0].value: secret file {}: {problem}",
            file.display()
        );
        assert!(line.contains(&named), "{line}");
    }
}

/// *Scenario*: another process has one of the ports.
/// *Guarantees*: the process ends with status 1 and its last line names setting and address.
#[tokio::test]
async fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for name in ["grpc", "http", "peer", "metrics", "admin"] {
        let mut options = options();
        let listen = &mut options.settings.listen;
        match name {
            "grpc" => listen.grpc = address,
            "http" => listen.http = address,
            "peer" => listen.peer = address,
            "metrics" => listen.metrics = address,
            _ => listen.admin = address,
        }
        let line = last_line(options).await;
        assert!(line.contains(&format!("listen.{name}")), "{line}");
        assert!(line.contains(&address.to_string()), "{line}");
    }
}

/// *Scenario*: `--check` with good and with wrong settings; `--help`.
/// *Guarantees*: status and words tell them apart; nothing is listened on.
#[tokio::test]
async fn settings_can_be_checked_without_starting() {
    let (jev, sink) = (MockJev::start().await.unwrap(), Sink::start().await.unwrap());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("settings.yaml");
    let mut settings = fast(&sink, &jev);
    settings.live = Live::File {
        file: directory.path().join("live.yaml"),
    };
    let text = serde_yaml::to_string(&settings).unwrap();
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let command = Command::new(find_binary().unwrap())
            .arg("--settings")
            .arg(&file)
            .arg("--check")
            .output();
        let output = command.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = check(&text);
    assert!(
        code == Some(0) && said.contains("the settings are valid"),
        "{said}"
    );
    let (code, said) = check(&text.replace("compression: None", "compression: none"));
    assert!(
        code == Some(1) && said.contains("export.compression: must be None or Gzip"),
        "{said}"
    );
    let help = Command::new(find_binary().unwrap())
        .arg("--help")
        .output()
        .unwrap();
    assert!(help.status.success());
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("--settings") && help.contains("--check"), "{help}");
}

/// *Scenario*: a process starts with ports of its own choice.
/// *Guarantees*: one line of its log says where it listens, and another that it is ready.
#[tokio::test]
async fn the_log_says_where_it_listens() {
    let world = World::start(Mode::Annotate).await;
    let line = world.logged(" listening ").await;
    let listen = world.plane.listen();
    for (name, address) in [
        ("grpc", listen.grpc),
        ("http", listen.http),
        ("peer", listen.peer),
        ("metrics", listen.metrics),
        ("admin", listen.admin),
    ] {
        assert!(line.contains(&format!("{name}={address}")), "{line}");
    }
    world.logged(" ready ").await;
}
