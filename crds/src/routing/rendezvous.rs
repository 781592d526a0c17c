//! Rendezvous hashing of keys over slots: the highest score wins. Frozen: see [`NAME`].
//!
//! ```text
//! seed(slot)       = mix((slot + 1) * GAMMA)    the outputs of SplitMix64 that starts at 0
//! score(slot, key) = mix(key ^ seed(slot))
//! ```
//! `mix` is the finalizer of `SplitMix64` (Stafford's variant 13): one to one, and every bit of its input moves about half
//! of its output. So no two slots have the same score for a key, and the order of slots never matters. Keys are hashes
//! already; what is mixed here only has to part the slots from each other.
//!
//! A ring or a table would be faster to look up, but moves keys between slots that stay, or needs a history that all
//! pods would have to share.

/// The name of this function in tables. Another function needs another name.
pub const NAME: &str = "hrw-splitmix64-v1";

/// 2^64 / golden ratio, odd.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// What stands for a slot in its scores. Computed once a table.
pub(super) fn seed(slot: u16) -> u64 {
    mix((u64::from(slot) + 1).wrapping_mul(GAMMA))
}

/// How much the slot with this seed wants this key.
pub(super) fn score(seed: u64, key: u64) -> u64 {
    mix(key ^ seed)
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The place in `seeds` of the highest score; 0 if there are none.
pub(super) fn highest(seeds: &[u64], key: u64) -> usize {
    let (mut best, mut place) = (0, 0);
    for (index, &seed) in seeds.iter().enumerate() {
        let score = score(seed, key);
        if score > best {
            (best, place) = (score, index);
        }
    }
    place
}

/// The place in `seeds` of the second highest score.
pub(super) fn second_highest(seeds: &[u64], key: u64) -> Option<usize> {
    let first = highest(seeds, key);
    let others = (0..seeds.len()).filter(|&index| index != first);
    others.max_by_key(|&index| score(seeds[index], key))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As published for `SplitMix64` with the seed 0.
    #[test]
    fn seeds_are_the_outputs_of_splitmix64() {
        let expected = [
            0xe220_a839_7b1d_cdaf,
            0x6e78_9e6a_a1b9_65f4,
            0x06c4_5d18_8009_454f,
            0xf88b_b8a8_724c_81ec,
            0x1b39_896a_51a8_749b,
        ];
        assert_eq!([0, 1, 2, 3, 4].map(seed), expected);
    }

    #[test]
    fn scores_are_frozen() {
        for (slot, key, expected) in SCORES {
            assert_eq!(score(seed(slot), key), expected, "slot {slot}, key {key:#x}");
        }
    }

    const SCORES: [(u16, u64, u64); 6] = [
        (0, 0x0000_0000_0000_0000, 0x4821_8226_ff3c_d4bf),
        (0, 0x0000_0000_0000_0001, 0x9e01_6029_3a33_aaf7),
        (1, 0xffff_ffff_ffff_ffff, 0x9ce4_1992_d313_84f9),
        (7, 0x0123_4567_89ab_cdef, 0x0967_9c1b_9c93_cfea),
        (199, 0x0123_4567_89ab_cdef, 0xc6aa_17bc_ab93_d787),
        (999, 0xfedc_ba98_7654_3210, 0xb8c7_a787_9d8a_35d8),
    ];

    #[test]
    fn no_two_slots_have_the_same_score() {
        let mut seeds: Vec<u64> = (0..=u16::MAX).map(seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        // `mix` is one to one, so scores differ where seeds do.
        assert_eq!(seeds.len(), 1 << 16);
    }

    #[test]
    fn the_first_two_are_the_highest_two() {
        let seeds: Vec<u64> = (0..7).map(seed).collect();
        for key in (0..1000).map(|key: u64| key.wrapping_mul(GAMMA)) {
            let mut places: Vec<usize> = (0..seeds.len()).collect();
            places.sort_by_key(|&place| std::cmp::Reverse(score(seeds[place], key)));
            assert_eq!(highest(&seeds, key), places[0]);
            assert_eq!(second_highest(&seeds, key), Some(places[1]));
        }
        assert_eq!(second_highest(&seeds[..1], 7), None);
    }
}
