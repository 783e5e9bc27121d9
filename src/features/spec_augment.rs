//! SpecAugment (Park et al. 2019) without time warping: bands of mel bins and stretches of frames are
//! set to 0, which is the mean of normalised features. The generator is passed in, so that the masks
//! of an utterance are a function of whatever seeded it.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::Features;

/// How much is masked; masks may overlap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpecAugmentConfig {
    /// Masks over mel bands.
    pub freq_masks: usize,
    /// Widest band mask.
    pub freq_width: usize,
    /// Masks over time.
    pub time_masks: usize,
    /// Longest time mask, as a share of the utterance.
    pub time_fraction: f64,
}

impl Default for SpecAugmentConfig {
    fn default() -> SpecAugmentConfig {
        SpecAugmentConfig { freq_masks: 2, freq_width: 27, time_masks: 2, time_fraction: 0.05 }
    }
}

impl SpecAugmentConfig {
    /// Nothing is masked.
    pub fn off() -> SpecAugmentConfig {
        SpecAugmentConfig { freq_masks: 0, time_masks: 0, ..SpecAugmentConfig::default() }
    }

    /// Masks `features` in place. Each width is uniform from 0 to the widest, each place uniform.
    pub fn apply(&self, features: &mut Features, rng: &mut impl Rng) {
        let (num_frames, num_mels) = (features.num_frames, features.num_mels);
        if num_frames == 0 {
            return;
        }
        for _ in 0..self.freq_masks {
            let width = rng.random_range(0..=self.freq_width.min(num_mels) as u32) as usize;
            let first = rng.random_range(0..=(num_mels - width) as u32) as usize;
            for frame in features.data.chunks_exact_mut(num_mels) {
                frame[first..first + width].fill(0.0);
            }
        }
        let longest = (num_frames as f64 * self.time_fraction.clamp(0.0, 1.0)) as u32;
        for _ in 0..self.time_masks {
            let width = rng.random_range(0..=longest) as usize;
            let first = rng.random_range(0..=(num_frames - width) as u32) as usize;
            features.data[first * num_mels..(first + width) * num_mels].fill(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn ones(num_frames: usize, num_mels: usize) -> Features {
        Features { data: vec![1.0; num_frames * num_mels], num_frames, num_mels }
    }

    #[test]
    fn masks_stay_within_their_widths_and_one_seed_gives_one_result() {
        let config =
            SpecAugmentConfig { freq_masks: 1, freq_width: 10, time_masks: 1, time_fraction: 0.1 };
        let mut widest = (0, 0);
        for seed in 0..200 {
            let run = || {
                let mut features = ones(200, 80);
                config.apply(&mut features, &mut ChaCha8Rng::seed_from_u64(seed));
                features
            };
            let features = run();
            assert_eq!(features, run());
            let zero_frames =
                features.data.chunks(80).filter(|row| row.iter().all(|x| *x == 0.0)).count();
            let zero_mels = (0..80)
                .filter(|m| features.data.iter().skip(*m).step_by(80).all(|x| *x == 0.0))
                .count();
            assert!(zero_frames <= 20 && zero_mels <= 10);
            widest = (widest.0.max(zero_frames), widest.1.max(zero_mels));
            let kept = (200 - zero_frames) * (80 - zero_mels);
            assert_eq!(
                features.data.iter().filter(|x| **x == 1.0).count(),
                kept,
                "masks are rectangles"
            );
        }
        assert_eq!(widest, (20, 10), "the widest masks occur");
    }

    #[test]
    fn tiny_inputs_and_wide_masks_never_panic() {
        let config =
            SpecAugmentConfig { freq_masks: 3, freq_width: 500, time_masks: 3, time_fraction: 9.0 };
        for (frames, mels) in [(0, 80), (1, 1), (1, 80), (3, 2)] {
            let mut features = ones(frames, mels);
            config.apply(&mut features, &mut ChaCha8Rng::seed_from_u64(1));
            assert_eq!(features.data.len(), frames * mels);
        }
        let mut features = ones(50, 80);
        SpecAugmentConfig::off().apply(&mut features, &mut ChaCha8Rng::seed_from_u64(1));
        assert!(features.data.iter().all(|x| *x == 1.0));
    }
}
