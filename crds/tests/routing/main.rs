//! How well tables spread keys, and what moves when members change, for 2 to 200 slots.
//!
//! Keys are hashes, so a generator of uniform numbers stands for them.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "tests"
)]

use std::time::Instant;

use jevmetrics_api::routing::{Affinity, ClusterIdentity, Header, KeySource, Owner, RoutingTable};

const KEYS: usize = 1_000_000;
const MOST: u16 = 200;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            let place = usize::try_from(self.next() % (end as u64 + 1)).unwrap();
            items.swap(end, place);
        }
    }
}

fn keys(count: usize) -> Vec<u64> {
    let mut random = Random(42);
    (0..count).map(|_| random.next()).collect()
}

fn table(slots: impl IntoIterator<Item = u16>) -> RoutingTable {
    let owners = slots.into_iter().map(|slot| Owner {
        slot,
        uid: format!("uid-{slot}"),
        name: format!("jm-{slot}"),
        address: ([10, 0, 0, 1], 4319).into(),
        zone: None,
    });
    let header = Header {
        cluster: ClusterIdentity {
            namespace: "ns".to_owned(),
            policy: "p".to_owned(),
        },
        affinity: Affinity::Forward,
        key: KeySource::Source,
    };
    RoutingTable::new(1, header, owners.collect()).unwrap()
}

/// Keys of each slot below `MOST`.
fn counts(table: &RoutingTable, keys: &[u64]) -> Vec<usize> {
    let mut counts = vec![0; usize::from(MOST)];
    for &key in keys {
        counts[usize::from(table.owner(key).slot)] += 1;
    }
    counts
}

/// A leave moves exactly the keys of the slot that leaves, a join those of the slot that comes: both cost at most the
/// largest part of the keys that a slot has.
#[test]
fn keys_are_spread_evenly_over_10_50_and_200_slots() {
    let keys = keys(KEYS);
    for (slots, most) in [(10, 1.02), (50, 1.03), (200, 1.06)] {
        let started = Instant::now();
        let counts = counts(&table(0..slots), &keys);
        let took = started.elapsed() / u32::try_from(KEYS).unwrap();
        let mean = KEYS as f64 / f64::from(slots);
        let largest = *counts.iter().max().unwrap() as f64 / mean;
        println!("{slots} slots: max/mean {largest:.4}, {took:?} a look-up as built here");
        assert!(largest <= most, "{slots} slots: {largest}");
    }
}

/// What `docs/members.md` says of sizing: few keys are spread as chance has it, whatever the hash. Printed: the largest
/// part of the keys that a slot has, by their mean, as one in two and one in twenty of 200 sets of keys have it.
#[test]
fn few_keys_are_spread_as_chance_has_it() {
    const SETS: usize = 200;
    let mut random = Random(3);
    for slots in [10_u16, 50, 200] {
        let table = table(0..slots);
        for keys_a_slot in [10_usize, 30, 100, 300, 1_000] {
            let keys = keys_a_slot * usize::from(slots);
            let sets = SETS.min(20_000_000 / keys / usize::from(slots)).max(20);
            let mut largest: Vec<f64> = (0..sets)
                .map(|_| {
                    let keys: Vec<u64> = (0..keys).map(|_| random.next()).collect();
                    let counts = counts(&table, &keys);
                    *counts.iter().max().unwrap() as f64 / keys_a_slot as f64
                })
                .collect();
            largest.sort_unstable_by(f64::total_cmp);
            let (median, seldom) = (largest[sets / 2], largest[sets * 19 / 20]);
            let rule = 1.0 + (2.0 * f64::from(slots).ln() / keys_a_slot as f64).sqrt();
            println!(
                "{slots} slots, {keys_a_slot} keys a slot: max/mean {median:.2}, one in twenty {seldom:.2}, rule {rule:.2}"
            );
            // The tail of chance is wider than the rule's where keys are few.
            assert!(
                median <= 1.0 + (rule - 1.0) * 1.25,
                "{slots} slots, {keys_a_slot} keys a slot: {median} instead of {rule}"
            );
        }
    }
}

