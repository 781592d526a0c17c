//! The task that decides when to ask, has it done, and reports what came of it.
//!
//! ```text
//! queue -> head -> (no cooldown, key there, worker free, token) -> asking task -> settle -> Outcomes
//! ```
//! One task owns cooldown, budget and the run of refusals; asking tasks only ask. While asking pauses, what is queued
//! stays queued, in order. On a stop everything unanswered is reported as failed, and nothing is left running.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::Ticket;
use super::ask::Ask;
use super::bucket::TokenBucket;
use super::cooldown::{Change, Cooldown, Failed};
use super::failure::{Cause, Failure, Scope};
use super::queue::{Claim, Exit, Pending};
use super::reply::Reply;
use super::state::Seen;
use super::stats::Stats;

/// So many different instruments refused in a row are no longer the instruments' fault.
const REFUSALS_IN_A_ROW: usize = 5;
/// How often is looked whether a missing key has come. Its file is read as often.
const KEY_LOOKS: Duration = Duration::from_secs(1);

/// How fast may be asked.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Questions under way at once.
    pub workers: NonZeroUsize,
    /// Requests begun per second, in the long run.
    pub requests_per_second: NonZeroU32,
    /// Requests that may begin at once after a rest.
    pub burst: NonZeroU32,
}

/// What an asking task hands back.
struct Asked {
    claim: Claim,
    began: Instant,
    result: Result<Reply, Failure>,
}

/// What to do next.
enum Step {
    /// Ask about the head of the queue.
    Ask,
    /// Wait for something to happen.
    Wait,
    /// Look again after this time, or when something happens.
    Sleep(Duration),
}

/// See the head of the module.
pub(super) struct Dispatcher {
    ask: Arc<dyn Ask>,
    workers: usize,
    bucket: TokenBucket,
    cooldown: Cooldown,
    /// Different tickets refused since the last success; at most [`REFUSALS_IN_A_ROW`].
    refused: Vec<Ticket>,
    running: JoinSet<Asked>,
    exit: Exit,
    seen: Arc<ArcSwap<Seen>>,
    stats: Stats,
}

impl Dispatcher {
    pub(super) fn new(
        ask: Arc<dyn Ask>,
        budget: Budget,
        exit: Exit,
        seen: Arc<ArcSwap<Seen>>,
        stats: Stats,
    ) -> Self {
        Self {
            ask,
            workers: budget.workers.get(),
            bucket: TokenBucket::new(budget.requests_per_second, budget.burst),
            cooldown: Cooldown::default(),
            refused: Vec::with_capacity(REFUSALS_IN_A_ROW),
            running: JoinSet::new(),
            exit,
            seen,
            stats,
        }
    }

