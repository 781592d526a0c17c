#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
//! Under tokio's paused clock: waiting costs nothing and times are exact.

use std::num::NonZeroU32;
use std::sync::Mutex;

use prometheus_client::registry::Registry;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant as TokioInstant, timeout};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::coordinate::Local;
use crate::infer::ask::Ask;
use crate::infer::ask::Asking;
use crate::infer::rank::Rank;
use crate::infer::state::Health;
use crate::infer::{Inference, Item, Outcomes, Pace, Summary, Ticket, Want, fixtures, reply};
use crate::retain::answers::Answers;
use crate::test_identity;

/// A question that reached the server and waits for the test to answer it.
struct Question {
    name: String,
    at: Duration,
    answer: oneshot::Sender<Result<Reply, Failure>>,
}

/// A server whose answers the test gives one by one. A question whose answer is dropped panics.
struct Server {
    start: TokioInstant,
    asked: mpsc::UnboundedSender<Question>,
    obstacle: Mutex<Option<Cause>>,
}

impl Ask for Server {
    fn obstacle(&self) -> Option<Cause> {
        *self.obstacle.lock().unwrap()
    }

    fn ask<'a>(&'a self, summary: &'a Summary) -> Asking<'a> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let question = Question {
                name: summary.name.clone(),
                at: self.start.elapsed(),
                answer,
            };
            let _ = self.asked.send(question);
            answered.await.expect("the test dropped the question")
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Assessed(u32, u8, String),
    Refused(u32),
    Missed(u32),
    Failed(u32),
}

struct Ends(mpsc::UnboundedSender<End>);

impl Outcomes for Ends {
    fn assessed(&self, ticket: Ticket, answers: Answers, model: &str, _expires: Instant) {
        let _ = self
            .0
            .send(End::Assessed(ticket.slot, answers.keep.get(), model.to_owned()));
    }

    fn refused(&self, ticket: Ticket, _expires: Instant) {
        let _ = self.0.send(End::Refused(ticket.slot));
    }

    fn missed(&self, ticket: Ticket) {
        let _ = self.0.send(End::Missed(ticket.slot));
    }

    fn failed(&self, ticket: Ticket) {
        let _ = self.0.send(End::Failed(ticket.slot));
    }
}

struct Bench {
    inference: Arc<Inference>,
    task: JoinHandle<()>,
    stop: CancellationToken,
    server: Arc<Server>,
    questions: mpsc::UnboundedReceiver<Question>,
    ends: mpsc::UnboundedReceiver<End>,
    registry: Registry,
}

/// Two workers, eight places, ten requests a second.
fn bench() -> Bench {
    let (asked, questions) = mpsc::unbounded_channel();
    let (ended, ends) = mpsc::unbounded_channel();
    let server = Arc::new(Server {
        start: TokioInstant::now(),
        asked,
        obstacle: Mutex::new(None),
    });
    let one = NonZeroU32::MIN;
    let room = Local::new(NonZeroU32::new(10).unwrap(), one, TTL);
    let mut registry = Registry::default();
    let stop = CancellationToken::new();
    let (inference, task) = Inference::start_asking(
        Arc::clone(&server) as Arc<dyn Ask>,
        Pace {
            queue_size: NonZeroUsize::new(8).unwrap(),
            workers: NonZeroUsize::new(2).unwrap(),
            ttl: TTL,
        },
        Arc::new(room),
        Arc::new(Ends(ended)),
        &mut registry,
        stop.clone(),
    );
    Bench {
        inference,
        task,
        stop,
        server,
        questions,
        ends,
        registry,
    }
}

impl Bench {
    fn offer(&self, slot: u32) -> bool {
        let summary = Summary {
            name: format!("m{slot}"),
            ..fixtures::summary()
        };
        self.inference
            .offer(Item {
                ticket: Ticket { slot, generation: 1 },
                identity: test_identity::identity(&summary.name),
                rank: unknown(1),
                summary,
            })
            .is_ok()
    }

