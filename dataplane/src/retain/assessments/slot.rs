//! One identity's place: everything the warm path needs in one cache line, written and read without a lock.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::retain::answers::{Action, Answers, Percent};

/// Whole seconds since the process started: the only clock of the assessments.
pub type Seconds = u32;

/// Largest expiry that fits: 30 bits, 34 years.
const MAX_EXPIRY: Seconds = (1 << 30) - 1;

/// What is stored about an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing yet.
    Unknown,
    /// Jev's answers, good until `expires`.
    Assessed {
        /// The answers.
        answers: Answers,
        /// Interned name of the model that answered.
        model: u16,
        /// First second in which they no longer count.
        expires: Seconds,
    },
    /// Jev refused the instrument; asked again from `expires`.
    Refused {
        /// First second in which the refusal no longer counts.
        expires: Seconds,
    },
    /// The identity cannot be read safely. Never expires.
    Invalid,
}

// Layout of the packed state, from the low bit:
// kind 2, keep 7, relevance 7, redundancy 7, action 2, model 9, expiry 30.
const KEEP: u32 = 2;
const RELEVANCE: u32 = 9;
const REDUNDANCY: u32 = 16;
const ACTION: u32 = 23;
const MODEL: u32 = 25;
const EXPIRY: u32 = 34;
const SEVEN_BITS: u64 = 0x7f;
const MODEL_BITS: u64 = 0x1ff;

/// How many model names can be told apart.
pub(super) const MAX_MODELS: usize = 512;

impl State {
    /// First second in which it no longer counts; the last of all for what does not end.
    pub fn expires(self) -> Seconds {
        match self {
            Self::Assessed { expires, .. } | Self::Refused { expires } => expires,
            Self::Unknown | Self::Invalid => Seconds::MAX,
        }
    }

    fn pack(self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Assessed {
                answers,
                model,
                expires,
            } => {
                let action = match answers.action {
                    Action::Keep => 0,
                    Action::Reduce => 1,
                    Action::Drop => 2,
                };
                1 | u64::from(answers.keep.get()) << KEEP
                    | u64::from(answers.relevance.get()) << RELEVANCE
                    | u64::from(answers.redundancy.get()) << REDUNDANCY
                    | action << ACTION
                    | (u64::from(model) & MODEL_BITS) << MODEL
                    | u64::from(expires.min(MAX_EXPIRY)) << EXPIRY
            }
            Self::Refused { expires } => 2 | u64::from(expires.min(MAX_EXPIRY)) << EXPIRY,
            Self::Invalid => 3,
        }
    }

    #[inline]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "every field is masked to its bits"
    )]
    fn unpack(word: u64) -> Self {
        let expires = (word >> EXPIRY) as u32;
        // A percentage above 100 was never packed; were it read, it would be nothing we know.
        let percent = |shift: u32| Percent::new((word >> shift & SEVEN_BITS) as u8);
        match word & 3 {
            1 => {
                let (Some(keep), Some(relevance), Some(redundancy)) =
                    (percent(KEEP), percent(RELEVANCE), percent(REDUNDANCY))
                else {
                    return Self::Unknown;
                };
                let action = match word >> ACTION & 3 {
                    0 => Action::Keep,
                    1 => Action::Reduce,
                    _ => Action::Drop,
                };
                let answers = Answers {
                    relevance,
                    redundancy,
                    keep,
                    action,
                };
                Self::Assessed {
                    answers,
                    model: (word >> MODEL & MODEL_BITS) as u16,
                    expires,
                }
            }
            2 => Self::Refused { expires },
            3 => Self::Invalid,
            _ => Self::Unknown,
        }
    }
}

/// Seconds have 31 bits.
const ENTIRELY: u32 = 1 << 31;

/// One place. `generation` says which identity holds it; a reader that finds another one reads nothing.
#[derive(Debug, Default)]
pub(super) struct Slot {
    generation: AtomicU32,
    last_seen: AtomicU32,
    state: AtomicU64,
    points: AtomicU64,
    /// Holder << 32 | policy generation << 1 | protected. Names its holder, so that a reader who was
    /// overtaken by a reassignment cannot leave its own finding to the next one.
    protection: AtomicU64,
    /// The holder about whom a question is on its way; 0 if none.
    asking: AtomicU32,
    /// The second from which on a look-up is worth it again; with [`ENTIRELY`], a question as well.
    rests_until: AtomicU32,
}

