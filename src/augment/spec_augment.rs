//! SpecAugment without time warping: bands of mel bins and stretches of frames are masked. Time masks
//! are given by count and greatest width (Park et al. 2019), or adapt to the length of the utterance
//! (Park et al. 2020, "SpecAugment on large scale datasets"): their number as
//! `time_masks_per_frame` times its frames, their width as `time_fraction` of them. The generator is
//! passed in, so that the masks of an utterance are a function of whatever seeded it.

use std::ops::Range;

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::AugmentError;

/// What masked features are set to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MaskFill {
    /// 0, which is the mean of features that are normalised.
    #[default]
    Zero,
    /// The mean of the utterance, for features that are not.
    Mean,
}

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
    /// Masks over time for each frame, instead of `time_masks`; 0 keeps those.
    pub time_masks_per_frame: f64,
    /// Most of the masks that `time_masks_per_frame` asks for.
    pub max_time_masks: usize,
    /// Longest time mask in frames; 0 does not bound it.
    pub time_width: usize,
    /// Longest time mask, as a share of the utterance.
    pub time_fraction: f64,
    /// What masked features are set to: `"zero"` or `"mean"`.
    pub fill: MaskFill,
}

/// What is masked of one utterance; masks may be empty and may overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// Mel bands, over all of its frames.
    pub bands: Vec<Range<usize>>,
    /// Frames.
    pub frames: Vec<Range<usize>>,
}

impl Masks {
    /// Sets what is masked of `features` `[T, num_mels]`, those of the utterance that they were drawn for.
    pub fn apply(&self, features: &mut [f32], num_mels: usize, fill: f32) {
        for bands in &self.bands {
            for frame in features.chunks_exact_mut(num_mels) {
                frame[bands.clone()].fill(fill);
            }
        }
        for frames in &self.frames {
            features[frames.start * num_mels..frames.end * num_mels].fill(fill);
        }
    }
}

impl Default for SpecAugmentConfig {
    fn default() -> SpecAugmentConfig {
        SpecAugmentConfig {
            freq_masks: 2,
            freq_width: 27,
            time_masks: 2,
            time_masks_per_frame: 0.0,
            max_time_masks: 20,
            time_width: 0,
            time_fraction: 0.05,
            fill: MaskFill::Zero,
        }
    }
}