    fn wants(&self) -> bool {
        self.inference.wants(unknown(1)) == Want::Summary
    }

    async fn question(&mut self) -> Question {
        self.questions.recv().await.unwrap()
    }

    /// Offers, awaits the question, answers it and returns the end.
    async fn round(&mut self, slot: u32, answer: Result<Reply, Failure>) -> End {
        assert!(self.offer(slot));
        self.question().await.answer.send(answer).unwrap();
        self.ends.recv().await.unwrap()
    }

    /// Nobody is asked for this long.
    async fn nothing_is_asked_for(&mut self, time: Duration) {
        assert!(timeout(time, self.questions.recv()).await.is_err());
    }

    fn health(&self) -> Health {
        self.inference.state(now()).health
    }

    fn metric(&self, series: &str) -> Option<f64> {
        fixtures::metric(&self.registry, series)
    }
}

#[allow(clippy::unnecessary_wraps, reason = "the counterpart of `bad`")]
fn good() -> Result<Reply, Failure> {
    Ok(reply::parse(fixtures::reply().to_string().as_bytes()).unwrap())
}

fn bad(cause: Cause) -> Result<Reply, Failure> {
    Err(Failure::new(cause))
}

fn assessed(slot: u32) -> End {
    End::Assessed(slot, 81, "jev-1.13.0".into())
}

fn unknown(points: u64) -> Rank {
    Rank::unknown(points)
}