impl Slot {
    /// The state, if `generation` still holds the place.
    ///
    /// A seqlock: the generation is read before and after; see [`Slot::reassign`] for its other half.
    #[inline]
    pub(super) fn state(&self, generation: u32) -> Option<State> {
        if self.generation.load(Ordering::Acquire) != generation {
            return None;
        }
        let word = self.state.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        (self.generation.load(Ordering::Relaxed) == generation).then(|| State::unpack(word))
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Gives the place to another identity. Callers hold the lock of the cold part.
    pub(super) fn reassign(&self, generation: u32, now: Seconds, state: State) {
        self.generation.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        self.state.store(state.pack(), Ordering::Relaxed);
        self.points.store(0, Ordering::Relaxed);
        self.protection.store(0, Ordering::Relaxed);
        self.asking.store(0, Ordering::Relaxed);
        self.rests_until.store(0, Ordering::Relaxed);
        self.last_seen.store(now, Ordering::Relaxed);
        self.generation.store(generation, Ordering::Release);
    }

    /// Stores what is known now. Callers hold the lock of the cold part and have compared the generation.
    pub(super) fn store(&self, state: State) {
        // Release: who reads the state also finds the model name that it refers to.
        self.state.store(state.pack(), Ordering::Release);
        self.asking.store(0, Ordering::Release);
    }

    pub(super) fn stop_asking(&self, generation: u32) {
        let _ = self
            .asking
            .compare_exchange(generation, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// True for exactly one caller until the answer, or the lack of one, is stored.
    #[inline]
    pub(super) fn start_asking(&self, generation: u32) -> bool {
        self.asking.load(Ordering::Relaxed) != generation
            && self.asking.swap(generation, Ordering::AcqRel) != generation
    }

    /// An overtaken caller may make another identity rest: that costs it some seconds.
    pub(super) fn rest(&self, generation: u32, until: Seconds, entirely: bool) {
        if self.generation() == generation {
            let flag = if entirely { ENTIRELY } else { 0 };
            self.rests_until
                .store(until.min(ENTIRELY - 1) | flag, Ordering::Relaxed);
        }
    }

    pub(super) fn rests_from_look_ups(&self, now: Seconds) -> bool {
        now < self.rests_until.load(Ordering::Relaxed) & !ENTIRELY
    }

    pub(super) fn rests_from_questions(&self, now: Seconds) -> bool {
        let until = self.rests_until.load(Ordering::Relaxed);
        until & ENTIRELY != 0 && now < until & !ENTIRELY
    }

    pub(super) fn is_asking(&self) -> bool {
        self.asking.load(Ordering::Acquire) == self.generation()
    }

    #[inline]
    pub(super) fn count(&self, points: u64, now: Seconds) {
        self.points.fetch_add(points, Ordering::Relaxed);
        if self.last_seen.load(Ordering::Relaxed) != now {
            self.last_seen.store(now, Ordering::Relaxed);
        }
    }

    pub(super) fn points(&self) -> u64 {
        self.points.load(Ordering::Relaxed)
    }

    pub(super) fn last_seen(&self) -> Seconds {
        self.last_seen.load(Ordering::Relaxed)
    }

    /// Whether the policy of this generation protects the instrument; `compute` runs once a policy.
    #[inline]
    pub(super) fn is_protected(&self, generation: u32, policy: u32, compute: impl FnOnce() -> bool) -> bool {
        if let Some(is_protected) = self.protection(generation, policy) {
            return is_protected;
        }
        let is_protected = compute();
        let word = protection_key(generation, policy) | u64::from(is_protected);
        self.protection.store(word, Ordering::Relaxed);
        is_protected
    }

    #[inline]
    pub(super) fn protection(&self, generation: u32, policy: u32) -> Option<bool> {
        let word = self.protection.load(Ordering::Relaxed);
        (word & !1 == protection_key(generation, policy)).then_some(word & 1 == 1)
    }
}

#[inline]
fn protection_key(generation: u32, policy: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(policy) << 1
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_state_survives_packing() {
        let percent = |value| Percent::new(value).unwrap();
        for keep in 0..=100 {
            for action in [Action::Keep, Action::Reduce, Action::Drop] {
                let answers = Answers {
                    keep: percent(keep),
                    relevance: percent(100 - keep),
                    redundancy: percent(keep / 2),
                    action,
                };
                let state = State::Assessed {
                    answers,
                    model: 511,
                    expires: MAX_EXPIRY,
                };
                assert_eq!(State::unpack(state.pack()), state);
            }
        }
        for state in [State::Unknown, State::Invalid, State::Refused { expires: 7 }] {
            assert_eq!(State::unpack(state.pack()), state);
        }
    }

    #[test]
    fn protection_is_computed_once_a_policy_and_holder() {
        let slot = Slot::default();
        slot.reassign(1, 0, State::Unknown);
        assert!(slot.is_protected(1, 1, || true));
        assert!(slot.is_protected(1, 1, || false), "cached");
        assert!(!slot.is_protected(1, 2, || false), "another policy");
        slot.reassign(2, 0, State::Unknown);
        slot.is_protected(1, 2, || false);
        assert!(
            slot.is_protected(2, 2, || true),
            "an overtaken reader leaves nothing behind"
        );
    }

    #[test]
    fn one_question_at_a_time_and_an_overtaken_reader_blocks_nobody() {
        let slot = Slot::default();
        slot.reassign(1, 0, State::Unknown);
        assert!(slot.start_asking(1));
        assert!(!slot.start_asking(1));
        slot.stop_asking(1);
        assert!(slot.start_asking(1));
        slot.reassign(2, 0, State::Unknown);
        slot.start_asking(1);
        assert!(!slot.is_asking());
        assert!(slot.start_asking(2));
    }

    #[test]
    fn a_former_holder_of_the_place_reads_nothing() {
        let slot = Slot::default();
        slot.reassign(1, 0, State::Invalid);
        assert_eq!(slot.state(1), Some(State::Invalid));
        slot.reassign(2, 0, State::Unknown);
        assert_eq!(slot.state(1), None);
        assert_eq!(slot.state(2), Some(State::Unknown));
    }
}
