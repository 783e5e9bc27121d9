//! A shuffle of which any place can be asked without making the rest: a Feistel network over the least
//! power of four that holds the numbers, walked until it lands within them (Black and Rogaway 2002,
//! "Ciphers with arbitrary finite domains", method 2). An epoch is entered anywhere at no cost, and no
//! list of its order is kept.

use rand::RngCore;

/// Four rounds make a good shuffle of large halves; the halves of a small bucket are a few bits.
const ROUNDS: usize = 10;

/// An order of `0..len`.
pub(super) struct Permutation {
    len: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The order that `rng` draws.
    pub(super) fn new(len: usize, rng: &mut impl RngCore) -> Permutation {
        let bits = (len as u64).saturating_sub(1).checked_ilog2().map_or(0, |log| log + 1);
        let half_bits = bits.div_ceil(2).max(1);
        Permutation { len: len as u64, half_bits, keys: std::array::from_fn(|_| rng.next_u64()) }
    }

    /// What stands at `place`, which is below the length.
    pub(super) fn at(&self, place: usize) -> usize {
        debug_assert!((place as u64) < self.len);
        let mut value = place as u64;
        loop {
            value = self.encrypt(value);
            if value < self.len {
                return value as usize;
            }
        }
    }

    fn encrypt(&self, value: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in &self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::super::random::{Purpose, stream};
    use super::*;

    fn permutation(len: usize, seed: u64) -> Permutation {
        Permutation::new(len, &mut stream(seed, 0, Purpose::Shuffle, 0))
    }

    #[test]
    fn every_number_comes_once_whatever_the_length() {
        for len in (1..70).chain([255, 256, 257, 1_000, 4_096, 4_097, 100_003]) {
            let order = permutation(len, len as u64);
            let mut seen = vec![false; len];
            for place in 0..len {
                assert!(!std::mem::replace(&mut seen[order.at(place)], true), "{place} of {len}");
            }
        }
    }

    #[test]
    fn every_number_is_as_likely_at_every_place() {
        const DRAWS: u64 = 20_000;
        for len in [2, 3, 5, 8, 13, 16] {
            let mut counts = vec![0_f64; len * len];
            for seed in 0..DRAWS {
                let order = permutation(len, seed);
                (0..len).for_each(|place| counts[place * len + order.at(place)] += 1.0);
            }
            let expected = DRAWS as f64 / len as f64;
            let worst = counts.iter().map(|n| (n - expected).abs() / expected.sqrt());
            let worst = worst.fold(0.0, f64::max);
            // Of 256 cells the worst of a fair shuffle is beyond 4.5 deviations once in 500 times.
            assert!(worst < 4.5, "{len}: {worst} deviations");
        }
    }

    #[test]
    fn neighbours_do_not_stay_neighbours() {
        for seed in 0..20 {
            let order = permutation(1_000, seed);
            let beside = (1..1_000)
                .filter(|place| order.at(*place).abs_diff(order.at(place - 1)) == 1)
                .count();
            assert!(beside < 12, "{beside}, where 2 are expected");
        }
    }

    #[test]
    fn the_last_of_five_million_costs_no_more_than_the_first() {
        let order = permutation(5_000_000, 1);
        assert!(order.at(4_999_999) < 5_000_000);
        assert_ne!(order.at(4_999_999), permutation(5_000_000, 2).at(4_999_999));
    }
}
