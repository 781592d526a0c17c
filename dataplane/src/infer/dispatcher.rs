//! The task that sees to what came in: looks up, gives turns, reports what came of it.
//!
//! ```text
//! exit -> sought ---look-up--> found: settled, missed: told
//!      -> agenda ---look-up--> found: settled, missed: ready, and looked up again while it waits
//!               '--gate open, key there, worker free--> turn -> settled, or back to the agenda
//! ```
//! One task owns order, gates and health; the tasks that it starts only wait for others. While nobody may ask, what is
//! queued stays queued, in order. On a stop everything unanswered is reported as failed, leases are given back, and
//! nothing is left running.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use jevmetrics_otlp::identity::Identity;
use tokio::task::{Id, JoinError, JoinSet};

use super::agenda::{Agenda, Entry};
use super::cooldown::{Cooldown, Failed};
use super::failure::{Cause, Failure, Scope};
use super::gate::Gate;
use super::outage::{Change, Outage};
use super::owner::Ended;
use super::queue::{Claim, Exit, Incoming, Pending, Sought};
use super::rank::Rank;
use super::reply::Reply;
use super::sharing::Sharing;
use super::state::Seen;
use super::turn::{NotYet, Turn, Turns};
use crate::chance::random;
use crate::clock::now;
use crate::coordinate::trouble::Trouble;
use crate::coordinate::{self, LOOK_UP_BATCH, Pauses, Shared, Verdict, Wait};

/// How often is looked whether a missing key has come. Its file is read as often.
const KEY_LOOKS: Duration = Duration::from_secs(1);
/// A look-up waits so long for company.
const COMPANY: Duration = Duration::from_millis(10);
/// What waits for its turn is looked up again after so long: others may have asked meanwhile.
const LOOK_AGAIN: Duration = Duration::from_secs(3);
/// So many in a look-up may be those that wait, when others are new.
const AGAIN_AT_ONCE: usize = 64;
/// After a wait for the places of the group, turns are taken with pauses for so long: others want theirs as well.
const CONTENDED: Duration = Duration::from_secs(10);
/// The longest of these pauses.
const COURTESY: Duration = Duration::from_millis(250);
/// A sign that asking works is noted once in so long.
const SIGNS: Duration = Duration::from_secs(1);
/// How long nobody asks after a trouble that the room has no pause for.
const LEAST_PAUSE: Duration = Duration::from_millis(250);
/// How long nobody asks after a task has failed.
const UNTOLD: Duration = Duration::from_secs(1);

/// What a task hands back.
enum Done {
    LookedUp(LookedUp, Result<coordinate::LookUp, Trouble>),
    Turn(Turn),
}

/// For whom a look-up is: first those that wait for their turn, by their numbers, then the others.
struct LookedUp {
    waiting: Vec<u64>,
    sought: Vec<Sought>,
}

/// See the head of the module.
pub(super) struct Dispatcher {
    turns: Turns,
    workers: usize,
    size: usize,
    exit: Exit,
    /// To be looked up, in the order of arrival; empty in a room that shares nothing.
    sought: VecDeque<Sought>,
    /// Since when something waits for its first look-up.
    new_since: Option<Instant>,
    looking: Option<Id>,
    reading: Gate,
    /// Whether the latest look-up failed.
    is_reading_failing: bool,
    contended_until: Option<Instant>,
    agenda: Agenda<Box<Pending>>,
    asking: Gate,
    taking_turns: usize,
    running: JoinSet<Done>,
    outage: Outage,
    sharing: Arc<Sharing>,
    seen: Arc<ArcSwap<Seen>>,
}

impl Dispatcher {
    pub(super) fn new(
        turns: Turns,
        workers: NonZeroUsize,
        size: NonZeroUsize,
        exit: Exit,
        sharing: Arc<Sharing>,
        seen: Arc<ArcSwap<Seen>>,
    ) -> Self {
        Self {
            turns,
            workers: workers.get(),
            size: size.get(),
            exit,
            sought: VecDeque::new(),
            new_since: None,
            looking: None,
            reading: Gate::default(),
            is_reading_failing: false,
            contended_until: None,
            agenda: Agenda::new(),
            asking: Gate::default(),
            taking_turns: 0,
            running: JoinSet::new(),
            outage: Outage::default(),
            sharing,
            seen,
        }
    }

