//! What is known of each identity: a table of fixed size, read on the delivery path without a lock.
//!
//! ```text
//! alias --index--> slot (state, points)        warm: atomics only
//! identity --cold map--> slot                  an unknown alias, an answer, an eviction: one short lock
//! ```
//! Invariants: a slot speaks for one identity at a time and its generation says for which; knowledge never
//! outlives its expiry; when all slots are in use, newcomers are not admitted, which means kept.

mod holders;
mod index;
mod slot;

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use jevmetrics_otlp::identity::IdentityResult;
use jevmetrics_otlp::summary::Description;
use moka::sync::Cache;

use self::holders::Holders;
use self::index::{Index, PlaceRef};
use self::slot::{MAX_MODELS, Slot};
pub use self::slot::{Seconds, State};
use super::answers::Answers;
use super::decide::Knowledge;
use crate::infer::{LAST_PART, Ticket};

/// Texts for people are kept for at most this many identities, however large the table is.
const MAX_DESCRIPTIONS: u64 = 10_000;
/// How many slots an admission looks at for one that is out of use.
const EVICTION_LOOKS: usize = 64;

/// An identity of which the group knew nothing is looked up again after at least so long, and up to as much more.
const LEAST_REST: Seconds = 2;
const REST_BY_CHANCE: Seconds = 8;
/// One that was asked about in vain is left alone for so long: else one that always fails would come first again after every
/// pause.
const REST_IN_VAIN: Seconds = 30;

/// Where an alias leads.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// The identity's place.
    pub ticket: Ticket,
    /// What is stored there.
    pub state: State,
    /// The second hash under which the alias was entered.
    pub check: u64,
}

/// The table.
pub struct Assessments {
    index: Index,
    slots: Box<[Slot]>,
    cold: Mutex<Cold>,
    models: ArcSwap<Vec<Arc<str>>>,
    descriptions: Cache<Ticket, Arc<Description>>,
    lifetime: Seconds,
    /// The last part of a lifetime, in which answers are asked for anew.
    last_part: Seconds,
    chance: RandomState,
    not_admitted: AtomicU64,
}

/// What only newcomers, answers and pages need.
struct Cold {
    holders: Holders,
    /// Where the search for a slot out of use goes on.
    hand: u32,
    next_generation: u32,
    /// The second in which a whole round found nothing: not worth another one.
    full_at: Option<Seconds>,
    looked_since_free: u32,
}

/// A row for pages.
#[derive(Debug, Clone)]
pub struct Row {
    /// The identity's place.
    pub ticket: Ticket,
    /// What is stored there.
    pub state: State,
    /// Data points seen since the identity was admitted.
    pub points: u64,
    /// Whether a question is on its way.
    pub is_asking: bool,
    /// Texts for people, if still kept.
    pub description: Option<Arc<Description>>,
}

impl Assessments {
    /// Room for `identities`, found under up to `aliases` forms. Answers live for `lifetime`.
    pub fn new(identities: usize, aliases: usize, lifetime: Seconds) -> Self {
        Self {
            index: Index::new(aliases.max(identities)),
            slots: (0..identities).map(|_| Slot::default()).collect(),
            cold: Mutex::new(Cold {
                holders: Holders::new(identities),
                hand: 0,
                next_generation: 1,
                full_at: None,
                looked_since_free: 0,
            }),
            models: ArcSwap::from_pointee(Vec::new()),
            descriptions: Cache::builder().max_capacity(MAX_DESCRIPTIONS).build(),
            lifetime,
            last_part: lifetime / LAST_PART,
            chance: RandomState::new(),
            not_admitted: AtomicU64::new(0),
        }
    }

    fn cold(&self) -> MutexGuard<'_, Cold> {
        // Every change under the lock is complete at each step: a panic in between leaves nothing half done.
        self.cold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to fetch the memory that [`Self::find`] will read.
    #[inline]
    pub fn touch(&self, alias: u128) -> u64 {
        self.index.touch(alias)
    }

    /// The warm look-up.
    #[inline]
    pub fn find(&self, alias: u128) -> Option<Found> {
        let (place, check) = self.index.find(alias)?;
        let state = self.slots[place.slot as usize].state(place.generation)?;
        Some(Found {
            ticket: Ticket {
                slot: place.slot,
                generation: place.generation,
            },
            state,
            check,
        })
    }

    /// Enters an unknown alias. `None` if every slot is in use: kept, and looked at again next time.
    pub fn admit(
        &self,
        alias: u128,
        check: u64,
        identity: IdentityResult,
        now: Seconds,
        describe: impl FnOnce() -> Option<Description>,
    ) -> Option<Found> {
        let mut cold = self.cold();
        if let Some(found) = self.find(alias) {
            // Somebody else met it meanwhile. Without this look, an invalid identity would get a second place.
            return Some(found);
        }
        let known = identity.ok().and_then(|identity| cold.holders.slot_of(&identity));
        let (slot, is_new) = match known {
            Some(slot) => (slot, false),
            None => (self.assign(&mut cold, identity, now)?, true),
        };
        let generation = self.slots[slot as usize].generation();
        let place = PlaceRef { slot, generation };
        self.index.insert(alias, check, place, |place| {
            self.slots[place.slot as usize].generation() == place.generation
        });
        drop(cold);
        let ticket = Ticket { slot, generation };
        if is_new && let Some(description) = describe() {
            self.descriptions.insert(ticket, Arc::new(description));
        }
        let state = self.slots[slot as usize].state(generation)?;
        Some(Found { ticket, state, check })
    }

