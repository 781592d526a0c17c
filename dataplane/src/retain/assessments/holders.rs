//! Who holds which slot, and back.
//!
//! Each identity is kept once, by its slot; the look-up table holds slot numbers alone. A map from identities
//! would keep them twice, which is a quarter of all that an identity costs.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use jevmetrics_otlp::identity::Identity;

/// Slots are given out from 0 on; each has at most one holder.
pub(super) struct Holders {
    /// By slot; `None` for slots whose identity is invalid.
    identities: Vec<Option<Identity>>,
    slots: HashTable<u32>,
    hasher: RandomState,
}

impl Holders {
    /// Room for `slots` without moving: growing under the lock would stall newcomers.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            identities: Vec::with_capacity(slots),
            slots: HashTable::with_capacity(slots),
            hasher: RandomState::new(),
        }
    }

    /// How many slots were given out.
    #[allow(clippy::cast_possible_truncation, reason = "slots are numbered in 32 bits")]
    pub(super) fn used(&self) -> u32 {
        self.identities.len() as u32
    }

    /// The slot that `identity` holds.
    pub(super) fn slot_of(&self, identity: &Identity) -> Option<u32> {
        let is_held_by = |slot: &u32| self.identities[*slot as usize].as_ref() == Some(identity);
        self.slots
            .find(self.hasher.hash_one(identity), is_held_by)
            .copied()
    }

    /// Gives out the next slot, without a holder.
    pub(super) fn add_slot(&mut self) -> u32 {
        let slot = self.used();
        self.identities.push(None);
        slot
    }

    /// Gives a slot to `identity`, which holds none, or to an invalid one. The former holder leaves.
    pub(super) fn assign(&mut self, slot: u32, identity: Option<Identity>) {
        let Self {
            identities,
            slots,
            hasher,
        } = self;
        let former = std::mem::replace(&mut identities[slot as usize], identity);
        if let Some(former) = former
            && let Ok(entry) = slots.find_entry(hasher.hash_one(former), |candidate| *candidate == slot)
        {
            entry.remove();
        }
        if let Some(identity) = identity {
            let hash = |slot: &u32| hasher.hash_one(identities[*slot as usize].unwrap_or(identity));
            slots.insert_unique(hasher.hash_one(identity), slot, hash);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::test_identity;

    /// The identity of a gauge whose name has one byte.
    fn identity(name: u8) -> Identity {
        test_identity::identity(&char::from(name).to_string())
    }

    #[test]
    fn a_slot_is_found_by_its_present_holder_alone() {
        let mut holders = Holders::new(2);
        for name in b'a'..=b'z' {
            let slot = holders.add_slot();
            holders.assign(slot, Some(identity(name)));
        }
        assert_eq!(holders.used(), 26);
        assert_eq!(holders.slot_of(&identity(b'c')), Some(2));
        holders.assign(2, Some(identity(b'A')));
        assert_eq!(holders.slot_of(&identity(b'c')), None);
        assert_eq!(holders.slot_of(&identity(b'A')), Some(2));
        holders.assign(2, None);
        assert_eq!(holders.slot_of(&identity(b'A')), None);
        assert_eq!(holders.slot_of(&identity(b'z')), Some(25));
    }
}
