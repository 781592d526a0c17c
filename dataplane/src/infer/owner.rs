//! What the owner of a lease does: asks once, and sees to it that the lease ends.
//!
//! ```text
//! lease --> ask, until the deadline --> publish, until it is answered or too late
//!              |        '--> refused --> publish the refusal, unless it is no longer about single instruments
//!              |--> failed --> tell the room
//!              '--> stop --> give the lease back
//! ```
//! Invariants: an answer counts only if the room confirmed it; the question is over by the lease's deadline; a stop ends
//! it at once but for one call, which the room bounds.

use std::time::{Duration, Instant};

use jevmetrics_otlp::summary::Summary;
use tokio_util::sync::CancellationToken;

use super::ask::Ask;
use super::failure::{Cause, Failure, Scope};
use super::reply::Reply;
use super::stats::Stats;
use crate::coordinate::trouble::Trouble;
use crate::coordinate::{Answering, Coordinate, Lease, Publication, Setback, Verdict};

/// Between two attempts to tell the room how a question ended.
const AGAIN: Duration = Duration::from_millis(250);

/// How a question ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// Answered and published: counts until then.
    Assessed(Reply, Instant),
    /// Refused and published: counts until then.
    Refused(Cause, Instant),
    /// Not answered. Nobody asks for so long, as far as the room could be told.
    Failed(Failure, Option<Duration>),
    /// Answered, but the lease was over: the answer must not be used. Perhaps there is a newer one to be looked up.
    Late,
    /// Answered, but the room could not be told in time: the answer must not be used.
    Unpublished(Trouble),
}

/// Whoever was admitted.
pub(super) struct Owner<'a> {
    pub(super) room: &'a dyn Coordinate,
    pub(super) ask: &'a dyn Ask,
    pub(super) stats: &'a Stats,
    /// Ends the question.
    pub(super) stop: &'a CancellationToken,
}

