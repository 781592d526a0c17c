//! Load that can be judged exactly: a steady number of exports a second whose every point has a number, sent as an
//! exporter of OpenTelemetry's SDKs sends: tried again while that can help, then given up and counted.
//!
//! ```text
//! pace ─▶ number ─▶ attempt ─▶ accepted, refused for good, given up ─▶ counts
//!                    ▲    └─ temporary ─▶ wait ─┐
//!                    └──────────────────────────┘
//! ```
//!
//! Invariants: an attempt sends the very bytes of the one before; a number is used once; the pace does not follow the
//! answers, but for a bound of what is in flight; [`Counts`] adds up at any moment. What arrived is in the sink's
//! [`Ledger`](crate::sink::Ledger), and [`Comparison`] holds the two against each other.

mod attempt;
mod comparison;
mod counts;
pub(crate) mod numbered;
mod pace;
mod retry;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use prost::Message as _;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::mock_jev::DROP_MARKERS;
use crate::otlp::request_points;
use crate::source::{Generator, Shape};

use attempt::{Outcome, Sender};
use counts::Export;
use pace::Pace;

pub use attempt::EndpointError;
pub use comparison::Comparison;
pub use counts::{Counts, SourceCounts};
pub use retry::Retry;

/// As many exports are in flight at once at the most.
const MOST_IN_FLIGHT: usize = 1_024;

/// How it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// OTLP over gRPC.
    Grpc,
    /// OTLP over HTTP with protobuf.
    Http,
}

/// What to send, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// `http://HOST:PORT`.
    pub endpoint: String,
    /// How it speaks.
    pub protocol: Protocol,
    /// Exports a second, of all sources together; not above zero: none.
    pub requests_per_second: f64,
    /// Instruments in an export, with one point each. Every second one is to be dropped, if Jev is the mock.
    pub metrics: usize,
    /// Sources: each is a service instance with numbers of its own. They take turns.
    pub sources: usize,
    /// Connections; exports take turns.
    pub connections: usize,
    /// Ends after so many exports.
    pub requests: Option<u64>,
    /// What the ids of the sources begin with. Two loads into one sink must differ in it.
    pub name: String,
    /// When an export is tried again.
    pub retry: Retry,
}

impl Options {
    /// One source of 10 instruments that exports ten times a second over one gRPC connection.
    pub fn new(endpoint: &str) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            protocol: Protocol::Grpc,
            requests_per_second: 10.0,
            metrics: 10,
            sources: 1,
            connections: 1,
            requests: None,
            name: "source".to_owned(),
            retry: Retry::default(),
        }
    }
}

/// What it is to do.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    Run {
        requests_per_second: f64,
        is_paused: bool,
    },
    Stop,
}

/// A running load. Dropping it breaks off what is in flight.
#[derive(Debug)]
pub struct Steady {
    counts: Arc<Mutex<Counts>>,
    order: watch::Sender<Order>,
    ended: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

impl Steady {
    /// Begins to send. Connects when it sends, and again whenever a connection is lost.
    ///
    /// # Errors
    /// The endpoint is no URL of plain HTTP.
    pub fn start(options: Options) -> Result<Self, EndpointError> {
        let senders = (0..options.connections.max(1))
            .map(|_| Sender::new(options.protocol, &options.endpoint))
            .collect::<Result<Vec<_>, _>>()?;
        let sources = sources(&options);
        let names = sources
            .first()
            .map(|source| source.generator.names())
            .unwrap_or_default();
        let (droppable_instruments, kept_instruments) = names
            .into_iter()
            .partition(|name| DROP_MARKERS.iter().any(|marker| name.contains(marker)));
        let counts = Arc::new(Mutex::new(Counts {
            kept_instruments,
            droppable_instruments,
            ..Counts::default()
        }));
        let (order, orders) = watch::channel(Order::Run {
            requests_per_second: options.requests_per_second,
            is_paused: false,
        });
        let (end, ended) = watch::channel(false);
        let load = Load {
            sources,
            senders,
            begun: 0,
            options,
            counts: Arc::clone(&counts),
        };
        let task = tokio::spawn(async move {
            load.run(orders).await;
            // Whoever waits has gone if it fails.
            let _ = end.send(true);
        });
        Ok(Self {
            counts,
            order,
            ended,
            task,
        })
    }