    /// Works until the stop, then reports everything unanswered as failed and returns.
    pub(super) async fn run(mut self) {
        let stop = self.turns.stop.clone();
        let mut offers = true;
        loop {
            while let Some(incoming) = self.exit.try_next() {
                self.take_in(incoming);
            }
            let now = now();
            self.look_up(now);
            self.give_turns(now);
            self.show(now);
            let wakes_at = self.wakes_at(now);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(joined) = self.running.join_next() => self.settle(joined),
                incoming = self.exit.next(), if offers => match incoming {
                    Some(incoming) => self.take_in(incoming),
                    None => offers = false,
                },
                () = until(wakes_at) => {}
            }
        }
        self.exit.close();
        self.sought.clear();
        self.agenda = Agenda::new();
        while let Some(incoming) = self.exit.next().await {
            drop(incoming);
        }
        // Each ends by itself: questions at once, admissions and what they led to within the room's own time.
        while self.running.join_next().await.is_some() {}
        let _ = self.turns.room.close().await;
    }

    fn is_shared(&self) -> bool {
        self.turns.room.is_shared()
    }

    fn take_in(&mut self, incoming: Incoming) {
        let now = now();
        match incoming {
            Incoming::Pending(pending) => {
                let Some(pending) = self.find_place(pending) else {
                    return;
                };
                let rank = pending.rank;
                let looked_up = (!self.is_shared()).then_some(now);
                self.agenda.enter(pending, rank, looked_up);
            }
            Incoming::Sought(sought) => self.sought.push_back(sought),
        }
        self.new_since.get_or_insert(now);
    }

    /// A full queue gives the place of the one that needs its answer least to one that needs it more.
    fn find_place(&mut self, pending: Box<Pending>) -> Option<Box<Pending>> {
        if self.exit.taken() <= self.size {
            return Some(pending);
        }
        match self.agenda.least_worth() {
            // All others are being looked up or asked about: it waits for one of their places.
            None => Some(pending),
            Some(least) if least < pending.rank.worth() => {
                if let Some(displaced) = self.agenda.take_least() {
                    displaced.claim.failed(Cause::Displaced);
                }
                Some(pending)
            }
            Some(_) => {
                pending.claim.failed(Cause::Displaced);
                None
            }
        }
    }

    /// When the next look-up has its company, or what waits is to be looked up again.
    fn next_look_up(&self) -> Option<Instant> {
        if !self.is_shared() || self.looking.is_some() {
            return None;
        }
        let is_new = !self.sought.is_empty() || self.agenda.has_new();
        let new = self.new_since.filter(|_| is_new).map(|since| {
            if self.sought.len() >= LOOK_UP_BATCH {
                since
            } else {
                since + COMPANY
            }
        });
        let again = self.agenda.oldest_look_up().map(|at| at + LOOK_AGAIN);
        let next = [new, again].into_iter().flatten().min()?;
        Some(self.reading.closed_until(next).unwrap_or(next))
    }

    fn look_up(&mut self, now: Instant) {
        if self.next_look_up().is_none_or(|at| at > now) {
            return;
        }
        let due = |before, most| self.agenda.to_look_up(before, most);
        let new = due(None, LOOK_UP_BATCH);
        let room = LOOK_UP_BATCH - new.len();
        let is_more = room == 0;
        let again_before = now.checked_sub(LOOK_AGAIN);
        let most = if self.sought.len() < room {
            LOOK_UP_BATCH - self.sought.len()
        } else {
            new.len() + room.min(AGAIN_AT_ONCE)
        };
        let waiting = due(again_before, most.max(new.len()));
        let mut identities: Vec<Identity> = waiting.iter().map(|(_, item)| item.identity).collect();
        let waiting: Vec<u64> = waiting.into_iter().map(|(number, _)| number).collect();
        let others = self.sought.len().min(LOOK_UP_BATCH.saturating_sub(waiting.len()));
        let sought: Vec<Sought> = self.sought.drain(..others).collect();
        identities.extend(sought.iter().map(|sought| sought.identity));
        let room = Arc::clone(&self.turns.room);
        let batch = LookedUp { waiting, sought };
        let looking = self.running.spawn(async move {
            let result = room.look_up(&identities).await;
            Done::LookedUp(batch, result)
        });
        self.looking = Some(looking.id());
        // What is left had its company.
        let is_left = !self.sought.is_empty() || is_more;
        self.new_since = self.new_since.filter(|_| is_left);
    }

    fn give_turns(&mut self, now: Instant) {
        while self.taking_turns < self.workers && self.asking.closed_until(now).is_none() {
            let Some(entry) = self.agenda.next(now) else {
                return;
            };
            if let Some(cause) = self.turns.ask.obstacle() {
                // Nobody refused anything, so there is nobody to be left alone: the room need not know.
                self.agenda.give_back(entry);
                self.note_failure(&Failure::new(cause), now, KEY_LOOKS, now);
                return;
            }
            self.taking_turns += 1;
            let turns = self.turns.clone();
            self.running
                .spawn(async move { Done::Turn(turns.take(entry).await) });
        }
    }

    fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let turn = self
            .agenda
            .wakes_at(now)
            .filter(|_| self.taking_turns < self.workers);
        let turn = turn.map(|at| self.asking.closed_until(now).map_or(at, |until| until.max(at)));
        // Also when nothing is queued: what is new is welcome again then.
        let gates = [&self.reading, &self.asking].map(|gate| gate.closed_until(now));
        [self.next_look_up(), turn, gates[0], gates[1]]
            .into_iter()
            .flatten()
            .min()
    }

    fn settle(&mut self, joined: Result<Done, JoinError>) {
        let now = now();
        match joined {
            Ok(Done::LookedUp(batch, result)) => {
                self.looking = None;
                self.looked_up(batch, result, now);
            }
            Ok(Done::Turn(turn)) => {
                self.taking_turns -= 1;
                self.end_turn(turn, now);
            }
            Err(error) => {
                // The claims were dropped with the task, and so was what it would have handed back.
                tracing::error!(
                    panicked = error.is_panic(),
                    "a question to the model ended unexpectedly"
                );
                if self.looking == Some(error.id()) {
                    self.looking = None;
                } else {
                    self.taking_turns -= 1;
                }
                self.note_failure(&Failure::new(Cause::Internal), now, UNTOLD, now);
            }
        }
    }

    fn looked_up(&mut self, batch: LookedUp, result: Result<coordinate::LookUp, Trouble>, now: Instant) {
        let found = match result {
            Ok(coordinate::LookUp::Found(found)) => found,
            Ok(coordinate::LookUp::Mismatch(mismatch)) => {
                self.answered(now);
                self.contradicted(mismatch, now);
                self.not_looked_up(batch, now);
                return;
            }
            Err(trouble) => {
                self.failed(trouble, now);
                self.reading.pause_for(LEAST_PAUSE, now);
                self.not_looked_up(batch, now);
                return;
            }
        };
        self.is_reading_failing = false;
        self.reading.open();
        self.answered(now);
        self.sharing.no_mismatch();
        let mut found = found.into_iter();
        let mut hits: u64 = 0;
        let all = batch.waiting.len() + batch.sought.len();
        for (number, shared) in batch.waiting.into_iter().zip(found.by_ref()) {
            // Whoever has its turn by now hears of it there.
            let Some(rank) = self.agenda.rank_of(number) else {
                continue;
            };
            match shared.filter(|shared| self.is_of_use(shared, rank, now)) {
                Some(shared) => {
                    hits += 1;
                    if let Some(pending) = self.agenda.take(number) {
                        settle_shared(pending.claim, shared);
                    }
                }
                None => self.agenda.looked_up(number, now),
            }
        }
        for (sought, shared) in batch.sought.into_iter().zip(found) {
            match shared.filter(|shared| self.is_of_use(shared, sought.rank, now)) {
                Some(shared) => {
                    hits += 1;
                    settle_shared(sought.claim, shared);
                }
                None => sought.claim.missed(),
            }
        }
        if hits > 0 {
            self.note_sign(now);
        }
        let stats = &self.turns.stats;
        stats.count_look_ups("hit", hits);
        stats.count_look_ups("miss", all as u64 - hits);
    }

    /// A refresh wants more than what it has.
    fn is_of_use(&self, shared: &Shared, rank: Rank, now: Instant) -> bool {
        shared.expires.saturating_duration_since(now) > self.turns.least(rank)
    }

    /// What has a summary waits for the next look-up. What has none comes again: nobody must hold a place for as long as
    /// Redis is away.
    fn not_looked_up(&mut self, batch: LookedUp, now: Instant) {
        self.new_since.get_or_insert(now);
        let all = batch.waiting.len() + batch.sought.len();
        self.turns.stats.count_look_ups("failed", all as u64);
        self.is_reading_failing = true;
        for sought in batch.sought.into_iter().chain(self.sought.drain(..)) {
            sought.claim.failed(Cause::Cancelled);
        }
    }

    fn end_turn(&mut self, turn: Turn, now: Instant) {
        match turn {
            Turn::Hit(entry, shared) => {
                self.answered(now);
                self.sharing.no_mismatch();
                self.note_sign(now);
                settle_shared(entry.item.claim, shared);
            }
            Turn::NotYet(entry, reason) => self.not_yet(entry, reason, now),
            Turn::Asked {
                claim,
                asked_at,
                ended,
            } => {
                self.answered(now);
                self.sharing.agreed();
                self.end_group_pause();
                self.asked(claim, asked_at, ended, now);
                if self.contended_until.is_some_and(|until| now < until) {
                    self.asking.close_for(COURTESY.mul_f64(random()), now);
                }
            }
        }
    }

    fn not_yet(&mut self, entry: Entry<Box<Pending>>, reason: NotYet, now: Instant) {
        let wait = match reason {
            NotYet::Wait(wait) => wait,
            NotYet::Mismatch(mismatch) => {
                self.answered(now);
                self.turns.stats.count_wait("mismatch");
                self.contradicted(mismatch, now);
                self.agenda.give_back(entry);
                return;
            }
            NotYet::Trouble(trouble) => {
                self.failed(trouble, now);
                self.agenda.give_back(entry);
                return;
            }
        };
        self.turns.stats.count_wait(wait.as_str());
        self.answered(now);
        self.sharing.waits(&wait, now);
        match wait {
            Wait::Lease(_) => {
                self.others_ask(now);
                self.agenda.come_back(entry, now, random());
                return;
            }
            Wait::InFlight => {
                self.others_ask(now);
                self.contended_until = Some(now + CONTENDED);
                self.asking.close_for(COURTESY.mul_f64(0.4 + 0.6 * random()), now);
            }
            Wait::Rate(left) => {
                self.others_ask(now);
                self.asking.close_for(left + self.spread(), now);
            }
            Wait::Cooldown(left) => {
                if self.outage.trouble().is_none() {
                    self.note_failure(&Failure::new(Cause::GroupPause), now, left, now);
                }
                self.outage.lasts(now + left);
                self.show_trouble();
                self.asking.pause_for(left + self.spread(), now);
            }
            Wait::Pending { left, .. } => {
                self.asking.pause_for(left + self.spread(), now);
            }
            Wait::Superseded(_) => {
                self.asking.pause(now, random());
            }
        }
        self.agenda.give_back(entry);
    }

    /// The budget is spent on questions, or somebody asks this very one: asking works, and no pause is on.
    fn others_ask(&mut self, now: Instant) {
        if self.is_shared() {
            self.note_sign(now);
            self.end_group_pause();
        }
    }

    /// Whoever gets past the pause of the group finds it over.
    fn end_group_pause(&mut self) {
        let trouble = self.outage.trouble();
        if trouble.is_some_and(|(trouble, _)| trouble.cause == Cause::GroupPause) {
            self.outage = Outage::default();
            self.show_trouble();
            tracing::info!("the group asks again");
        }
    }

    /// Something showed that asking works, here or elsewhere.
    fn note_sign(&self, now: Instant) {
        let former = self.seen.load();
        let is_recent = |at: Instant| now.saturating_duration_since(at) < SIGNS;
        if !former.last_sign.is_some_and(is_recent) {
            self.seen.store(Arc::new(Seen {
                last_sign: Some(now),
                ..Seen::clone(&former)
            }));
        }
    }

    /// Replicas that were told the same time need not all come at once.
    fn spread(&self) -> Duration {
        if self.is_shared() {
            Duration::from_millis(50).mul_f64(random())
        } else {
            Duration::ZERO
        }
    }

    fn asked(&mut self, claim: Claim, asked_at: Instant, ended: Ended, now: Instant) {
        match ended {
            Ended::Assessed(reply, expires) => {
                self.succeeded(&reply, asked_at, now);
                claim.assessed(reply.answers, &reply.model, expires);
            }
            Ended::Refused(cause, expires) => {
                tracing::debug!(cause = cause.as_str(), "the model refused an instrument");
                self.asking.open();
                claim.refused(cause, expires);
            }
            Ended::Failed(failure, pause) => {
                tracing::debug!(%failure, "the model gave no assessment");
                if failure.cause() == Cause::Cancelled {
                    claim.failed(failure.cause());
                    return;
                }
                let told = pause.filter(|pause| !pause.is_zero());
                let pause = told.unwrap_or_else(|| own_pause(&failure, now));
                self.note_failure(&failure, asked_at, pause, now);
                claim.asked_in_vain(failure.cause());
            }
            Ended::Late => {
                tracing::debug!("an answer came after its lease: thrown away");
                claim.failed(Cause::LeaseOver);
            }
            Ended::Unpublished(trouble) => {
                self.failed(trouble, now);
                claim.failed(Cause::Unpublished);
            }
        }
    }

    fn succeeded(&mut self, reply: &Reply, asked_at: Instant, now: Instant) {
        self.turns.refusals.end();
        if self.outage.succeeded(asked_at) == Some(Change::Recovered) {
            tracing::info!(model = reply.model, "asking the model works again");
        }
        if self.outage.trouble().is_none() {
            self.asking.open();
        }
        let former = self.seen.load();
        let known = former.model.as_ref().filter(|model| ***model == *reply.model);
        let model = known.cloned().unwrap_or_else(|| {
            tracing::info!(model = reply.model, "the model that answers is now this one");
            self.turns.stats.show_model(&reply.model);
            reply.model.as_str().into()
        });
        self.seen.store(Arc::new(Seen {
            trouble: self.outage.trouble(),
            last_success: Some(now),
            last_sign: Some(now),
            model: Some(model),
        }));
    }

    /// Nobody asks for `pause`.
    fn note_failure(&mut self, failure: &Failure, asked_at: Instant, pause: Duration, now: Instant) {
        let change = self
            .outage
            .failed(asked_at, failure.cause().trouble(), pause, now);
        if let Some(Change::Failing(trouble)) = change {
            if trouble.configuration {
                tracing::error!(%failure, ?pause, "the model cannot be asked as configured: everything new is kept");
            } else {
                tracing::warn!(%failure, ?pause, "asking the model fails: everything new is kept");
            }
        }
        self.asking.pause_for(pause, now);
        self.show_trouble();
    }

    /// The room answered.
    fn answered(&self, now: Instant) {
        self.sharing.answered(self.turns.room.trouble(), now);
    }

    /// The room did not answer, or not as it should.
    fn failed(&mut self, trouble: Trouble, now: Instant) {
        self.sharing.failed(trouble, now);
        let Pauses { reading, writing } = self.turns.room.pauses();
        self.reading.pause_for(reading, now);
        self.asking.pause_for(writing.max(reading).max(LEAST_PAUSE), now);
    }

    fn contradicted(&mut self, mismatch: coordinate::Mismatch, now: Instant) {
        let text = mismatch.to_string();
        if self.sharing.mismatch(mismatch) {
            tracing::error!("{text}: nothing is looked up or asked");
        }
        for gate in [&mut self.reading, &mut self.asking] {
            gate.pause(now, random());
        }
    }

    fn show_trouble(&self) {
        let former = self.seen.load();
        self.seen.store(Arc::new(Seen {
            trouble: self.outage.trouble(),
            ..Seen::clone(&former)
        }));
    }

    /// Lets offers and scrapes see what is welcome.
    fn show(&mut self, now: Instant) {
        let trouble = self.outage.trouble();
        if trouble.is_some_and(|(trouble, _)| trouble.cause == Cause::KeyMissing)
            && self.turns.ask.obstacle().is_none()
        {
            self.outage = Outage::default();
            self.asking.open();
            self.show_trouble();
        }
        // While Redis is away an attempt that is under way is no sign that it is back.
        let reads =
            !self.is_reading_failing || (self.looking.is_none() && self.reading.closed_until(now).is_none());
        let asks = reads && !self.asking.is_pause(now);
        let looks = reads && self.is_shared();
        self.exit.set_welcome(asks, looks, self.agenda.least_worth());
        let stats = &self.turns.stats;
        let waiting = self.exit.taken().saturating_sub(self.taking_turns);
        stats.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        let is_pausing = self.outage.trouble().is_some_and(|(_, until)| until > now);
        stats.cooling_down.set(i64::from(is_pausing));
    }
}

/// How long to leave Jev alone if the room could not be told: what it would have said of a first failure.
fn own_pause(failure: &Failure, now: Instant) -> Duration {
    let mut cooldown = Cooldown::default();
    cooldown.failed(
        now,
        Failed {
            asked_at: now,
            configuration: failure.cause().scope() == Scope::Configuration,
            wait: failure.wait(),
        },
    );
    cooldown.remaining(now)
}

/// The group has an answer.
fn settle_shared(claim: Claim, shared: Shared) {
    match shared.verdict {
        Verdict::Assessed { answers, model } => claim.found(answers, &model, shared.expires),
        Verdict::Refused => claim.found_refused(shared.expires),
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[path = "dispatcher_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "shared_tests.rs"]
mod shared_tests;
