//! From a request's bytes to what is sent on: walk, decide, splice. Synchronous; takes no lock when warm.
//!
//! ```text
//! Walk::read -> touch every alias -> find or admit, decide -> count, ask -> splice
//! ```
//! A request whose structure cannot be read is refused before anything of it is counted.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use jevmetrics_api::live::{LivePolicy, Mode};
use jevmetrics_otlp::companion::{Companion, SET_SIZE, Stamp};
use jevmetrics_otlp::identity::{ContextAttributes, Identities, Identity, IdentityMode};
use jevmetrics_otlp::summary::Summaries;
use jevmetrics_otlp::{Checks, Keys, Malformed, MetricRecord, Plan, Spliced, Walk, splice};

use super::assessments::{Assessments, Found, Seconds, State};
use super::decide::{Decision, Knowledge, Reason, decide};
use super::policy::Policy;
use super::tally::Tally;
use crate::infer::rank::Rank;
use crate::infer::{Enquiry, Item, Want};

/// Where questions go. All calls return at once.
pub trait Questions: Send + Sync {
    /// What of an instrument with this rank would be taken now: asked before a summary is made.
    fn wants(&self, rank: Rank) -> Want;
    /// Takes the item, or gives it back.
    #[allow(clippy::result_large_err, reason = "the item moves either way")]
    fn offer(&self, item: Item) -> Result<(), Item>;
    /// Has an instrument looked up; false if there is no room.
    fn look_up(&self, _enquiry: Enquiry) -> bool {
        false
    }
    /// Counts instruments that were not offered because nothing was wanted.
    fn count_rejected(&self, _instruments: u64) {}
}

/// The time of one request.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Since the process started.
    pub seconds: Seconds,
    /// For companions.
    pub unix_nanos: u64,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Processed {
    /// To be sent on; `None` if all was dropped.
    pub output: Option<Bytes>,
    /// The mode that was in force; `None` before the first reading of the policy.
    pub mode: Option<Mode>,
    /// Data points received. In Reduce: kept + dropped.
    pub received_points: u64,
    /// Data points sent on, companions apart.
    pub kept_points: u64,
    /// Data points removed by policy.
    pub dropped_points: u64,
    /// Metrics received.
    pub received_metrics: u64,
    /// Metrics removed by policy.
    pub dropped_metrics: u64,
    /// Metrics that got companions.
    pub annotated_metrics: u64,
    /// Companion data points added.
    pub companion_points: u64,
    /// Metrics whose alias was known.
    pub cache_hits: u64,
    /// Drops that were not done since the second hash did not agree.
    pub alias_collisions: u64,
    /// By decision and reason; in Annotate, what Reduce would have done.
    pub tally: Tally,
}

/// What the engine is made of.
pub struct EngineParts {
    /// Random per process.
    pub keys: Keys,
    /// `inference.identity`.
    pub identity: IdentityMode,
    /// What the model may see of a resource.
    pub context: ContextAttributes,
    /// `jev.collector.id`: random per process start.
    pub collector_id: String,
    /// Companions never make a request larger than this: what downstream would have taken as it came must
    /// not become too large for it.
    pub max_annotated_bytes: usize,
    /// The table.
    pub assessments: Arc<Assessments>,
    /// Where questions go.
    pub questions: Arc<dyn Questions>,
}

/// Decides on whole requests.
pub struct Engine {
    parts: EngineParts,
    policy: ArcSwapOption<Policy>,
}

/// Memory that is used again from request to request.
#[derive(Default)]
struct Scratch {
    walk: Walk,
    plan: Plan,
    resolved: Vec<Resolved>,
    annotated: HashSet<u32>,
}

/// Requests with more entries than this are rare: the memory of one is given back.
const RETAINED_ENTRIES: usize = 1 << 16;

/// What is read of a request beyond the walk: of metrics that are new, about to be dropped or asked about.
struct Reading<'a> {
    identities: Identities<'a>,
    summaries: Summaries<'a>,
    checks: Checks<'a>,
}

/// What was found about one metric.
#[derive(Clone, Copy)]
struct Resolved {
    found: Option<Found>,
    ask: Option<Rank>,
    annotate: bool,
}

/// By how much the lengths of a scope and its resource can grow when companions are added, in bytes.
const PARENT_GROWTH: usize = 10;

