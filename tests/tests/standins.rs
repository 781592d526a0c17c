//! The stand-ins as what runs in pods: processes that are told what to do over their control ports.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use jevmetrics_testkit::control::{Control, ControlError};
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{DataPlane, Mode, Options, SettingsFile};
use jevmetrics_testkit::sink::{Counts as SinkCounts, Ledger};
use jevmetrics_testkit::steady::{Comparison, Counts};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

const WITHIN: Duration = Duration::from_mins(1);
const FREE: &str = "127.0.0.1:0";

/// A stand-in, killed when dropped.
struct Standin {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Standin {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_standins"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// What follows `beginning` in the next line that begins so.
    async fn says(&mut self, beginning: &str) -> String {
        let reading = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                if let Some(rest) = line.strip_prefix(beginning) {
                    return rest.to_owned();
                }
            }
            panic!("it has ended without saying {beginning}");
        };
        let said = tokio::time::timeout(WITHIN, reading).await;
        said.unwrap_or_else(|_| panic!("it does not say {beginning}"))
    }

    async fn control(&mut self) -> Control {
        Control::new(&self.says("control: ").await).unwrap()
    }

    async fn ended(&mut self) -> ExitStatus {
        tokio::time::timeout(WITHIN, self.child.wait())
            .await
            .unwrap()
            .unwrap()
    }

    /// Ends it as a kubelet does.
    async fn terminate(mut self) -> ExitStatus {
        let pid = self.child.id().unwrap().to_string();
        let status = Command::new("kill").args(["-TERM", &pid]).status().await.unwrap();
        assert!(status.success());
        self.says("ends: SIGTERM").await;
        self.ended().await
    }
}

/// A data plane between a stand-in for Jev and a sink that are processes of their own.
struct Stage {
    jev: Standin,
    sink: Standin,
    sink_control: Control,
    plane: DataPlane,
}

impl Stage {
    async fn start(key_file: &str) -> Self {
        let mut jev = Standin::start(&["jev", "--listen", FREE, "--control", FREE, "--key-file", key_file]);
        let mut sink = Standin::start(&["sink", "--listen", FREE, "--control", FREE]);
        let base_url = jev.says("jev: ").await;
        let settings = SettingsFile::new(&sink.says("sink: ").await, &base_url);
        let plane = DataPlane::start(Options::new(settings, Mode::Annotate))
            .await
            .unwrap();
        Self {
            sink_control: sink.control().await,
            jev,
            sink,
            plane,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_is_started_steered_stopped_and_adds_up() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    std::fs::write(&key, "test-key\n").unwrap();
    let mut stage = Stage::start(key.to_str().unwrap()).await;
    let (endpoint, sink) = (stage.plane.http_endpoint(), stage.sink_control.clone());
    let answers = json!({"queue": [
        {"times": 2, "answer": {"refuse": {"code": 14, "status": 503, "message": "later"}}},
        {"answer": {"accept_then": {"refuse": {"code": 14, "status": 503, "message": "lost"}}}},
    ]});
    let queued: Value = sink.post_json("/answers", &answers).await.unwrap();
    assert_eq!(queued, json!({"queued": 3}));

    let mut source = Standin::start(&[
        "source",
        "--endpoint",
        &endpoint,
        "--protocol",
        "http",
        "--requests-per-second",
        "0",
        "--metrics",
        "6",
        "--sources",
        "2",
        "--name",
        "pod",
        "--control",
        FREE,
    ]);
    let control = source.control().await;
    let counts: Counts = control.get("/counts").await.unwrap();
    assert_eq!((counts.requests, counts.kept_instruments.len()), (0, 3));
    let _: Counts = control.post("/rate?requests_per_second=100").await.unwrap();
    poll::until_some("exports", WITHIN, async || {
        let counts: Counts = control.get("/counts").await.unwrap();
        (counts.requests >= 50 && counts.retries >= 3).then_some(())
    })
    .await
    .unwrap();
    let _: Counts = control.post("/pause").await.unwrap();
    let _: Counts = control.post("/resume").await.unwrap();
    for wrong in ["-1", "NaN", "x"] {
        let answer = control
            .post::<Counts>(&format!("/rate?requests_per_second={wrong}"))
            .await;
        assert!(
            matches!(answer, Err(ControlError::Refused { status: 400, .. })),
            "{answer:?}"
        );
    }
    let told: Counts = control.post("/stop").await.unwrap();
    assert_eq!(
        (told.in_flight, told.failed_exports, told.retries),
        (0, 0, 3),
        "{told:?}"
    );
    assert_eq!(told.points_acknowledged, told.points_sent);

    let ledger: Ledger = sink.get("/ledger").await.unwrap();
    let found = Comparison::new(&told, &ledger);
    assert!(found.is_complete(), "{found}");
    assert_eq!((found.duplicates, found.unconfirmed), (6, 0), "{found}");
    let counts: SinkCounts = sink.get("/counts").await.unwrap();
    assert_eq!(counts.accepted.others.points, told.points_sent + 6);
    let counts: SinkCounts = sink.post("/reset").await.unwrap();
    assert_eq!(counts, SinkCounts::default());
    assert_eq!(sink.get::<Ledger>("/ledger").await.unwrap(), Ledger::default());

    let jev = stage.jev.control().await;
    poll::until_some("an answered question", WITHIN, async || {
        let asked: Value = jev.get("/counts").await.unwrap();
        (asked["by_status"]["200"].as_u64() > Some(0)).then_some(())
    })
    .await
    .unwrap();
    // The data plane keeps the former key, and is refused.
    std::fs::write(&key, "another").unwrap();
    stage.jev.says("jev: another key").await;

    for standin in [source, stage.sink, stage.jev] {
        assert!(standin.terminate().await.success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_of_requests_ends_by_itself_and_its_status_says_how() {
    let mut sink = Standin::start(&["sink", "--listen", FREE, "--control", FREE]);
    let endpoint = sink.says("sink: ").await;
    let control = sink.control().await;
    let run = async || {
        let mut source = Standin::start(&[
            "source",
            "--endpoint",
            &endpoint,
            "--requests",
            "5",
            "--requests-per-second",
            "500",
            "--control",
            FREE,
        ]);
        let said = source.says("source: all sent: ").await;
        (said, source.ended().await)
    };
    let (said, status) = run().await;
    assert!(
        said.starts_with("requests=5 attempts=5 retries=0 failed_exports=0 points_sent=100 "),
        "{said}"
    );
    assert!(status.success());
    let never = json!({"queue": [{"answer": {"refuse": {"code": 3, "status": 400, "message": "never"}}}]});
    let _: Value = control.post_json("/answers", &never).await.unwrap();
    let (said, status) = run().await;
    assert!(said.contains(" failed_exports=1 "), "{said}");
    assert_eq!(status.code(), Some(1));
    // A second start is not the first one's sources once more.
    let ledger: Ledger = control.get("/ledger").await.unwrap();
    assert!(ledger.sources.len() > 4, "{ledger:?}");
    assert!(
        ledger.sources.values().all(|source| source.duplicates == 0),
        "{ledger:?}"
    );
    assert!(sink.terminate().await.success());
}