const TTL: Duration = Duration::from_mins(15);
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn answers_reach_their_ticket_and_are_counted() {
    let mut bench = bench();
    assert_eq!(bench.health(), Health::Idle);
    assert_eq!(bench.round(7, good()).await, assessed(7));
    tokio::time::advance(SECOND).await;
    let state = bench.inference.state(now());
    assert_eq!(state.health, Health::Healthy);
    assert_eq!(state.answering_model.as_deref(), Some("jev-1.13.0"));
    assert_eq!(state.last_success_age, Some(SECOND));
    for (series, value) in [
        ("jevmetrics_queue_enqueued_total", 1.0),
        ("jevmetrics_queue_rejected_total", 0.0),
        ("jevmetrics_inference_requests_total", 1.0),
        ("jevmetrics_score_success_total", 1.0),
        ("jevmetrics_score_duration_seconds_count", 1.0),
        ("jevmetrics_inference_tokens_total{direction=\"input\"}", 402.0),
        ("jevmetrics_inference_tokens_total{direction=\"output\"}", 74.0),
        ("jevmetrics_inference_queue_length", 0.0),
        ("jevmetrics_inference_cooling_down", 0.0),
        ("jevmetrics_inference_answering_model{model=\"jev-1.13.0\"}", 1.0),
    ] {
        assert_eq!(bench.metric(series), Some(value), "{series}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_latest_model_has_a_series() {
    let mut bench = bench();
    bench.round(1, good()).await;
    bench
        .round(
            2,
            good().map(|reply| Reply {
                model: "jev-1.14.0".into(),
                ..reply
            }),
        )
        .await;
    assert_eq!(
        bench.metric("jevmetrics_inference_answering_model{model=\"jev-1.13.0\"}"),
        None
    );
    assert_eq!(
        bench.metric("jevmetrics_inference_answering_model{model=\"jev-1.14.0\"}"),
        Some(1.0)
    );
    assert_eq!(
        bench.inference.state(now()).answering_model.as_deref(),
        Some("jev-1.14.0")
    );
}

#[tokio::test(start_paused = true)]
async fn questions_are_asked_in_order_at_the_budgeted_rate() {
    let mut bench = bench();
    for slot in 0..5 {
        assert!(bench.offer(slot));
    }
    for slot in 0..5 {
        let question = bench.question().await;
        assert_eq!(question.name, format!("m{slot}"));
        let due = Duration::from_millis(100) * slot;
        // The timer of tokio rounds up to whole milliseconds.
        assert!(
            question.at >= due && question.at < due + Duration::from_millis(10),
            "{:?}",
            question.at
        );
        question.answer.send(good()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_questions_are_under_way_than_there_are_workers() {
    let mut bench = bench();
    for slot in 0..3 {
        assert!(bench.offer(slot));
    }
    let first = bench.question().await;
    let second = bench.question().await;
    bench.nothing_is_asked_for(60 * SECOND).await;
    second.answer.send(good()).unwrap();
    assert_eq!(bench.ends.recv().await, Some(assessed(1)));
    assert_eq!(bench.question().await.name, "m2");
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_gives_items_back_and_what_is_under_way_counts() {
    let mut bench = bench();
    for slot in 0..8 {
        assert!(bench.wants());
        assert!(bench.offer(slot));
    }
    let question = bench.question().await;
    assert!(!bench.wants());
    assert!(!bench.offer(8));
    bench.inference.count_rejected(3);
    assert_eq!(bench.metric("jevmetrics_inference_queue_length"), Some(8.0));
    assert_eq!(bench.metric("jevmetrics_queue_rejected_total"), Some(4.0));

    question.answer.send(good()).unwrap();
    assert_eq!(bench.ends.recv().await, Some(assessed(0)));
    assert!(bench.wants());
    assert!(bench.offer(9));
}

#[tokio::test(start_paused = true)]
async fn while_asking_pauses_offers_are_refused_and_queued_items_wait() {
    let mut bench = bench();
    assert!(bench.offer(0));
    assert!(bench.offer(1));
    let first = bench.question().await;
    first.answer.send(bad(Cause::ServerError)).unwrap();
    assert_eq!(bench.ends.recv().await, Some(End::Failed(0)));
    tokio::task::yield_now().await;
    assert!(!bench.wants());
    assert!(!bench.offer(2));
    assert_eq!(bench.metric("jevmetrics_inference_cooling_down"), Some(1.0));
    assert_eq!(
        bench.health(),
        Health::CoolingDown {
            cause: Cause::ServerError,
            remaining: SECOND
        }
    );

    let second = bench.question().await;
    assert_eq!(second.name, "m1");
    assert!(second.at >= SECOND);
    assert!(bench.wants());
    assert_eq!(bench.metric("jevmetrics_inference_cooling_down"), Some(0.0));
    second.answer.send(good()).unwrap();
    assert_eq!(bench.ends.recv().await, Some(assessed(1)));
    assert_eq!(bench.health(), Health::Healthy);
}

#[tokio::test(start_paused = true)]
async fn offers_are_welcome_again_after_a_pause_also_when_nothing_is_queued() {
    let mut bench = bench();
    bench.round(0, bad(Cause::Timeout)).await;
    tokio::task::yield_now().await;
    assert!(!bench.wants());
    bench.nothing_is_asked_for(2 * SECOND).await;
    assert!(bench.wants());
}

#[tokio::test(start_paused = true)]
async fn a_configuration_fault_pauses_for_32_s_and_is_named() {
    let mut bench = bench();
    assert_eq!(bench.round(0, bad(Cause::Unauthorized)).await, End::Failed(0));
    let remaining = 32 * SECOND;
    assert_eq!(
        bench.health(),
        Health::ConfigurationFault {
            cause: Cause::Unauthorized,
            remaining
        }
    );
    assert_eq!(
        bench.metric("jevmetrics_score_failure_total{cause=\"unauthorized\"}"),
        Some(1.0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_refusal_concerns_its_instrument_only() {
    let mut bench = bench();
    for slot in 0..4 {
        assert_eq!(bench.round(slot, bad(Cause::Refused)).await, End::Refused(slot));
    }
    assert_eq!(bench.round(4, good()).await, assessed(4));
    for slot in 5..9 {
        assert_eq!(bench.round(slot, bad(Cause::Refused)).await, End::Refused(slot));
    }
    assert!(bench.wants());
    assert_eq!(bench.health(), Health::Healthy);
}

#[tokio::test(start_paused = true)]
async fn five_instruments_refused_in_a_row_are_a_failure_until_one_is_answered() {
    let mut bench = bench();
    for slot in [0, 1, 1, 2, 3] {
        assert_eq!(bench.round(slot, bad(Cause::Refused)).await, End::Refused(slot));
    }
    assert_eq!(bench.round(4, bad(Cause::Refused)).await, End::Failed(4));
    assert_eq!(
        bench.health(),
        Health::CoolingDown {
            cause: Cause::Refused,
            remaining: SECOND
        }
    );
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(bench.round(5, bad(Cause::Refused)).await, End::Failed(5));
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(bench.round(6, good()).await, assessed(6));
    assert_eq!(bench.round(7, bad(Cause::Refused)).await, End::Refused(7));
}

#[tokio::test(start_paused = true)]
async fn without_the_key_nothing_is_asked_and_nothing_is_lost() {
    let mut bench = bench();
    *bench.server.obstacle.lock().unwrap() = Some(Cause::KeyMissing);
    assert_eq!(bench.health(), Health::KeyMissing);
    assert!(bench.offer(0));
    bench.nothing_is_asked_for(100 * SECOND).await;
    assert_eq!(bench.metric("jevmetrics_inference_requests_total"), Some(0.0));
    *bench.server.obstacle.lock().unwrap() = None;
    let came = bench.server.start.elapsed();
    let question = bench.question().await;
    assert!(
        question.at <= came + SECOND,
        "a key that comes does not wait for the pause"
    );
    question.answer.send(good()).unwrap();
    assert_eq!(bench.ends.recv().await, Some(assessed(0)));
    assert_eq!(bench.health(), Health::Healthy);
    assert!(bench.wants());
}

#[tokio::test(start_paused = true)]
async fn a_stop_fails_what_is_queued_and_what_is_under_way() {
    let mut bench = bench();
    for slot in 0..4 {
        assert!(bench.offer(slot));
    }
    let under_way = bench.question().await;
    bench.stop.cancel();
    (&mut bench.task).await.unwrap();
    let mut failed = Vec::new();
    while let Ok(end) = bench.ends.try_recv() {
        let End::Failed(slot) = end else { panic!("{end:?}") };
        failed.push(slot);
    }
    failed.sort_unstable();
    assert_eq!(failed, [0, 1, 2, 3]);
    assert!(under_way.answer.is_closed(), "the question was aborted");
    assert!(!bench.wants());
    assert!(!bench.offer(9));
    assert!(
        bench.ends.try_recv().is_err(),
        "what was given back is not reported"
    );
    assert_eq!(
        bench.metric("jevmetrics_score_failure_total{cause=\"cancelled\"}"),
        Some(4.0)
    );
    assert_eq!(bench.metric("jevmetrics_queue_enqueued_total"), Some(4.0));
    assert_eq!(bench.metric("jevmetrics_inference_queue_length"), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_asking_fails_its_instrument_and_asking_goes_on() {
    let mut bench = bench();
    assert!(bench.offer(0));
    drop(bench.question().await);
    assert_eq!(bench.ends.recv().await, Some(End::Failed(0)));
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(
        bench.health(),
        Health::CoolingDown {
            cause: Cause::Internal,
            remaining: Duration::ZERO
        }
    );
    assert_eq!(bench.round(1, good()).await, assessed(1));
    assert!(bench.ends.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn also_an_aborted_dispatcher_reports_every_item_once() {
    let mut bench = bench();
    for slot in 0..3 {
        assert!(bench.offer(slot));
    }
    let _under_way = bench.question().await;
    bench.task.abort();
    assert!((&mut bench.task).await.unwrap_err().is_cancelled());
    let mut failed = Vec::new();
    for _ in 0..3 {
        let Some(End::Failed(slot)) = bench.ends.recv().await else {
            panic!()
        };
        failed.push(slot);
    }
    failed.sort_unstable();
    assert_eq!(failed, [0, 1, 2]);
    assert!(!bench.wants());
    assert!(!bench.offer(9));
}
