//! One call starts mock Jev, sink and data plane; what every scenario asks of them.

use std::time::Duration;

use bytes::Bytes;
use jevmetrics_testkit::mock_jev::MockJev;
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{DataPlane, Mode, Options, SettingsFile};
use jevmetrics_testkit::sink::Sink;
use jevmetrics_testkit::source::{GrpcOptions, GrpcSender, HttpOptions, HttpSender, PartialSuccess};
use serde_json::Value;
use tonic::Code;

/// Longer than anything takes on a busy machine; reached only by a failing test.
pub(crate) const WITHIN: Duration = Duration::from_mins(1);

/// How a sender speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    Grpc,
    Http,
}

pub(crate) const BOTH: [Via; 2] = [Via::Grpc, Via::Http];

/// What a sender was told. Without code and status it got no answer.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) code: Option<Code>,
    pub(crate) status: Option<u16>,
    pub(crate) message: String,
    pub(crate) wait: Option<Duration>,
    pub(crate) partial: Option<PartialSuccess>,
}

impl Told {
    pub(crate) fn is_accepted(&self) -> bool {
        match self.status {
            Some(status) => status == 200,
            None => self.code == Some(Code::Ok),
        }
    }

    /// Whether OTLP lets the sender try again.
    pub(crate) fn is_temporary(&self) -> bool {
        match (self.status, self.code) {
            (Some(status), _) => matches!(status, 429 | 502 | 503 | 504),
            (None, Some(Code::ResourceExhausted)) => self.wait.is_some(),
            (None, code) => matches!(
                code,
                Some(
                    Code::Cancelled
                        | Code::DeadlineExceeded
                        | Code::Aborted
                        | Code::OutOfRange
                        | Code::Unavailable
                        | Code::DataLoss
                )
            ),
        }
    }

    /// Whether the sender was told never to try again.
    pub(crate) fn is_permanent(&self) -> bool {
        let is_answered = self.status.is_some() || self.code.is_some();
        is_answered && !self.is_accepted() && !self.is_temporary()
    }
}

/// Sends over both protocols; clones share connections.
#[derive(Debug, Clone)]
pub(crate) struct Senders {
    grpc: GrpcSender,
    http: HttpSender,
}

impl Senders {
    pub(crate) fn to(plane: &DataPlane) -> Self {
        Self {
            grpc: GrpcSender::lazy(&plane.grpc_endpoint()).unwrap(),
            http: HttpSender::new(&plane.http_endpoint()).unwrap(),
        }
    }

    pub(crate) async fn send(&self, via: Via, message: &Bytes) -> Told {
        match via {
            Via::Grpc => {
                let outcome = self.grpc.send(message.clone(), &GrpcOptions::default()).await;
                // The client's own words when the connection is gone: nobody said "unknown".
                let is_answered = outcome.code != Code::Unknown || outcome.message != "transport error";
                Told {
                    code: is_answered.then_some(outcome.code),
                    status: None,
                    message: outcome.message,
                    wait: outcome.retry_after,
                    partial: outcome.partial_success,
                }
            }
            Via::Http => match self.http.send(message.clone(), &HttpOptions::default()).await {
                Ok(outcome) => Told {
                    code: outcome.rpc_status.as_ref().map(|status| Code::from(status.code)),
                    status: Some(outcome.status),
                    message: outcome
                        .rpc_status
                        .map(|status| status.message)
                        .unwrap_or_default(),
                    wait: outcome.retry_after,
                    partial: outcome.partial_success,
                },
                Err(error) => Told {
                    code: None,
                    status: None,
                    message: error.to_string(),
                    wait: None,
                    partial: None,
                },
            },
        }
    }
}

/// The equation's numbers, in data points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Equation {
    pub(crate) received: u64,
    pub(crate) kept: u64,
    pub(crate) dropped: u64,
    pub(crate) exported: u64,
    pub(crate) failed: Failed,
    pub(crate) in_flight: u64,
    pub(crate) companions_added: u64,
    pub(crate) companions_exported: u64,
}

/// Kept points that did not arrive, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) temporary: u64,
    pub(crate) permanent: u64,
    pub(crate) rejected: u64,
    pub(crate) abandoned: u64,
}

impl Failed {
    pub(crate) fn all(self) -> u64 {
        self.temporary + self.permanent + self.rejected + self.abandoned
    }
}

/// A data plane between its neighbours.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) jev: MockJev,
    pub(crate) sink: Sink,
    pub(crate) plane: DataPlane,
    pub(crate) senders: Senders,
}

/// Settings with a budget that no test waits for.
pub(crate) fn fast(sink: &Sink, jev: &MockJev) -> SettingsFile {
    let mut settings = SettingsFile::new(&sink.endpoint(), &jev.base_url());
    settings.inference.requests_per_second_per_replica = Some(1_000);
    settings.inference.burst = Some(1_000);
    settings.inference.workers = Some(8);
    settings.inference.queue_size = Some(1_024);
    settings
}

impl World {
    pub(crate) async fn start(mode: Mode) -> Self {
        Self::start_with(mode, |_| ()).await
    }

    /// `adjust` changes what the process starts with.
    pub(crate) async fn start_with(mode: Mode, adjust: impl FnOnce(&mut Options)) -> Self {
        let (jev, sink) = (MockJev::start().await.unwrap(), Sink::start().await.unwrap());
        let mut options = Options::new(fast(&sink, &jev), mode);
        options.ready_within = WITHIN;
        adjust(&mut options);
        let plane = DataPlane::start(options).await.unwrap();
        let senders = Senders::to(&plane);
        Self {
            jev,
            sink,
            plane,
            senders,
        }
    }

