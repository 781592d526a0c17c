//! The three processes' worth of things on the stage, and what can be asked of them.

use std::time::Duration;

use jevmetrics_testkit::mock_jev::MockJev;
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{DataPlane, Mode, Options, SettingsFile};
use jevmetrics_testkit::sink::Sink;
use serde_json::Value;

use crate::Failure;

/// How long anything on this stage may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// Set to keep everything running until Ctrl-C, to look around.
const HOLD: &str = "DEMO_HOLD";

/// Mock Jev, sink and data plane.
pub(crate) struct Stage {
    pub(crate) jev: MockJev,
    pub(crate) sink: Sink,
    pub(crate) data_plane: DataPlane,
}

impl Stage {
    pub(crate) async fn start() -> Result<Self, Failure> {
        let jev = MockJev::start().await?;
        let sink = Sink::start().await?;
        let mut settings = SettingsFile::new(&sink.endpoint(), &jev.base_url());
        // Ten times the default, so that nobody has to wait for the answers.
        settings.inference.requests_per_second_per_replica = Some(100);
        settings.inference.workers = Some(4);
        let data_plane = DataPlane::start(Options::new(settings, Mode::Annotate)).await?;
        Ok(Self {
            jev,
            sink,
            data_plane,
        })
    }

    pub(crate) fn introduce(&self) {
        let listen = self.data_plane.listen();
        println!(
            "   data plane  OTLP/gRPC {}, OTLP/HTTP {}",
            listen.grpc, listen.http
        );
        println!("   mock Jev    {}", self.jev.base_url());
        println!("   backend     {}", self.sink.endpoint());
    }

    /// `/api/summary`.
    pub(crate) async fn summary(&self) -> Result<Value, Failure> {
        self.admin("/api/summary").await
    }

    pub(crate) async fn admin(&self, path: &str) -> Result<Value, Failure> {
        let (status, body) = self.data_plane.get_admin(path).await?;
        if status != 200 {
            return Err(format!("{path} answered {status}: {body}").into());
        }
        Ok(serde_json::from_str(&body)?)
    }

    /// How many instruments have no answer yet.
    pub(crate) async fn awaiting(&self) -> Result<u64, Failure> {
        let summary = self.summary().await?;
        let rows = summary["identities"]["now"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let awaiting = rows.iter().filter(|row| row["reason"] == "awaiting_assessment");
        Ok(awaiting.filter_map(|row| row["instruments"].as_u64()).sum())
    }

    pub(crate) async fn wait_for_mode(&self, mode: &str) -> Result<(), Failure> {
        poll::until_some("the new mode", PATIENCE, async || {
            let summary = self.summary().await.ok()?;
            (summary["mode"] == mode).then_some(())
        })
        .await?;
        Ok(())
    }

    pub(crate) fn show_where_to_look(&self) {
        let listen = self.data_plane.listen();
        println!(
            "   why an instrument is kept or dropped: http://{}/api/decisions?metric=NAME",
            listen.admin
        );
        println!(
            "   what the policy saves:                http://{}/api/summary",
            listen.admin
        );
        println!(
            "   metrics, readiness:                   http://{0}/metrics  http://{0}/readyz",
            listen.metrics
        );
        println!(
            "   (set {HOLD}=1 to keep all of it running until Ctrl-C; docs/operations.md explains the words)"
        );
    }

    /// Lets a person look around, if asked to.
    pub(crate) async fn hold(&self) {
        if std::env::var_os(HOLD).is_some() {
            println!("   running until Ctrl-C");
            let _ = tokio::signal::ctrl_c().await;
        }
    }

    /// Stops all of it; the data plane must end well.
    pub(crate) async fn stop(&mut self) -> Result<(), Failure> {
        // Ctrl-C in a terminal has reached it before us.
        let _ = self.data_plane.signal("TERM").await;
        let status = self.data_plane.wait(PATIENCE).await?;
        self.sink.stop().await;
        self.jev.stop().await;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the data plane ended with {status}").into())
        }
    }
}