/// Slots are not always the lowest numbers.
#[test]
fn keys_are_spread_evenly_whatever_the_numbers_of_slots_are() {
    let keys = keys(200_000);
    let mut random = Random(7);
    for _ in 0..5 {
        let mut slots: Vec<u16> = (0..MOST).collect();
        random.shuffle(&mut slots);
        let counts = counts(&table(slots.into_iter().take(10)), &keys);
        let largest = *counts.iter().max().unwrap() as f64 / (keys.len() / 10) as f64;
        assert!(largest <= 1.03, "{largest}");
    }
}

#[test]
fn who_joins_takes_its_part_and_nobody_else_gets_anything() {
    let keys = keys(100_000);
    let mut before = table(0..2);
    let mut owners: Vec<u16> = keys.iter().map(|&key| before.owner(key).slot).collect();
    for joining in 2..MOST {
        // Every size at a few keys, some sizes at many.
        let looked_at = if joining % 50 == 49 { keys.len() } else { 2_000 };
        let after = table(0..=joining);
        let mut moved = 0;
        for (&key, owner) in keys.iter().zip(&mut owners).take(looked_at) {
            let now = after.owner(key).slot;
            if looked_at == keys.len() {
                *owner = before.owner(key).slot;
            }
            if now != *owner {
                assert_eq!(now, joining, "a key moved between slots that stay");
                moved += 1;
            }
            *owner = now;
        }
        if looked_at == keys.len() {
            let share = f64::from(moved) / keys.len() as f64 * f64::from(joining + 1);
            println!("{joining} + 1 slots: {share:.3} / N of the keys moved");
            // 100,000 keys tell 200 slots apart to 5 %; the goal of 1.06 is held at the million of the other test.
            assert!((0.85..=1.15).contains(&share), "{joining} + 1 slots: {share}");
        }
        before = after;
    }
}

/// Whatever a cluster's size, who leaves moves at most 1.06 times its part, whoever it is, and so does who joins. With
/// 6,400 keys a slot chance alone deviates by 1.25 %: 6 % are nearly five times as much.
#[test]
fn who_leaves_or_joins_moves_hardly_more_than_its_part_at_any_size() {
    const KEYS_A_SLOT: usize = 6_400;
    const MOST_MOVED: f64 = 1.06;
    let mut random = Random(5);
    for slots in [2_u16, 3, 5, 10, 20, 50, 100, 200] {
        let keys = keys(KEYS_A_SLOT * usize::from(slots));
        let part = KEYS_A_SLOT as f64;
        let before = table(0..slots);
        let owners: Vec<u16> = keys.iter().map(|&key| before.owner(key).slot).collect();
        // Who leaves moves what it owns, which another test holds for every key.
        let mut counts = vec![0_usize; usize::from(slots)];
        for &owner in &owners {
            counts[usize::from(owner)] += 1;
        }
        let largest = *counts.iter().max().unwrap() as f64 / part;
        let leaving = u16::try_from(random.next() % u64::from(slots)).unwrap();
        let moves = |after: &RoutingTable| {
            let now = keys.iter().map(|&key| after.owner(key).slot);
            now.zip(&owners).filter(|(now, owner)| now != *owner).count()
        };
        let left = moves(&table((0..slots).filter(|&slot| slot != leaving)));
        assert_eq!(
            left,
            counts[usize::from(leaving)],
            "{slots} slots, {leaving} leaves"
        );
        let joined = moves(&table(0..=slots)) as f64 / part * f64::from(slots + 1) / f64::from(slots);
        println!("{slots} slots: a leave moves up to {largest:.3} / N, a join {joined:.3} / (N + 1)");
        assert!(
            largest <= MOST_MOVED,
            "{slots} slots: a leave moves {largest} / N"
        );
        assert!(
            joined <= MOST_MOVED,
            "{slots} slots: a join moves {joined} / (N + 1)"
        );
    }
}