    /// Works until `stop`, then reports everything unanswered as failed and returns.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut head: Option<Pending> = None;
        let mut offers = true;
        loop {
            let now = now();
            let step = self.step(now, head.is_some());
            self.show(now);
            if matches!(step, Step::Ask)
                && let Some(pending) = head.take()
            {
                self.begin(pending, now);
                continue;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(joined) = self.running.join_next() => self.settle(joined),
                next = self.exit.next(), if offers && head.is_none() => {
                    offers = next.is_some();
                    head = next;
                }
                () = pause(step) => {}
            }
        }
        self.exit.close();
        drop(head);
        while let Some(pending) = self.exit.next().await {
            drop(pending);
        }
        self.running.shutdown().await;
    }

    fn step(&mut self, now: Instant, waiting: bool) -> Step {
        let misses_key = self.misses_key();
        if misses_key && self.ask.obstacle().is_none() {
            // Nobody refused anything, so there is nobody to be left alone.
            self.cooldown = Cooldown::default();
            self.show_trouble();
        }
        let cooling = self.cooldown.remaining(now);
        if !cooling.is_zero() {
            return Step::Sleep(if misses_key {
                cooling.min(KEY_LOOKS)
            } else {
                cooling
            });
        }
        if !waiting || self.running.len() >= self.workers {
            return Step::Wait;
        }
        if let Some(cause) = self.ask.obstacle() {
            self.cool_down(&Failure::new(cause), now, now);
            return Step::Sleep(KEY_LOOKS);
        }
        match self.bucket.take(now) {
            Ok(()) => Step::Ask,
            Err(wait) => Step::Sleep(wait),
        }
    }

    fn begin(&mut self, pending: Pending, began: Instant) {
        let ask = Arc::clone(&self.ask);
        let duration = self.stats.duration.clone();
        self.stats.requests.inc();
        self.running.spawn(async move {
            let result = ask.ask(&pending.summary).await;
            duration.observe(now().saturating_duration_since(began).as_secs_f64());
            Asked {
                claim: pending.claim,
                began,
                result,
            }
        });
    }

    fn settle(&mut self, joined: Result<Asked, JoinError>) {
        let now = now();
        let Asked { claim, began, result } = match joined {
            Ok(asked) => asked,
            Err(error) => {
                // The claim was dropped with the task, and so was its reply.
                tracing::error!(
                    panicked = error.is_panic(),
                    "a question to the model ended unexpectedly"
                );
                self.cool_down(&Failure::new(Cause::Internal), now, now);
                return;
            }
        };
        match result {
            Ok(reply) => {
                self.succeeded(&reply, began, now);
                claim.assessed(reply.answers, &reply.model);
            }
            Err(failure) => {
                tracing::debug!(%failure, "the model gave no assessment");
                if failure.cause().scope() == Scope::Instrument && !self.too_many_refused(claim.ticket()) {
                    claim.refused(failure.cause());
                } else {
                    self.cool_down(&failure, began, now);
                    claim.failed(failure.cause());
                }
            }
        }
    }

    /// Notes a refusal, and tells whether the run of them is no longer about single instruments.
    fn too_many_refused(&mut self, ticket: Ticket) -> bool {
        if self.refused.len() < REFUSALS_IN_A_ROW && !self.refused.contains(&ticket) {
            self.refused.push(ticket);
        }
        self.refused.len() >= REFUSALS_IN_A_ROW
    }

    fn succeeded(&mut self, reply: &Reply, asked_at: Instant, now: Instant) {
        self.refused.clear();
        if let Some(usage) = reply.usage {
            self.stats.count_tokens(usage);
        }
        if self.cooldown.succeeded(asked_at) == Some(Change::Recovered) {
            tracing::info!(model = reply.model, "asking the model works again");
        }
        let former = self.seen.load();
        let known = former.model.as_ref().filter(|model| ***model == *reply.model);
        let model = known.cloned().unwrap_or_else(|| {
            tracing::info!(model = reply.model, "the model that answers is now this one");
            self.stats.show_model(&reply.model);
            reply.model.as_str().into()
        });
        self.seen.store(Arc::new(Seen {
            trouble: self.cooldown.trouble(),
            last_success: Some(now),
            model: Some(model),
        }));
    }

    fn cool_down(&mut self, failure: &Failure, asked_at: Instant, now: Instant) {
        let failed = Failed {
            asked_at,
            trouble: failure.cause().trouble(),
            wait: failure.wait(),
        };
        let change = self.cooldown.failed(now, failed);
        let pause = self.cooldown.remaining(now);
        if let Some(Change::Failing(trouble)) = change {
            if trouble.configuration {
                tracing::error!(%failure, ?pause, "the model cannot be asked as configured: everything new is kept");
            } else {
                tracing::warn!(%failure, ?pause, "asking the model fails: everything new is kept");
            }
        }
        self.show_trouble();
    }

    /// Whether asking pauses for want of the key.
    fn misses_key(&self) -> bool {
        let trouble = self.cooldown.trouble();
        trouble.is_some_and(|(trouble, _)| trouble.cause == Cause::KeyMissing)
    }

    fn show_trouble(&self) {
        let former = self.seen.load();
        self.seen.store(Arc::new(Seen {
            trouble: self.cooldown.trouble(),
            ..Seen::clone(&former)
        }));
    }

    /// Lets offers and scrapes see whether asking pauses.
    fn show(&self, now: Instant) {
        let cooling = !self.cooldown.remaining(now).is_zero();
        self.exit.set_open(!cooling);
        self.stats.cooling_down.set(i64::from(cooling));
    }
}

async fn pause(step: Step) {
    match step {
        Step::Sleep(time) => tokio::time::sleep(time).await,
        Step::Ask | Step::Wait => std::future::pending().await,
    }
}

/// tokio's clock, which tests can pause.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
#[path = "dispatcher_tests.rs"]
mod tests;