    fn assign(&self, cold: &mut Cold, identity: IdentityResult, now: Seconds) -> Option<u32> {
        let Some(slot) = self.free_slot(cold, now) else {
            self.not_admitted.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        cold.holders.assign(slot, identity.ok());
        let state = if identity.is_ok() {
            State::Unknown
        } else {
            State::Invalid
        };
        let place = &self.slots[slot as usize];
        self.descriptions.invalidate(&Ticket {
            slot,
            generation: place.generation(),
        });
        place.reassign(cold.next_generation, now, state);
        // 0 means empty; a stale alias of a place given away 2^32 times ago is long replaced.
        cold.next_generation = cold.next_generation.checked_add(1).unwrap_or(1);
        Some(slot)
    }

    /// A slot never used, else one whose identity has not been seen for a lifetime.
    fn free_slot(&self, cold: &mut Cold, now: Seconds) -> Option<u32> {
        let used = cold.holders.used();
        if (used as usize) < self.slots.len() {
            return Some(cold.holders.add_slot());
        }
        if cold.full_at == Some(now) {
            return None;
        }
        for _ in 0..EVICTION_LOOKS.min(self.slots.len()) {
            let slot = cold.hand;
            cold.hand = (cold.hand + 1) % used;
            let candidate = &self.slots[slot as usize];
            if now.saturating_sub(candidate.last_seen()) >= self.lifetime && !candidate.is_asking() {
                cold.looked_since_free = 0;
                return Some(slot);
            }
            cold.looked_since_free += 1;
        }
        if cold.looked_since_free >= used {
            cold.looked_since_free = 0;
            cold.full_at = Some(now);
        }
        None
    }

    /// What counts of a state at `now`.
    #[inline]
    pub fn knowledge(state: State, now: Seconds) -> Knowledge {
        match state {
            State::Assessed { answers, expires, .. } if now < expires => Knowledge::Assessed(answers.keep),
            State::Refused { expires } if now < expires => Knowledge::Unassessable,
            State::Invalid => Knowledge::InvalidIdentity,
            _ => Knowledge::Unknown,
        }
    }

    /// Whether the policy of generation `policy` protects the instrument.
    #[inline]
    pub fn is_protected(&self, ticket: Ticket, policy: u32, compute: impl FnOnce() -> bool) -> bool {
        self.slots[ticket.slot as usize].is_protected(ticket.generation, policy, compute)
    }

    /// The same as far as it was computed before, for pages.
    pub fn protection(&self, ticket: Ticket, policy: u32) -> Option<bool> {
        self.slots[ticket.slot as usize].protection(ticket.generation, policy)
    }

    /// Counts data points of an identity.
    #[inline]
    pub fn count(&self, ticket: Ticket, points: u64, now: Seconds) {
        self.slots[ticket.slot as usize].count(points, now);
    }

    /// True for one caller, who must see to it that the question ends in an outcome. False also if the answer
    /// came after the caller had looked.
    #[inline]
    pub fn start_asking(&self, ticket: Ticket, now: Seconds) -> bool {
        let slot = &self.slots[ticket.slot as usize];
        if !slot.start_asking(ticket.generation) {
            return false;
        }
        let state = slot.state(ticket.generation);
        let is_open = state.is_some_and(|state| {
            Self::knowledge(state, now) == Knowledge::Unknown || self.runs_out(ticket, state, now)
        });
        if !is_open {
            slot.stop_asking(ticket.generation);
        }
        is_open
    }

    /// Whether answers that count are to be asked for anew: in the last part of their life, of which chance takes up to a
    /// half, so that neither instruments nor replicas all come at once.
    #[inline]
    pub fn runs_out(&self, ticket: Ticket, state: State, now: Seconds) -> bool {
        let State::Assessed { expires, .. } = state else {
            return false;
        };
        let left = expires.saturating_sub(now);
        left > 0 && left <= self.last_part && left <= self.window(ticket)
    }

    fn window(&self, ticket: Ticket) -> Seconds {
        let chance = self.chance.hash_one(ticket);
        #[allow(
            clippy::cast_possible_truncation,
            reason = "less than the half of a number of 32 bits"
        )]
        let less = (chance % u64::from(self.last_part / 2 + 1)) as Seconds;
        self.last_part - less
    }

    /// The group knew nothing of this identity: not worth another look-up for some seconds.
    pub fn rest_from_look_ups(&self, ticket: Ticket, now: Seconds) {
        let chance = self.chance.hash_one((ticket, now));
        #[allow(clippy::cast_possible_truncation, reason = "a few seconds")]
        let seconds = LEAST_REST + (chance % u64::from(REST_BY_CHANCE + 1)) as Seconds;
        self.slots[ticket.slot as usize].rest(ticket.generation, now.saturating_add(seconds), false);
    }

    /// It was asked about in vain: the others have their turns before it is asked about again.
    pub fn rest_from_questions(&self, ticket: Ticket, now: Seconds) {
        let until = now.saturating_add(REST_IN_VAIN);
        self.slots[ticket.slot as usize].rest(ticket.generation, until, true);
    }

    /// Whether a look-up is not worth it yet.
    #[inline]
    pub fn rests_from_look_ups(&self, ticket: Ticket, now: Seconds) -> bool {
        self.slots[ticket.slot as usize].rests_from_look_ups(now)
    }

    /// Whether a question is not worth it yet.
    #[inline]
    pub fn rests_from_questions(&self, ticket: Ticket, now: Seconds) -> bool {
        self.slots[ticket.slot as usize].rests_from_questions(now)
    }

    /// How many identities were seen within a lifetime and can be asked about: those that `policy` protects are not.
    pub fn live(&self, policy: u32, now: Seconds) -> u64 {
        let (used, _) = self.fill();
        let is_live = |slot: &&Slot| {
            let generation = slot.generation();
            now.saturating_sub(slot.last_seen()) < self.lifetime
                && slot
                    .state(generation)
                    .is_some_and(|state| state != State::Invalid)
                && slot.protection(generation, policy) == Some(false)
        };
        self.slots[..used].iter().filter(is_live).count() as u64
    }

    /// Whether a question about this identity is on its way.
    pub fn is_asking(&self, ticket: Ticket) -> bool {
        self.slots[ticket.slot as usize].is_asking()
    }

    /// Ends a question without an answer.
    pub fn stop_asking(&self, ticket: Ticket) {
        self.slots[ticket.slot as usize].stop_asking(ticket.generation);
    }

    /// Stores answers; `expires` is the first second in which they no longer count. A ticket whose place was given away
    /// meanwhile is recognised: nothing is stored.
    pub fn store(&self, ticket: Ticket, answers: Answers, model: &str, expires: Seconds) {
        let cold = self.cold();
        let state = State::Assessed {
            answers,
            model: self.intern(model),
            expires,
        };
        self.store_state(ticket, state);
        drop(cold);
    }

    /// Stores that Jev refused the instrument.
    pub fn store_refusal(&self, ticket: Ticket, expires: Seconds) {
        let cold = self.cold();
        self.store_state(ticket, State::Refused { expires });
        drop(cold);
    }

    fn store_state(&self, ticket: Ticket, state: State) {
        let slot = &self.slots[ticket.slot as usize];
        if slot.generation() == ticket.generation {
            slot.store(state);
        }
    }

    /// Callers hold the lock. Names beyond the last place share it: only what companions show is affected.
    #[allow(clippy::cast_possible_truncation, reason = "at most MAX_MODELS")]
    fn intern(&self, model: &str) -> u16 {
        let models = self.models.load();
        if let Some(id) = models.iter().position(|known| &**known == model) {
            return id as u16;
        }
        if models.len() == MAX_MODELS {
            return (MAX_MODELS - 1) as u16;
        }
        let mut longer = Vec::clone(&models);
        longer.push(if longer.len() == MAX_MODELS - 1 {
            "other".into()
        } else {
            model.into()
        });
        self.models.store(Arc::new(longer));
        models.len() as u16
    }

    /// Names of the models by their number in [`State::Assessed`].
    pub fn models(&self) -> Arc<Vec<Arc<str>>> {
        self.models.load_full()
    }

    /// How often an identity found no room.
    pub fn not_admitted(&self) -> u64 {
        self.not_admitted.load(Ordering::Relaxed)
    }

    /// How many slots are in use, and how many there are.
    pub fn fill(&self) -> (usize, usize) {
        (self.cold().holders.used() as usize, self.slots.len())
    }

    /// All identities, for pages. Costs a look at every slot; never on the delivery path.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let (used, _) = self.fill();
        self.slots[..used].iter().enumerate().filter_map(|(index, slot)| {
            #[allow(clippy::cast_possible_truncation, reason = "slots are numbered in 32 bits")]
            let ticket = Ticket {
                slot: index as u32,
                generation: slot.generation(),
            };
            Some(Row {
                ticket,
                state: slot.state(ticket.generation)?,
                points: slot.points(),
                is_asking: slot.is_asking(),
                description: None,
            })
        })
    }

    /// The texts of a row, if still kept.
    pub fn description(&self, ticket: Ticket) -> Option<Arc<Description>> {
        self.descriptions.get(&ticket)
    }

    /// Rows of the identities with this name whose texts are still kept.
    pub fn rows_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Row> + 'a {
        self.descriptions
            .iter()
            .filter(move |(_, description)| description.name == name)
            .filter_map(|(ticket, description)| {
                let slot = &self.slots[ticket.slot as usize];
                Some(Row {
                    ticket: *ticket,
                    state: slot.state(ticket.generation)?,
                    points: slot.points(),
                    is_asking: slot.is_asking(),
                    description: Some(description),
                })
            })
    }
}

#[cfg(test)]
mod tests;