impl SpecAugmentConfig {
    /// Nothing is masked.
    pub fn off() -> SpecAugmentConfig {
        SpecAugmentConfig { freq_masks: 0, time_masks: 0, ..SpecAugmentConfig::default() }
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// Names the first without a meaning.
    pub fn validate(&self) -> Result<(), AugmentError> {
        for (key, value, reason) in [
            (
                "spec_augment.time_fraction",
                self.time_fraction,
                "it is a share of the utterance, and must lie between 0 and 1",
            ),
            (
                "spec_augment.time_masks_per_frame",
                self.time_masks_per_frame,
                "expected masks a frame, 0 to 1 (0.04 is usual; 0 counts by time_masks)",
            ),
        ] {
            if !(0.0..=1.0).contains(&value) {
                let (value, reason) = (value.to_string(), reason.to_owned());
                return Err(AugmentError::Config { key, value, reason });
            }
        }
        Ok(())
    }

    /// Masks over time of an utterance.
    pub fn num_time_masks(&self, num_frames: usize) -> usize {
        if self.time_masks_per_frame > 0.0 {
            let count = (self.time_masks_per_frame * num_frames as f64) as usize;
            count.min(self.max_time_masks)
        } else {
            self.time_masks
        }
    }

    /// Frames of its longest time mask.
    pub fn longest_time_mask(&self, num_frames: usize) -> usize {
        let share = (num_frames as f64 * self.time_fraction.clamp(0.0, 1.0)) as usize;
        if self.time_width > 0 { share.min(self.time_width) } else { share }
    }

    /// The masks of an utterance. Each width is uniform from 0 to the widest, each place uniform.
    pub fn draw(&self, num_frames: usize, num_mels: usize, rng: &mut impl Rng) -> Masks {
        let mut masks = Masks::default();
        if num_frames == 0 {
            return masks;
        }
        let mut stretch = |widest: usize, len: usize| {
            let width = rng.random_range(0..=widest as u32) as usize;
            let first = rng.random_range(0..=(len - width) as u32) as usize;
            first..first + width
        };
        for _ in 0..self.freq_masks {
            masks.bands.push(stretch(self.freq_width.min(num_mels), num_mels));
        }
        let longest = self.longest_time_mask(num_frames);
        for _ in 0..self.num_time_masks(num_frames) {
            masks.frames.push(stretch(longest, num_frames));
        }
        masks
    }

    /// Masks `features` `[T, num_mels]` in place with what [`SpecAugmentConfig::draw`] draws.
    pub fn apply(&self, features: &mut [f32], num_mels: usize, rng: &mut impl Rng) {
        let num_frames = features.len() / num_mels;
        let masks = self.draw(num_frames, num_mels, rng);
        let fill = match self.fill {
            MaskFill::Mean if num_frames > 0 => mean(features),
            MaskFill::Mean | MaskFill::Zero => 0.0,
        };
        masks.apply(features, num_mels, fill);
    }
}

/// In f64: a long utterance's f32 sum drifts.
fn mean(data: &[f32]) -> f32 {
    (data.iter().map(|x| f64::from(*x)).sum::<f64>() / data.len() as f64) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::Features;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn ones(num_frames: usize, num_mels: usize) -> Features {
        Features { data: vec![1.0; num_frames * num_mels], num_frames, num_mels }
    }

    fn masked(config: &SpecAugmentConfig, num_frames: usize, seed: u64) -> Features {
        let mut features = ones(num_frames, 80);
        config.apply(&mut features.data, 80, &mut ChaCha8Rng::seed_from_u64(seed));
        features
    }

    fn zero_frames(features: &Features) -> usize {
        features.data.chunks(features.num_mels).filter(|row| row.iter().all(|x| *x == 0.0)).count()
    }

    #[test]
    fn masks_stay_within_their_widths_and_one_seed_gives_one_result() {
        let config = SpecAugmentConfig {
            freq_masks: 1,
            freq_width: 10,
            time_masks: 1,
            time_fraction: 0.1,
            ..SpecAugmentConfig::default()
        };
        let mut widest = (0, 0);
        for seed in 0..200 {
            let features = masked(&config, 200, seed);
            assert_eq!(features, masked(&config, 200, seed));
            let zero_frames = zero_frames(&features);
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
    fn a_width_in_frames_bounds_what_a_share_allows() {
        let config = SpecAugmentConfig {
            freq_masks: 0,
            time_masks: 1,
            time_width: 30,
            time_fraction: 0.5,
            ..SpecAugmentConfig::default()
        };
        for (num_frames, longest) in [(40, 20), (400, 30), (4_000, 30)] {
            let widths: Vec<usize> =
                (0..300).map(|seed| zero_frames(&masked(&config, num_frames, seed))).collect();
            assert_eq!(widths.iter().max(), Some(&longest), "{num_frames}");
            assert!(widths.contains(&0));
        }
    }

    #[test]
    fn adaptive_masks_grow_with_the_utterance_up_to_their_bound() {
        let config = SpecAugmentConfig {
            freq_masks: 0,
            time_masks_per_frame: 0.04,
            time_fraction: 0.04,
            ..SpecAugmentConfig::default()
        };
        let counts = [10, 24, 25, 250, 500, 5_000].map(|len| config.num_time_masks(len));
        assert_eq!(counts, [0, 0, 1, 10, 20, 20]);
        assert_eq!(config.longest_time_mask(250), 10);
        let mean_share = |num_frames: usize| {
            let zeros: usize =
                (0..100).map(|seed| zero_frames(&masked(&config, num_frames, seed))).sum();
            zeros as f64 / (100 * num_frames) as f64
        };
        // Ten masks of 0 to 10 of 250 frames, overlaps apart: up to a fifth.
        assert!((0.13..0.2).contains(&mean_share(250)), "{}", mean_share(250));
        assert!(mean_share(250) > 3.0 * mean_share(60));
    }

    #[test]
    fn filled_with_the_mean_a_constant_stays_and_a_mean_is_kept() {
        let config = SpecAugmentConfig { fill: MaskFill::Mean, ..SpecAugmentConfig::default() };
        assert_eq!(masked(&config, 100, 1), ones(100, 80));
        let mut ramp = ones(500, 80);
        for (i, x) in ramp.data.iter_mut().enumerate() {
            *x = -10.0 + (i / 80) as f32;
        }
        config.apply(&mut ramp.data, 80, &mut ChaCha8Rng::seed_from_u64(3));
        assert!(ramp.data.contains(&239.5), "the mean of -10 to 489");
    }

    #[test]
    fn tiny_inputs_and_wide_masks_never_panic() {
        let config = SpecAugmentConfig {
            freq_masks: 3,
            freq_width: 500,
            time_masks: 3,
            time_fraction: 9.0,
            ..SpecAugmentConfig::default()
        };
        for (frames, mels) in [(0, 80), (1, 1), (1, 80), (3, 2)] {
            let mut features = ones(frames, mels);
            config.apply(&mut features.data, mels, &mut ChaCha8Rng::seed_from_u64(1));
            assert_eq!(features.data.len(), frames * mels);
        }
        assert_eq!(masked(&SpecAugmentConfig::off(), 50, 1), ones(50, 80));
    }

    #[test]
    fn a_setting_without_a_meaning_is_named() {
        SpecAugmentConfig::default().validate().unwrap();
        for (text, key) in [
            ("time_fraction = 1.5", "spec_augment.time_fraction = 1.5"),
            ("time_masks_per_frame = nan", "spec_augment.time_masks_per_frame = NaN"),
        ] {
            let config: SpecAugmentConfig = toml::from_str(text).unwrap();
            assert!(config.validate().unwrap_err().to_string().contains(key));
        }
    }
}