/// A rollout hands over slots one by one; where no heir has settled yet, one slot in twenty goes away first and comes back
/// after it.
#[test]
fn a_rollout_moves_each_key_hardly_more_than_once_at_any_size() {
    let held_by = |owners: &[(u16, String)]| {
        let of_slots = table(owners.iter().map(|(slot, _)| *slot));
        let mut all = of_slots.owners().to_vec();
        for (owner, (_, uid)) in all.iter_mut().zip(owners) {
            owner.uid.clone_from(uid);
        }
        RoutingTable::new(1, of_slots.header().clone(), all).unwrap()
    };
    for slots in [2_u16, 3, 10, 25, 50, 200] {
        let keys = keys(if slots > 100 { 2_000 } else { 20_000 });
        let mut owners: Vec<(u16, String)> = (0..slots).map(|slot| (slot, format!("old-{slot}"))).collect();
        let pods = |owners: &[(u16, String)]| -> Vec<String> {
            let table = held_by(owners);
            keys.iter().map(|&key| table.owner(key).uid.clone()).collect()
        };
        let mut at = pods(&owners);
        let mut moved = 0_u32;
        let mut step = |owners: &[(u16, String)]| {
            let next = pods(owners);
            moved += next
                .iter()
                .zip(&at)
                .map(|(next, at)| u32::from(next != at))
                .sum::<u32>();
            at = next;
        };
        for place in 0..usize::from(slots) {
            let slot = owners[place].0;
            if place % 20 == 19 {
                let mut without = owners.clone();
                without.remove(place);
                step(&without);
            }
            owners[place].1 = format!("new-{slot}");
            step(&owners);
        }
        let each = f64::from(moved) / keys.len() as f64;
        println!("{slots} slots: a rollout moves each key {each:.3} times");
        assert!((1.0..=1.10).contains(&each), "{slots} slots: {each}");
    }
}

#[test]
fn who_leaves_gives_its_keys_to_their_second_and_nobody_else_loses_any() {
    let keys = keys(1_000);
    let mut random = Random(9);
    for slots in 2..=MOST {
        let before = table(0..slots);
        let leaving = u16::try_from(random.next() % u64::from(slots)).unwrap();
        let after = table((0..slots).filter(|&slot| slot != leaving));
        for &key in &keys {
            let owner = before.owner(key).slot;
            let expected = if owner == leaving {
                before.rank2(key).unwrap().slot
            } else {
                owner
            };
            assert_eq!(after.owner(key).slot, expected, "{slots} slots, {leaving} leaves");
        }
    }
}

#[test]
fn everybody_agrees_in_whatever_order_the_owners_came() {
    let keys = keys(300);
    let mut random = Random(11);
    for slots in 2..=MOST {
        let sorted = table(0..slots);
        let mut order: Vec<u16> = (0..slots).collect();
        random.shuffle(&mut order);
        let shuffled = table(order);
        assert_eq!(shuffled.to_yaml(), sorted.to_yaml());
        let read = RoutingTable::from_routing_yaml(&shuffled.to_yaml()).unwrap();
        for &key in &keys {
            assert_eq!(read.owner(key), sorted.owner(key));
            assert_eq!(read.rank2(key), sorted.rank2(key));
        }
    }
}

/// The pod of a slot is not part of its score: who inherits a slot inherits its keys.
#[test]
fn who_inherits_a_slot_inherits_exactly_its_keys() {
    let before = table(0..20);
    let mut owners = before.owners().to_vec();
    owners[7].uid = "another".to_owned();
    let after = RoutingTable::new(2, before.header().clone(), owners).unwrap();
    for key in keys(10_000) {
        assert_eq!(after.owner(key).slot, before.owner(key).slot);
    }
}