impl Owner<'_> {
    /// Asks about the instrument of `lease`. `concerns_all` is called when this instrument was refused: whether so many
    /// were in a row that it is not about the instruments.
    pub(super) async fn ask_about(
        &self,
        lease: Lease,
        summary: &Summary,
        concerns_all: impl FnOnce() -> bool,
    ) -> Ended {
        let asked = tokio::select! {
            biased;
            () = self.stop.cancelled() => {
                // The room bounds the call; if it fails, the lease ends by itself.
                let _ = self.room.release(&lease).await;
                return Ended::Failed(Failure::new(Cause::Cancelled), None);
            }
            asked = self.ask_until(summary, lease.deadline) => asked,
        };
        match asked {
            Ok(reply) => {
                if let Some(usage) = reply.usage {
                    self.stats.count_tokens(usage);
                }
                let verdict = Verdict::Assessed {
                    answers: reply.answers,
                    model: reply.model.clone(),
                };
                self.publish(&lease, &verdict, |expires| Ended::Assessed(reply, expires))
                    .await
            }
            Err(failure) if failure.cause().scope() == Scope::Instrument && !concerns_all() => {
                let refused = |expires| Ended::Refused(failure.cause(), expires);
                self.publish(&lease, &Verdict::Refused, refused).await
            }
            Err(failure) => {
                let setback = Setback {
                    cause: failure.cause(),
                    wait: failure.wait(),
                };
                let pause = self.insist(&lease, || self.room.fail(&lease, setback)).await;
                Ended::Failed(failure, pause.ok())
            }
        }
    }

    async fn ask_until(&self, summary: &Summary, deadline: Option<Instant>) -> Result<Reply, Failure> {
        let began = tokio::time::Instant::now();
        self.stats.requests.inc();
        let _asking = self.stats.asking();
        let asking = self.ask.ask(summary);
        let result = match deadline {
            None => asking.await,
            Some(deadline) => tokio::time::timeout_at(deadline.into(), asking)
                .await
                .unwrap_or_else(|_| Err(Failure::new(Cause::Timeout))),
        };
        self.stats.duration.observe(began.elapsed().as_secs_f64());
        result
    }

    async fn publish(
        &self,
        lease: &Lease,
        verdict: &Verdict,
        published: impl FnOnce(Instant) -> Ended,
    ) -> Ended {
        match self.insist(lease, || self.room.publish(lease, verdict)).await {
            Ok(Publication::Published(expires)) => published(expires),
            Ok(Publication::Late) => Ended::Late,
            Err(trouble) => {
                // Others need not wait for the end of the lease. A full server still takes it back.
                let _ = self.room.release(lease).await;
                Ended::Unpublished(trouble)
            }
        }
    }

    /// The end of a question has cost one: a call that fails is no reason to keep it from the room while the lease lasts.
    /// If the room had heard the first call all the same, the second one is late, and a look-up finds the answer.
    async fn insist<'a, T>(&self, lease: &Lease, call: impl Fn() -> Answering<'a, T>) -> Result<T, Trouble> {
        loop {
            let result = call().await;
            let again = tokio::time::Instant::now() + AGAIN;
            let in_time = lease.deadline.is_some_and(|deadline| again.into_std() < deadline);
            if result.is_ok() || !in_time || self.stop.is_cancelled() {
                return result;
            }
            tokio::time::sleep_until(again).await;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::collections::VecDeque;
    use std::future::ready;
    use std::sync::Mutex;

    use jevmetrics_otlp::identity::Identity;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::coordinate::{Admission, LookUp};
    use crate::infer::ask::Asking;
    use crate::infer::{fixtures, reply};
    use crate::test_identity;

    /// Notes its calls; publications are answered one by one, then always with `Published`.
    #[derive(Default)]
    struct Room {
        calls: Mutex<Vec<String>>,
        publications: Mutex<VecDeque<Result<Publication, Trouble>>>,
    }

    impl Room {
        fn note(&self, call: impl Into<String>) {
            self.calls.lock().unwrap().push(call.into());
        }

        fn calls(&self) -> Vec<String> {
            self.calls.lock().unwrap().clone()
        }
    }

    impl Coordinate for Room {
        fn is_shared(&self) -> bool {
            true
        }

        fn look_up<'a>(&'a self, _identities: &'a [Identity]) -> Answering<'a, LookUp> {
            unreachable!("an owner looks nothing up")
        }

        fn admit(&self, _identity: Identity, _least: Duration) -> Answering<'_, Admission> {
            unreachable!("an owner was admitted")
        }

        fn publish<'a>(&'a self, _lease: &'a Lease, verdict: &'a Verdict) -> Answering<'a, Publication> {
            self.note(match verdict {
                Verdict::Assessed { .. } => "publish answers",
                Verdict::Refused => "publish refusal",
            });
            let planned = self.publications.lock().unwrap().pop_front();
            let published = Publication::Published(tokio::time::Instant::now().into_std());
            Box::pin(ready(planned.unwrap_or(Ok(published))))
        }

        fn fail<'a>(&'a self, _lease: &'a Lease, setback: Setback) -> Answering<'a, Duration> {
            self.note(format!("fail {}", setback.cause.as_str()));
            Box::pin(ready(Ok(Duration::from_secs(1))))
        }

        fn release<'a>(&'a self, _lease: &'a Lease) -> Answering<'a, ()> {
            self.note("release");
            Box::pin(ready(Ok(())))
        }
    }

    /// Answers after a second.
    struct Jev(Result<Reply, Failure>);

    impl Ask for Jev {
        fn obstacle(&self) -> Option<Cause> {
            None
        }

        fn ask<'a>(&'a self, _summary: &'a Summary) -> Asking<'a> {
            Box::pin(async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.0.clone()
            })
        }
    }

    fn answer() -> Reply {
        reply::parse(fixtures::reply().to_string().as_bytes()).unwrap()
    }

    fn lease(deadline: Duration) -> Lease {
        let now = tokio::time::Instant::now().into_std();
        Lease {
            identity: test_identity::identity("a"),
            token: "t-1".to_owned(),
            asked_at: now,
            deadline: Some(now + deadline),
        }
    }

    async fn run(room: &Room, jev: Result<Reply, Failure>, deadline: Duration, concerns_all: bool) -> Ended {
        let owner = Owner {
            room,
            ask: &Jev(jev),
            stats: &Stats::register(&mut Registry::default()),
            stop: &CancellationToken::new(),
        };
        owner
            .ask_about(lease(deadline), &fixtures::summary(), || concerns_all)
            .await
    }

    const NINE: Duration = Duration::from_secs(9);

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_when_it_is_published() {
        let room = Room::default();
        assert!(matches!(
            run(&room, Ok(answer()), NINE, false).await,
            Ended::Assessed(..)
        ));
        assert_eq!(room.calls(), ["publish answers"]);
        let room = Room::default();
        room.publications.lock().unwrap().push_back(Ok(Publication::Late));
        assert!(matches!(run(&room, Ok(answer()), NINE, false).await, Ended::Late));
    }

    #[tokio::test(start_paused = true)]
    async fn publishing_is_tried_again_while_the_lease_lasts() {
        let room = Room::default();
        room.publications
            .lock()
            .unwrap()
            .extend([Err(Trouble::Timeout), Err(Trouble::Backoff)]);
        assert!(matches!(
            run(&room, Ok(answer()), NINE, false).await,
            Ended::Assessed(..)
        ));
        assert_eq!(room.calls().len(), 3);

        let room = Room::default();
        room.publications
            .lock()
            .unwrap()
            .extend(vec![Err(Trouble::Timeout); 100]);
        let ended = run(&room, Ok(answer()), Duration::from_secs(2), false).await;
        assert!(matches!(ended, Ended::Unpublished(Trouble::Timeout)));
        let mut expected = vec!["publish answers"; 4];
        expected.push("release");
        assert_eq!(room.calls(), expected, "at 1 s, and every 250 ms until 2 s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_shared_unless_it_concerns_all() {
        let refused = || Err(Failure::new(Cause::Refused));
        let room = Room::default();
        assert!(matches!(
            run(&room, refused(), NINE, false).await,
            Ended::Refused(Cause::Refused, _)
        ));
        assert_eq!(room.calls(), ["publish refusal"]);
        let room = Room::default();
        let ended = run(&room, refused(), NINE, true).await;
        assert!(matches!(ended, Ended::Failed(_, Some(_))));
        assert_eq!(room.calls(), ["fail refused"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_over_by_the_deadline() {
        let room = Room::default();
        let begin = tokio::time::Instant::now();
        let ended = run(&room, Ok(answer()), Duration::from_millis(700), false).await;
        assert!(matches!(ended, Ended::Failed(failure, _) if failure.cause() == Cause::Timeout));
        assert_eq!(begin.elapsed(), Duration::from_millis(700));
        assert_eq!(room.calls(), ["fail timeout"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_gives_the_lease_back_at_once() {
        let room = Room::default();
        let stop = CancellationToken::new();
        let summary = fixtures::summary();
        let jev = Jev(Ok(answer()));
        let stats = Stats::register(&mut Registry::default());
        let owner = Owner {
            room: &room,
            ask: &jev,
            stats: &stats,
            stop: &stop,
        };
        let asking = owner.ask_about(lease(NINE), &summary, || false);
        let begin = tokio::time::Instant::now();
        let stopping = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            stop.cancel();
        };
        let (ended, ()) = tokio::join!(asking, stopping);
        assert!(matches!(ended, Ended::Failed(failure, _) if failure.cause() == Cause::Cancelled));
        assert_eq!(begin.elapsed(), Duration::from_millis(300));
        assert_eq!(room.calls(), ["release"]);
    }
}
