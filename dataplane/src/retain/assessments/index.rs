//! Alias -> place: a fixed-size table of atomics, read without a lock.
//!
//! Buckets of four entries, two possible buckets for each alias. When both are full, an entry moves to its
//! other bucket; if none can, one is replaced, which costs its alias one more look by identity. Never a wrong
//! answer: readers compare the whole alias, and an entry is a seqlock over its own place.

use std::sync::atomic::{AtomicU64, Ordering, fence};

const WAYS: usize = 4;

/// Which slot, and which holder of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlaceRef {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl PlaceRef {
    fn pack(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    #[allow(clippy::cast_possible_truncation, reason = "takes the halves apart")]
    fn unpack(word: u64) -> Self {
        Self {
            slot: word as u32,
            generation: (word >> 32) as u32,
        }
    }
}

#[derive(Debug, Default)]
struct Entry {
    alias_low: AtomicU64,
    alias_high: AtomicU64,
    check: AtomicU64,
    /// 0 is empty: generations start at 1.
    place: AtomicU64,
}

/// The table. Writers hold the lock of the cold part; readers hold nothing.
#[derive(Debug)]
pub(super) struct Index {
    entries: Box<[Entry]>,
    bucket_mask: usize,
}

impl Index {
    /// Room for `aliases` at a load of at most one half.
    pub(super) fn new(aliases: usize) -> Self {
        let buckets = (aliases * 2).div_ceil(WAYS).next_power_of_two().max(2);
        let entries = (0..buckets * WAYS).map(|_| Entry::default()).collect();
        Self {
            entries,
            bucket_mask: buckets - 1,
        }
    }

    #[inline]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "takes different bits for each bucket"
    )]
    fn buckets(&self, alias: u128) -> [usize; 2] {
        let first = (alias >> 64) as usize & self.bucket_mask;
        let second = alias as usize & self.bucket_mask;
        // Two different buckets even if both halves agree.
        [first, if second == first { first ^ 1 } else { second }]
    }

    #[inline]
    fn bucket(&self, bucket: usize) -> &[Entry] {
        &self.entries[bucket * WAYS..(bucket + 1) * WAYS]
    }

    /// Loads the first bucket of an alias: done for a whole request before the first look-up, so that the
    /// memory is fetched side by side and not one after the other.
    #[inline]
    pub(super) fn touch(&self, alias: u128) -> u64 {
        let bucket = self.bucket(self.buckets(alias)[0]);
        bucket[0].place.load(Ordering::Relaxed) ^ bucket[2].place.load(Ordering::Relaxed)
    }

    /// The place and the check of an alias.
    #[inline]
    pub(super) fn find(&self, alias: u128) -> Option<(PlaceRef, u64)> {
        let (low, high) = halves(alias);
        for bucket in self.buckets(alias) {
            for entry in self.bucket(bucket) {
                if entry.alias_low.load(Ordering::Relaxed) != low {
                    continue;
                }
                let place = entry.place.load(Ordering::Acquire);
                let matches = entry.alias_low.load(Ordering::Relaxed) == low
                    && entry.alias_high.load(Ordering::Relaxed) == high;
                let check = entry.check.load(Ordering::Relaxed);
                fence(Ordering::Acquire);
                if matches && place != 0 && entry.place.load(Ordering::Relaxed) == place {
                    return Some((PlaceRef::unpack(place), check));
                }
            }
        }
        None
    }

    /// Enters an alias. `is_alive` tells whether an entry's place is still held by whom it names.
    pub(super) fn insert(
        &self,
        alias: u128,
        check: u64,
        place: PlaceRef,
        is_alive: impl Fn(PlaceRef) -> bool,
    ) {
        let is_free = |entry: &&Entry| {
            let word = entry.place.load(Ordering::Relaxed);
            word == 0 || !is_alive(PlaceRef::unpack(word))
        };
        let [first, second] = self.buckets(alias);
        let candidates = || self.bucket(first).iter().chain(self.bucket(second));
        let free = |bucket: usize| self.bucket(bucket).iter().filter(is_free).count();
        // The first bucket is looked at first: it gets the entry unless it is clearly fuller.
        let roomier = if free(first) >= 2 || free(first) >= free(second) {
            first
        } else {
            second
        };
        let entry = candidates()
            .find(|entry| entry.alias() == alias)
            .or_else(|| self.bucket(roomier).iter().find(is_free))
            .or_else(|| candidates().find(|entry| self.move_away(entry, is_free)))
            // Any will do when all are alive and stuck; bits of the alias spread the choice.
            .or_else(|| self.bucket(first).get(alias as usize >> 7 & (WAYS - 1)));
        if let Some(entry) = entry {
            entry.write(alias, check, place.pack());
        }
    }

    /// Copies an entry to its other bucket, if there is room: it can be found all the time.
    fn move_away(&self, entry: &Entry, is_free: impl Fn(&&Entry) -> bool) -> bool {
        let alias = entry.alias();
        let place = entry.place.load(Ordering::Relaxed);
        let buckets = self.buckets(alias);
        // Its own bucket has no free entry: what is found is in the other one.
        let Some(free) = buckets
            .into_iter()
            .find_map(|bucket| self.bucket(bucket).iter().find(&is_free))
        else {
            return false;
        };
        free.write(alias, entry.check.load(Ordering::Relaxed), place);
        true
    }
}

impl Entry {
    fn alias(&self) -> u128 {
        let high = self.alias_high.load(Ordering::Relaxed);
        u128::from(high) << 64 | u128::from(self.alias_low.load(Ordering::Relaxed))
    }

    /// The writers' half of the seqlock. Callers hold the lock of the cold part.
    fn write(&self, alias: u128, check: u64, place: u64) {
        let (low, high) = halves(alias);
        self.place.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        self.alias_low.store(low, Ordering::Relaxed);
        self.alias_high.store(high, Ordering::Relaxed);
        self.check.store(check, Ordering::Relaxed);
        self.place.store(place, Ordering::Release);
    }
}

#[allow(clippy::cast_possible_truncation, reason = "takes the halves apart")]
fn halves(alias: u128) -> (u64, u64) {
    (alias as u64, (alias >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(number: u64) -> u128 {
        let mix = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) ^ number;
        u128::from(mix(number)) << 64 | u128::from(mix(number ^ 0xabcdef))
    }

    fn place(slot: u32) -> PlaceRef {
        PlaceRef { slot, generation: 1 }
    }

    #[test]
    fn a_table_filled_to_its_size_finds_every_alias() {
        // A power of two: the highest load that the size allows.
        let count = 1 << 17;
        let index = Index::new(count);
        for number in 0..count as u32 {
            index.insert(spread(number.into()), number.into(), place(number), |_| true);
        }
        let lost = (0..count as u32)
            .filter(|&number| index.find(spread(number.into())) != Some((place(number), number.into())))
            .count();
        assert_eq!(lost, 0);
        assert_eq!(index.find(spread(count as u64 + 1)), None);
    }

    #[test]
    fn an_alias_entered_again_replaces_itself() {
        let index = Index::new(8);
        index.insert(spread(1), 1, place(1), |_| true);
        index.insert(spread(1), 2, place(2), |_| true);
        assert_eq!(index.find(spread(1)), Some((place(2), 2)));
    }

    #[test]
    fn entries_of_gone_holders_make_room() {
        let index = Index::new(4);
        for number in 0..64 {
            index.insert(spread(number), 0, place(7), |_| false);
            assert!(index.find(spread(number)).is_some());
        }
    }
}
