//! Alias -> place: a fixed-size table of atomics, read without a lock.
//!
//! Buckets of four entries, two possible buckets for each alias. When both are full, one of their entries moves
//! to its own other bucket: up to the size that the table was made for, no alias pushes out another one. An entry
//! that a reader misses, since it moves or was replaced, costs one more look by identity, never a wrong answer:
//! readers compare the whole alias, and an entry is a seqlock over its own place.

use std::sync::atomic::{AtomicU64, Ordering, fence};

const WAYS: usize = 4;

/// Which slot, and which holder of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlaceRef {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl PlaceRef {
    #[inline]
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
        let buckets = self.buckets(alias);
        let mut candidates = buckets.into_iter().flat_map(|bucket| self.bucket(bucket));
        let entry = candidates
            .find(|entry| entry.alias() == alias)
            .or_else(|| self.free_entry(buckets, &is_alive))
            .or_else(|| self.make_room(buckets, &is_alive))
            // All are alive: bits of the alias that chose no bucket spread the choice.
            .or_else(|| self.bucket(buckets[0]).get((alias >> 120) as usize & (WAYS - 1)));
        if let Some(entry) = entry {
            entry.write(alias, check, place.pack());
        }
    }

    /// The first bucket is looked at first: it gets the entry unless it is clearly fuller.
    fn free_entry(&self, buckets: [usize; 2], is_alive: &impl Fn(PlaceRef) -> bool) -> Option<&Entry> {
        let free = buckets.map(|bucket| self.bucket(bucket).iter().filter(|entry| entry.is_free(is_alive)));
        let [first, second] = free.clone().map(Iterator::count);
        let [in_first, in_second] = free;
        if first >= 2 || first >= second {
            in_first
        } else {
            in_second
        }
        .next()
    }

    /// Moves one entry of two full buckets to its other bucket, and gives its former place.
    fn make_room(&self, buckets: [usize; 2], is_alive: &impl Fn(PlaceRef) -> bool) -> Option<&Entry> {
        let movable = buckets
            .into_iter()
            .flat_map(|bucket| self.bucket(bucket).iter().map(move |entry| (bucket, entry)));
        for (bucket, entry) in movable {
            let alias = entry.alias();
            let [first, second] = self.buckets(alias);
            let other = if first == bucket { second } else { first };
            let Some(target) = self.bucket(other).iter().find(|entry| entry.is_free(is_alive)) else {
                continue;
            };
            // In its new place before it loses the old one.
            target.write(
                alias,
                entry.check.load(Ordering::Relaxed),
                entry.place.load(Ordering::Relaxed),
            );
            return Some(entry);
        }
        None
    }
}

/// The writers' half. Writers hold the lock of the cold part.
impl Entry {
    fn alias(&self) -> u128 {
        let halves = [&self.alias_high, &self.alias_low].map(|half| u128::from(half.load(Ordering::Relaxed)));
        halves[0] << 64 | halves[1]
    }

    fn is_free(&self, is_alive: impl Fn(PlaceRef) -> bool) -> bool {
        let word = self.place.load(Ordering::Relaxed);
        word == 0 || !is_alive(PlaceRef::unpack(word))
    }

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

    /// As uneven as hashes are: splitmix64.
    fn spread(number: u64) -> u128 {
        let mix = |number: u64| {
            let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            number ^ number >> 31
        };
        u128::from(mix(2 * number + 1)) << 64 | u128::from(mix(2 * number + 2))
    }

    fn place(slot: u32) -> PlaceRef {
        PlaceRef { slot, generation: 1 }
    }

    #[test]
    fn a_table_filled_to_its_size_finds_every_alias() {
        // The last is the largest count for its number of buckets: as full as a table gets.
        for count in [8, 800, 100_000, 131_072] {
            let index = Index::new(count as usize);
            for number in 0..count {
                index.insert(spread(number.into()), number.into(), place(number), |_| true);
            }
            let lost = (0..count)
                .filter(|&number| index.find(spread(number.into())) != Some((place(number), number.into())))
                .count();
            assert_eq!(lost, 0, "of {count}");
            assert_eq!(index.find(spread(u64::from(count) + 1)), None);
        }
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

    #[test]
    fn a_reader_never_sees_parts_of_two_entries() {
        // Far more aliases than entries: each is replaced all the time, never by itself.
        let index = Index::new(1);
        let read = || {
            let mut found = 0_u32;
            while found < 20_000 {
                for number in 0..64_u32 {
                    if let Some(entry) = index.find(spread(number.into())) {
                        assert_eq!(entry, (place(number), !u64::from(number)));
                        found += 1;
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            let readers = [scope.spawn(read), scope.spawn(read)];
            for number in (0..64_u32).cycle() {
                let number = number * 7 % 64;
                index.insert(spread(number.into()), !u64::from(number), place(number), |_| true);
                if readers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                    break;
                }
            }
            for reader in readers {
                assert!(reader.join().is_ok(), "a reader saw a torn entry");
            }
        });
    }
}