    /// What was sent and answered so far.
    pub fn counts(&self) -> Counts {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins no export until it is resumed; what is in flight goes on.
    pub fn pause(&self) {
        self.change(|_, is_paused| *is_paused = true);
    }

    /// Goes on after a pause.
    pub fn resume(&self) {
        self.change(|_, is_paused| *is_paused = false);
    }

    /// From now on as many exports a second.
    pub fn set_rate(&self, requests_per_second: f64) {
        self.change(|rate, _| *rate = requests_per_second);
    }

    /// Begins no more, and waits for what is in flight: at most as long as an export may take. Then the counts are final.
    pub async fn stop(&self) -> Counts {
        self.order.send_replace(Order::Stop);
        self.ended().await
    }

    /// Waits until it has ended: it was stopped, or all requests were sent and answered. The counts are final then.
    pub async fn ended(&self) -> Counts {
        let mut ended = self.ended.clone();
        // An error says that the task is gone: ended as well.
        let _ = ended.wait_for(|ended| *ended).await;
        self.counts()
    }

    fn change(&self, act: impl FnOnce(&mut f64, &mut bool)) {
        self.order.send_modify(|order| match order {
            Order::Run {
                requests_per_second,
                is_paused,
            } => act(requests_per_second, is_paused),
            Order::Stop => {}
        });
    }
}

impl Drop for Steady {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One service instance.
struct Source {
    id: String,
    generator: Generator,
    start: u64,
    last: u64,
}

fn sources(options: &Options) -> Vec<Source> {
    let shape = Shape {
        metrics: options.metrics.max(1),
        points: 1,
        resources: 1,
        scopes: 1,
        droppable_percent: 50,
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let start = u64::try_from(since.as_nanos()).unwrap_or_default();
    let source = |number: usize| Source {
        id: format!("{}-{number}", options.name),
        generator: Generator::new(shape, number as u64),
        start,
        last: 0,
    };
    (0..options.sources.max(1)).map(source).collect()
}

impl Source {
    /// The next number, its bytes and its points.
    fn next(&mut self) -> (u64, Bytes, u64) {
        self.last += 1;
        let mut request = self.generator.next_request();
        numbered::write(&mut request, &self.id, self.start, self.last);
        (
            self.last,
            request.encode_to_vec().into(),
            request_points(&request) as u64,
        )
    }
}

/// All that the task has.
struct Load {
    sources: Vec<Source>,
    senders: Vec<Sender>,
    begun: u64,
    options: Options,
    counts: Arc<Mutex<Counts>>,
}

impl Load {
    async fn run(mut self, mut orders: watch::Receiver<Order>) {
        let mut exports = JoinSet::new();
        let mut pace = Pace::new(Instant::now());
        while self.options.requests != Some(self.begun) {
            let due = match *orders.borrow_and_update() {
                Order::Stop => break,
                Order::Run { is_paused: true, .. } => None,
                Order::Run {
                    requests_per_second, ..
                } => pace.due(requests_per_second, Instant::now()),
            };
            tokio::select! {
                changed = orders.changed() => match changed {
                    Ok(()) => pace = Pace::new(Instant::now()),
                    Err(_) => break,
                },
                () = sleep_until(due) => {
                    pace.began(due);
                    self.begin(&mut exports);
                }
                Some(_) = exports.join_next() => {}
            }
        }
        while exports.join_next().await.is_some() {}
    }

    fn begin(&mut self, exports: &mut JoinSet<()>) {
        if exports.len() >= MOST_IN_FLIGHT {
            with(&self.counts, |counts| counts.held_back += 1);
            return;
        }
        let sender = self.senders[self.turn(self.senders.len())].clone();
        let turn = self.turn(self.sources.len());
        let source = &mut self.sources[turn];
        let (number, body, points) = source.next();
        self.begun += 1;
        exports.spawn(export(
            sender,
            body,
            self.options.retry,
            Arc::clone(&self.counts),
            source.id.clone(),
            (number, points),
        ));
    }

    /// Whose turn it is among so many.
    fn turn(&self, among: usize) -> usize {
        usize::try_from(self.begun % among as u64).unwrap_or(0)
    }
}

/// Sends one export until it is accepted, refused for good, or given up.
async fn export(
    sender: Sender,
    body: Bytes,
    retry: Retry,
    counts: Arc<Mutex<Counts>>,
    source: String,
    (number, points): (u64, u64),
) {
    let export = Export {
        source: &source,
        number,
        points,
    };
    let began = Instant::now();
    with(&counts, |counts| counts.begin(export));
    for attempt in 1.. {
        with(&counts, |counts| counts.attempt(attempt));
        let outcome = sender.attempt(body.clone(), retry.attempt).await;
        if let Outcome::Temporary { cause, .. } | Outcome::Permanent { cause } = &outcome {
            with(&counts, |counts| counts.refused(cause));
        }
        if let Outcome::Temporary { wait, .. } = outcome
            && let Some(wait) = retry.wait(attempt, began.elapsed(), wait, fastrand::f64())
        {
            tokio::time::sleep(wait).await;
            continue;
        }
        with(&counts, |counts| counts.end(export, &outcome));
        return;
    }
}

/// Forever, if there is no such time.
async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn with<R>(counts: &Mutex<Counts>, act: impl FnOnce(&mut Counts) -> R) -> R {
    act(&mut counts.lock().unwrap_or_else(PoisonError::into_inner))
}
