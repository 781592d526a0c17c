//! One data plane of a group, with a sink of its own.

use std::time::Duration;

use bytes::Bytes;
use jevmetrics_testkit::otlp::metrics;
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{DataPlane, Options};
use jevmetrics_testkit::sink::{self, Depth, Sink};
use jevmetrics_testkit::source::{GrpcOptions, GrpcSender};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;
use serde_json::Value;
use tonic::Code;

/// Longer than anything takes on a busy machine; reached only by a failing test.
pub(crate) const WITHIN: Duration = Duration::from_mins(1);

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) plane: DataPlane,
    pub(crate) sink: Sink,
    sender: GrpcSender,
}

impl Replica {
    /// Starts with `options`, but for its sink, which looks at as much as `depth` says.
    pub(crate) async fn start(mut options: Options, depth: Depth) -> Self {
        let sink = sink::Options {
            depth,
            ..sink::Options::default()
        };
        let sink = Sink::start_with(sink).await.unwrap();
        options.settings.export.endpoint = sink.endpoint();
        options.ready_within = WITHIN;
        let plane = DataPlane::start(options).await.unwrap();
        let sender = GrpcSender::lazy(&plane.grpc_endpoint()).unwrap();
        Self { plane, sink, sender }
    }

    /// Sends what must be accepted whole.
    pub(crate) async fn deliver(&self, message: &Bytes) {
        let told = self.sender.send(message.clone(), &GrpcOptions::default()).await;
        assert!(
            told.code == Code::Ok && told.partial_success.is_none(),
            "{told:?}; {}",
            self.plane.printed()
        );
    }

    /// Points of the instruments of one message that arrive when it is sent.
    pub(crate) async fn kept_of(&self, message: &Bytes) -> u64 {
        let request = ExportMetricsServiceRequest::decode(message.clone()).unwrap();
        let names: Vec<&str> = metrics(&request).map(|metric| metric.name.as_str()).collect();
        let arrived = || {
            let accepted = self.sink.counts().accepted;
            names.iter().map(|name| accepted.points_of(name)).sum::<u64>()
        };
        let before = arrived();
        self.deliver(message).await;
        arrived() - before
    }

    /// A page of the admin port.
    pub(crate) async fn page(&self, path: &str) -> Value {
        let (status, body) = self.plane.get_admin(path).await.unwrap();
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// The one row of `/api/decisions` for a name that one instrument has; none before it was seen.
    pub(crate) async fn decision(&self, name: &str) -> Option<Value> {
        let page = self.page(&format!("/api/decisions?metric={name}")).await;
        let rows = page["decisions"].as_array().unwrap();
        assert!(rows.len() <= 1, "{page}");
        rows.first().cloned()
    }

    /// The reason of the decision about a name; empty before it was seen.
    pub(crate) async fn reason(&self, name: &str) -> String {
        let row = self.decision(name).await.unwrap_or_default();
        row["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// Instruments that are known, and whether any of them awaits an assessment.
    pub(crate) async fn identities(&self) -> (u64, bool) {
        let identities = &self.page("/api/summary").await["identities"];
        let rows = identities["now"].as_array().unwrap();
        let waits = rows.iter().any(|row| row["reason"] == "awaiting_assessment");
        (identities["known"].as_u64().unwrap(), waits)
    }

    /// Sends `message` again and again, until at least `instruments` are known and none awaits an assessment.
    pub(crate) async fn learn(&self, message: &Bytes, instruments: u64) {
        let learnt = poll::eventually("assessments of all instruments", WITHIN, async || {
            self.deliver(message).await;
            let (known, waits) = self.identities().await;
            if known >= instruments && !waits {
                Ok(())
            } else {
                Err(format!("{known} known, others wait: {waits}"))
            }
        });
        if let Err(error) = learnt.await {
            panic!("{error}; {}{}", self.ready().await, self.plane.printed());
        }
    }

    /// Sends `message` again and again, until nothing of it arrives.
    pub(crate) async fn drops(&self, message: &Bytes) {
        let dropped = poll::eventually("drops of all instruments", WITHIN, async || {
            match self.kept_of(message).await {
                0 => Ok(()),
                some => Err(some),
            }
        });
        if let Err(error) = dropped.await {
            panic!("{error}; {}{}", self.ready().await, self.plane.printed());
        }
    }

    /// The sum of all series whose name and labels begin with `series`; 0 if there is none.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and not negative"
    )]
    pub(crate) async fn count(&self, series: &str) -> u64 {
        let scrape = poll::eventually("a scrape", WITHIN, async || self.plane.scrape().await);
        let scrape = scrape.await.unwrap();
        let named = scrape.iter().filter(|(name, _)| name.starts_with(series));
        named.map(|(_, value)| value).sum::<f64>() as u64
    }

    /// Points that were dropped so far.
    pub(crate) async fn dropped(&self) -> u64 {
        self.count("jevmetrics_points_dropped_total").await
    }

    /// `/readyz`, whatever its status.
    pub(crate) async fn ready(&self) -> String {
        // A connection that was kept may end while it is used again.
        let answer = poll::eventually("/readyz", WITHIN, async || self.plane.get("/readyz").await);
        answer.await.unwrap().1
    }

    /// Its line about coordination, without the word before the colon.
    pub(crate) async fn coordination(&self) -> String {
        let ready = self.ready().await;
        let line = ready.lines().find_map(|line| line.strip_prefix("coordination: "));
        line.unwrap_or_else(|| panic!("no coordination in {ready}"))
            .to_owned()
    }

    /// Waits until the line about coordination begins with `wanted`.
    pub(crate) async fn is(&self, wanted: &str) -> String {
        let what = format!("coordination: {wanted}");
        let seen = poll::eventually(&what, WITHIN, async || {
            let line = self.coordination().await;
            if line.starts_with(wanted) {
                Ok(line)
            } else {
                Err(line)
            }
        });
        seen.await
            .unwrap_or_else(|error| panic!("{error}; {}", self.plane.printed()))
    }

    /// Waits until nothing is in flight, and shows that every point is accounted for, none given up.
    pub(crate) async fn settled(&self) {
        let settled = poll::eventually("the end of what is in flight", WITHIN, async || {
            match self.count("jevmetrics_points_in_flight").await {
                0 => Ok(()),
                some => Err(some),
            }
        });
        settled.await.unwrap();
        let received = self
            .count("jevmetrics_points_received_total{from=\"client\"}")
            .await;
        let kept = self.count("jevmetrics_points_kept_total").await;
        let exported = self.count("jevmetrics_points_exported_total").await;
        assert_eq!(received, kept + self.dropped().await);
        assert_eq!(kept, exported, "nothing is lost");
    }
}
