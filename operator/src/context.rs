//! What every reconcile shares.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jevmetrics_api::member::Member;
use kube::Client;

use crate::backoff::Backoff;
use crate::events::Events;
use crate::health::{Health, Polls};
use crate::membership;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::observed::Observed;
use crate::render::Defaults;
use crate::voices::Voices;

/// What every reconcile shares.
pub struct Context {
    /// Towards the API server.
    pub client: Client,
    /// What the operator's configuration decides.
    pub defaults: Defaults,
    /// What the watches have seen.
    pub observed: Observed,
    /// What was written.
    pub memories: Memories,
    /// What the pods say.
    pub health: HealthBoard,
    /// When they have said it.
    pub voices: VoiceBoard,
    /// What is remembered of members.
    pub members: MemberBoard,
    /// Failures in a row.
    pub backoff: Mutex<Backoff>,
    /// Where events go.
    pub events: Events,
    /// What is counted.
    pub metrics: Metrics,
}

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Context")
            .field("defaults", &self.defaults)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// Forgets whatever was kept for policies that are gone.
    pub(crate) fn forget_all_but(&self, uids: &HashSet<String>) {
        let is_there = |uid: &str| uids.contains(uid);
        self.memories.retain(is_there);
        self.health.retain(is_there);
        self.voices.retain(is_there);
        self.members.retain(is_there);
        let policies = &self.observed.policies;
        self.observed
            .deleted
            .retain(|policy| policies.get(policy).is_some());
        let mut backoff = self.backoff.lock().unwrap_or_else(PoisonError::into_inner);
        backoff.retain(is_there);
    }
}

/// Notes on writes by the uid of the policy. They outlive a term of leading: they say what was left behind, and
/// what another has done since shows.
#[derive(Debug, Clone, Default)]
pub struct Memories(Arc<Mutex<HashMap<String, Arc<tokio::sync::Mutex<Memory>>>>>);

impl Memories {
    /// The notes of a policy. Its reconciles come one after the other, so nobody waits for the lock.
    pub fn of(&self, uid: &str) -> Arc<tokio::sync::Mutex<Memory>> {
        let mut memories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(memories.entry(uid.to_owned()).or_default())
    }

    /// Forgets policies that are gone.
    pub fn retain(&self, is_there: impl Fn(&str) -> bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|uid, _| is_there(uid));
    }
}

/// When pods of each policy have answered, by its uid.
#[derive(Debug, Clone, Default)]
pub struct VoiceBoard(Arc<Mutex<HashMap<String, Voices>>>);

impl VoiceBoard {
    /// What counts now for a policy.
    pub fn of(&self, uid: &str) -> Voices {
        let board = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        board.get(uid).cloned().unwrap_or_default()
    }

    /// Takes in a poll; says whether anything is to be seen of it.
    pub fn take_in(&self, uid: &str, members: &[(String, Member)], now: Instant) -> bool {
        let mut board = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        board.entry(uid.to_owned()).or_default().take_in(members, now)
    }

    fn retain(&self, is_there: impl Fn(&str) -> bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|uid, _| is_there(uid));
    }
}

/// What is remembered of the members of each policy, by its uid. Of one term of leading: what happened while another
/// led was not seen.
#[derive(Debug, Clone)]
pub struct MemberBoard {
    began: Instant,
    all: Arc<Mutex<HashMap<String, membership::Memory>>>,
}

impl MemberBoard {
    /// Nothing is remembered yet; time counts from `began`.
    pub fn new(began: Instant) -> Self {
        Self {
            began,
            all: Arc::default(),
        }
    }

    /// What is remembered of a policy, and the present moment.
    pub fn of(&self, uid: &str) -> (membership::Memory, membership::Moment) {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        (all.get(uid).cloned().unwrap_or_default(), self.began.elapsed())
    }

    /// Remembers it.
    pub fn remember(&self, uid: &str, memory: membership::Memory) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(uid.to_owned(), memory);
    }

    fn retain(&self, is_there: impl Fn(&str) -> bool) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|uid, _| is_there(uid));
    }
}

/// What the pods of each policy say, by its uid.
#[derive(Debug, Clone, Default)]
pub struct HealthBoard(Arc<Mutex<HashMap<String, Polls>>>);

impl HealthBoard {
    /// What counts now for a policy; nothing before its pods were asked twice.
    pub fn of(&self, uid: &str) -> Health {
        let board = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        board
            .get(uid)
            .map(|polls| polls.health().clone())
            .unwrap_or_default()
    }

    /// Takes in a poll; says whether what counts has changed.
    pub fn take_in(&self, uid: &str, polled: Health) -> bool {
        let mut board = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        board.entry(uid.to_owned()).or_default().take_in(polled)
    }

    /// Forgets policies that are gone.
    pub fn retain(&self, is_there: impl Fn(&str) -> bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|uid, _| is_there(uid));
    }
}