    pub(crate) async fn send(&self, via: Via, message: &Bytes) -> Told {
        self.senders.send(via, message).await
    }

    /// Sends what must be accepted whole.
    pub(crate) async fn deliver(&self, via: Via, message: &Bytes) {
        let told = self.send(via, message).await;
        assert!(told.is_accepted() && told.partial.is_none(), "{via:?}: {told:?}");
    }

    /// Sends `message` once, waits until its `instruments` are assessed, and forgets what was seen meanwhile.
    pub(crate) async fn learn(&self, message: &Bytes, instruments: u64) {
        self.deliver(Via::Grpc, message).await;
        self.assessed(instruments).await;
        self.sink.reset();
        self.jev.forget_requests();
    }

    /// Waits until at least `instruments` are known and none of them awaits an assessment.
    pub(crate) async fn assessed(&self, instruments: u64) {
        let seen = poll::until_some("assessments of all instruments", WITHIN, async || {
            let identities = &self.page("/api/summary").await["identities"];
            let known = identities["known"].as_u64().unwrap();
            let waits = identities["now"].as_array().unwrap().iter();
            let waits = waits.filter(|row| row["reason"] == "awaiting_assessment").count();
            (known >= instruments && waits == 0).then_some(())
        });
        seen.await
            .unwrap_or_else(|error| panic!("{error}; {}", self.plane.printed()));
    }

    /// A page of the admin port.
    pub(crate) async fn page(&self, path: &str) -> Value {
        let (status, body) = self.plane.get_admin(path).await.unwrap();
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// The one row of `/api/decisions` for a name that one instrument has.
    pub(crate) async fn decision(&self, name: &str) -> Value {
        let page = self.page(&format!("/api/decisions?metric={name}")).await;
        let rows = page["decisions"].as_array().unwrap();
        assert_eq!(rows.len(), 1, "{page}");
        rows[0].clone()
    }

    /// The sum of all series whose name and labels begin with `series`; 0 if there is none.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        let scrape = self.plane.scrape().await.unwrap();
        scrape
            .iter()
            .filter(|(name, _)| name.starts_with(series))
            .map(|(_, value)| value)
            .sum()
    }

    /// As [`World::metric`], for what counts.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and not negative"
    )]
    pub(crate) async fn count(&self, series: &str) -> u64 {
        self.metric(series).await as u64
    }

    /// Waits until `series` counts `wanted`: a connection's end is seen by its other side before it is counted.
    pub(crate) async fn counts(&self, series: &str, wanted: u64) {
        let what = format!("{series} = {wanted}");
        poll::until_some(&what, WITHIN, async || {
            (self.count(series).await == wanted).then_some(())
        })
        .await
        .unwrap();
    }

    /// The equation now, whether it holds or not.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and not negative"
    )]
    pub(crate) async fn equation(&self) -> Equation {
        let scrape = self.plane.scrape().await.unwrap();
        let read = |series: &str| {
            scrape
                .get(series)
                .unwrap_or_else(|| panic!("no {series}"))
                .max(0.0) as u64
        };
        let failed = |cause: &str| read(&format!("jevmetrics_points_failed_total{{cause=\"{cause}\"}}"));
        Equation {
            received: read("jevmetrics_points_received_total{from=\"client\"}"),
            kept: read("jevmetrics_points_kept_total"),
            dropped: read("jevmetrics_points_dropped_total"),
            exported: read("jevmetrics_points_exported_total"),
            failed: Failed {
                temporary: failed("temporary"),
                permanent: failed("permanent"),
                rejected: failed("rejected"),
                abandoned: failed("abandoned"),
            },
            in_flight: read("jevmetrics_points_in_flight"),
            companions_added: read("jevmetrics_companions_added_total"),
            companions_exported: read("jevmetrics_companions_exported_total"),
        }
    }

    /// Waits until nothing is in flight, and shows that the equation holds.
    pub(crate) async fn settled(&self) -> Equation {
        let settled = poll::until_some("the end of what is in flight", WITHIN, async || {
            Some(self.equation().await).filter(|equation| equation.in_flight == 0)
        });
        let equation = settled.await.unwrap();
        assert_eq!(
            equation.received,
            equation.kept + equation.dropped,
            "{equation:?}"
        );
        assert_eq!(
            equation.kept,
            equation.exported + equation.failed.all(),
            "{equation:?}"
        );
        equation
    }

    /// `/readyz`, which must be 200.
    pub(crate) async fn ready(&self) -> String {
        let (status, body) = self.plane.get("/readyz").await.unwrap();
        assert_eq!(status, 200, "{body}");
        body
    }

    /// Lines of the log with `text`.
    pub(crate) fn lines(&self, text: &str) -> Vec<String> {
        let printed = self.plane.printed();
        printed
            .lines()
            .filter(|line| line.contains(text))
            .map(str::to_owned)
            .collect()
    }

    /// Waits for a line of the log with `text`; a second one must not be there.
    pub(crate) async fn logged(&self, text: &str) -> String {
        self.logged_times(text, 1).await.remove(0)
    }

    /// Waits for so many lines of the log with `text`; more must not be there.
    pub(crate) async fn logged_times(&self, text: &str, times: usize) -> Vec<String> {
        // What was printed arrives through a pipe, a little later.
        poll::until(text, WITHIN, || self.lines(text).len() >= times)
            .await
            .unwrap_or_else(|error| panic!("{error}; {}", self.plane.printed()));
        let lines = self.lines(text);
        assert_eq!(lines.len(), times, "{}", self.plane.printed());
        lines
    }
}