thread_local! {
    /// `process` never awaits, so each thread needs one.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Engine {
    /// An engine without a policy: it keeps everything, asks nothing and adds nothing.
    pub fn new(parts: EngineParts) -> Self {
        Self {
            parts,
            policy: ArcSwapOption::empty(),
        }
    }

    /// Puts a policy in force for the requests that follow.
    pub fn set_policy(&self, live: &LivePolicy) {
        let generation = self.policy.load().as_ref().map_or(0, |policy| policy.generation) + 1;
        self.policy.store(Some(Arc::new(Policy::new(live, generation))));
    }

    /// The policy in force.
    pub fn policy(&self) -> Option<Arc<Policy>> {
        self.policy.load_full()
    }

    /// The table.
    pub fn assessments(&self) -> &Arc<Assessments> {
        &self.parts.assessments
    }

    /// `jev.collector.id` of this process.
    pub fn collector_id(&self) -> &str {
        &self.parts.collector_id
    }

    /// Decides on one request.
    ///
    /// # Errors
    /// The structure cannot be read. Nothing was counted and nothing may be sent on.
    pub fn process(&self, request: &Bytes, now: Moment) -> Result<Processed, Malformed> {
        SCRATCH.with_borrow_mut(|scratch| {
            let processed = self.process_with(scratch, request, now);
            if scratch.walk.entries() > RETAINED_ENTRIES {
                *scratch = Scratch::default();
            }
            processed
        })
    }

    fn process_with(
        &self,
        scratch: &mut Scratch,
        request: &Bytes,
        now: Moment,
    ) -> Result<Processed, Malformed> {
        let policy = self.policy.load();
        scratch.walk.read(request, &self.parts.keys)?;
        scratch.plan.reset(scratch.walk.metrics().len());
        scratch.resolved.clear();
        scratch.annotated.clear();
        let assessments = &*self.parts.assessments;
        let walk = &scratch.walk;
        let touched = walk
            .metrics()
            .iter()
            .fold(0, |sum, metric| sum ^ assessments.touch(metric.alias()));
        std::hint::black_box(touched);

        let mut processed = Processed::of(walk, policy.as_ref().map(|policy| policy.mode));
        let mut reading = Reading {
            identities: Identities::new(request, walk, &self.parts.identity),
            summaries: Summaries::new(request, walk, &self.parts.context),
            checks: Checks::new(request, walk, &self.parts.keys),
        };
        for (index, metric) in walk.metrics().iter().enumerate() {
            let (found, knowledge) = match assessments.find(metric.alias()) {
                Some(found) => {
                    processed.cache_hits += 1;
                    (Some(found), Assessments::knowledge(found.state, now.seconds))
                }
                None => self.meet(&mut reading, index, metric, now)?,
            };
            let Some(policy) = &*policy else {
                processed
                    .tally
                    .add(Decision::Keep, Reason::AwaitingPolicy, metric.points());
                scratch.resolved.push(Resolved {
                    found,
                    ask: None,
                    annotate: false,
                });
                continue;
            };
            let name = metric.name(request);
            let is_protected = match found {
                Some(found) => assessments
                    .is_protected(found.ticket, policy.generation, || policy.protection.covers(name)),
                None => policy.protection.covers(name),
            };
            let (mut decision, mut reason) = decide(is_protected, knowledge, policy.thresholds);
            if decision == Decision::Drop && found.is_none_or(|found| found.check != reading.checks.of(index))
            {
                processed.alias_collisions += 1;
                (decision, reason) = (Decision::Keep, Reason::AwaitingAssessment);
            }
            processed.tally.add(decision, reason, metric.points());
            if decision == Decision::Drop && policy.mode == Mode::Reduce {
                scratch.plan.drop_metric(index);
                processed.dropped_metrics += 1;
                processed.dropped_points += metric.points();
            }
            // A score counts here: what is protected keeps its assessment, but does not show it.
            let is_judged = matches!(reason, Reason::CachedScore | Reason::Uncertain);
            let ends = found.filter(|_| is_judged).and_then(|found| {
                let runs_out = assessments.runs_out(found.ticket, found.state, now.seconds);
                runs_out.then(|| found.state.expires())
            });
            let points = metric.points();
            let ask = match (decision, ends) {
                _ if reason == Reason::AwaitingAssessment => Some(Rank::unknown(points)),
                (_, None) => None,
                (Decision::Drop, Some(expires)) => Some(Rank::drop_runs_out(points, expires)),
                (Decision::Keep, Some(expires)) => Some(Rank::keep_runs_out(points, expires)),
            };
            scratch.resolved.push(Resolved {
                found,
                ask,
                annotate: policy.mode == Mode::Annotate && is_judged,
            });
        }
        processed.kept_points -= processed.dropped_points;
        self.count_and_ask(&mut reading, walk, &scratch.resolved, now);
        self.write(request, scratch, now, &mut processed);
        Ok(processed)
    }

    /// An alias for the first time: parses the identity and looks for a place. Without one (the table is
    /// full), only whether the identity is valid is known.
    #[cold]
    fn meet(
        &self,
        reading: &mut Reading<'_>,
        index: usize,
        metric: &MetricRecord,
        now: Moment,
    ) -> Result<(Option<Found>, Knowledge), Malformed> {
        let identity = reading.identities.of(index)?;
        let check = reading.checks.of(index);
        let describe = || reading.summaries.describe(index).ok();
        let assessments = &self.parts.assessments;
        let found = assessments.admit(metric.alias(), check, identity, now.seconds, describe);
        let knowledge = match found {
            Some(found) => Assessments::knowledge(found.state, now.seconds),
            None if identity.is_ok() => Knowledge::Unknown,
            None => Knowledge::InvalidIdentity,
        };
        Ok((found, knowledge))
    }

    fn count_and_ask(&self, reading: &mut Reading<'_>, walk: &Walk, resolved: &[Resolved], now: Moment) {
        let assessments = &*self.parts.assessments;
        let mut rejected = 0;
        for (index, (metric, resolved)) in walk.metrics().iter().zip(resolved).enumerate() {
            let Some(found) = resolved.found else { continue };
            assessments.count(found.ticket, metric.points(), now.seconds);
            let Some(rank) = resolved.ask else { continue };
            let is_taken = match self.parts.questions.wants(rank) {
                Want::Nothing => {
                    rejected += u64::from(!assessments.is_asking(found.ticket));
                    continue;
                }
                Want::Identity if assessments.rests_from_look_ups(found.ticket, now.seconds) => continue,
                Want::Summary if assessments.rests_from_questions(found.ticket, now.seconds) => continue,
                _ if !assessments.start_asking(found.ticket, now.seconds) => continue,
                Want::Identity => self.look_up(reading, index, found, rank),
                Want::Summary => self.ask(reading, index, found, rank),
            };
            if !is_taken {
                assessments.stop_asking(found.ticket);
            }
        }
        if rejected > 0 {
            self.parts.questions.count_rejected(rejected);
        }
    }

    /// True if the question is on its way.
    #[cold]
    fn ask(&self, reading: &mut Reading<'_>, index: usize, found: Found, rank: Rank) -> bool {
        let Some(identity) = reading.identity_of(index, found) else {
            return false;
        };
        let Ok(Some(summary)) = reading.summaries.summarize(index) else {
            return false;
        };
        let item = Item {
            ticket: found.ticket,
            identity,
            rank,
            summary,
        };
        self.parts.questions.offer(item).is_ok()
    }

    /// True if the look-up is on its way.
    #[cold]
    fn look_up(&self, reading: &mut Reading<'_>, index: usize, found: Found, rank: Rank) -> bool {
        let Some(identity) = reading.identity_of(index, found) else {
            return false;
        };
        let ticket = found.ticket;
        self.parts.questions.look_up(Enquiry {
            ticket,
            identity,
            rank,
        })
    }

    fn write(&self, request: &Bytes, scratch: &mut Scratch, now: Moment, processed: &mut Processed) {
        let models = self.parts.assessments.models();
        let stamp = Stamp {
            collector_id: &self.parts.collector_id,
            time_unix_nano: now.unix_nanos,
        };
        let mut room = self.parts.max_annotated_bytes.saturating_sub(request.len());
        // Borrows from the request, so it cannot be used again; one allocation at most.
        let to_annotate = scratch.resolved.iter().filter(|resolved| resolved.annotate);
        let mut companions = Vec::with_capacity(to_annotate.count());
        for (metric, resolved) in scratch.walk.metrics().iter().zip(&scratch.resolved) {
            let (true, Some(found)) = (resolved.annotate, resolved.found) else {
                continue;
            };
            let State::Assessed { answers, model, .. } = found.state else {
                continue;
            };
            let Ok(metric_name) = std::str::from_utf8(metric.name(request)) else {
                continue;
            };
            if !scratch.annotated.insert(found.ticket.slot) {
                continue;
            }
            let companion = Companion {
                scope: metric.scope(),
                metric_name,
                model: models.get(usize::from(model)).map_or("", |name| name),
                relevance: answers.relevance.probability(),
                redundancy: answers.redundancy.probability(),
                keep_probability: answers.keep.probability(),
                action: answers.action.as_str(),
            };
            let Some(left) = room.checked_sub(companion.encoded_len(stamp) + PARENT_GROWTH) else {
                // The others are no smaller to speak of.
                break;
            };
            room = left;
            companions.push(companion);
        }
        processed.annotated_metrics = companions.len() as u64;
        processed.companion_points = companions.len() as u64 * SET_SIZE;
        processed.output = match splice(request, &scratch.walk, &mut scratch.plan, &companions, stamp) {
            Spliced::Unchanged => Some(request.clone()),
            Spliced::Nothing => None,
            Spliced::Rewritten(bytes) => Some(bytes.into()),
        };
    }
}

impl Reading<'_> {
    /// The identity of what was found; `None` if it cannot be asked about.
    fn identity_of(&mut self, index: usize, found: Found) -> Option<Identity> {
        // An answer about one instrument must not be stored for another whose alias collides.
        if found.check != self.checks.of(index) {
            return None;
        }
        self.identities.of(index).ok()?.ok()
    }
}

impl Processed {
    fn of(walk: &Walk, mode: Option<Mode>) -> Self {
        Self {
            output: None,
            mode,
            received_points: walk.points(),
            kept_points: walk.points(),
            dropped_points: 0,
            received_metrics: walk.metrics().len() as u64,
            dropped_metrics: 0,
            annotated_metrics: 0,
            companion_points: 0,
            cache_hits: 0,
            alias_collisions: 0,
            tally: Tally::default(),
        }
    }
}
