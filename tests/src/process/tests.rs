#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use axum::routing::get;

use super::{DataPlane, LiveFile, Mode, Options, ProcessError, SettingsFile};
use crate::listener::Listener;
use crate::poll;

const WITHIN: Duration = Duration::from_secs(20);

/// A program in the place of the data plane; it finds its settings file in `$2`.
fn program(directory: &tempfile::TempDir, script: &str) -> PathBuf {
    let file = directory.path().join("program");
    let text = format!("#!/bin/sh\n{script}\n");
    // Written by another process: a file that any child of this one inherits open cannot be executed.
    let write = "printf '%s' \"$2\" > \"$1\" && chmod 755 \"$1\"";
    let status = std::process::Command::new("sh")
        .args(["-c", write, "sh"])
        .arg(&file)
        .arg(text)
        .status();
    assert!(status.unwrap().success());
    file
}

fn options(binary: PathBuf) -> Options {
    let settings = SettingsFile::new("http://127.0.0.1:1", "http://127.0.0.1:2");
    Options {
        binary: Some(binary),
        ready_within: WITHIN,
        ..Options::new(settings, Mode::Annotate)
    }
}

/// Answers the probes and the scrape in the program's place.
async fn probes() -> Listener {
    let router = Router::new()
        .route("/readyz", get(async || "ready"))
        .route("/metrics", get(async || "a_total{b=\"c\"} 2\n"));
    Listener::start(router, crate::ports::LOOPBACK).await.unwrap()
}

#[tokio::test]
async fn a_ready_process_is_scraped_signalled_and_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let binary = program(
        &directory,
        "trap 'echo stopping; exit 3' TERM\necho up\nwhile :; do sleep 0.05; done",
    );
    let probes = probes().await;
    let mut options = options(binary);
    options.settings.listen.metrics = probes.address();
    let mut process = DataPlane::start(options).await.unwrap();
    poll::until("the greeting", WITHIN, || process.printed().contains("up"))
        .await
        .unwrap();
    assert_eq!(
        process.scrape().await.unwrap()["a_total{b=\"c\"}"].to_string(),
        "2"
    );
    assert!(process.resident_bytes().unwrap() > 0);
    assert_ne!(process.listen().grpc, process.listen().http);

    process.signal("TERM").await.unwrap();
    assert_eq!(process.wait(WITHIN).await.unwrap().code(), Some(3));
    assert!(process.printed().ends_with("stopping\n"));
    assert!(process.signal("TERM").await.is_err());
}

#[tokio::test]
async fn a_process_that_ends_early_is_reported_with_what_it_printed() {
    let directory = tempfile::tempdir().unwrap();
    let binary = program(&directory, "echo 'bad settings' >&2; cat \"$2\"; exit 2");
    match DataPlane::start(options(binary)).await {
        Err(ProcessError::Ended { status, printed }) => {
            assert_eq!(status.code(), Some(2));
            assert!(printed.contains("bad settings"));
            assert!(printed.contains("baseURL: http://127.0.0.1:2"), "{printed}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn files_are_replaced_as_a_whole() {
    let directory = tempfile::tempdir().unwrap();
    let mut process = DataPlane::spawn(options(program(&directory, "exec sleep 600"))).unwrap();
    process.set_live(&LiveFile::new(Mode::Reduce)).unwrap();
    process.set_api_key("other").unwrap();
    let read = |name| std::fs::read_to_string(process.directory().join(name)).unwrap();
    assert!(read("live.yaml").contains("mode: Reduce"));
    assert_eq!(read("api-key"), "other");
    assert!(matches!(
        process.wait(Duration::from_millis(1)).await,
        Err(ProcessError::StillRunning(_))
    ));
    process.kill().await.unwrap();
}

#[tokio::test]
async fn dropping_it_kills_it() {
    let directory = tempfile::tempdir().unwrap();
    let process = DataPlane::spawn(options(program(&directory, "exec sleep 600"))).unwrap();
    let entry = PathBuf::from(format!("/proc/{}/exe", process.pid()));
    assert!(entry.exists());
    drop(process);
    // A zombie that nobody has waited for yet has no executable any more.
    poll::until("the end", WITHIN, || std::fs::read_link(&entry).is_err())
        .await
        .unwrap();
}
