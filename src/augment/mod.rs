//! What is done to training utterances so that no epoch repeats another: room responses, noise and
//! gain on the samples ([`Augmenter::vary`]), masks on the features ([`SpecAugmentConfig`]). Speed is
//! drawn where batches are planned, since it decides the length.
//!
//! Every choice comes from a generator that the caller seeds for one utterance in one epoch, so order,
//! worker count and resuming change nothing. No length changes here, nothing moves in time, and no
//! silence, of an utterance or of a clip, makes a NaN.

mod clips;
mod config;
mod error;
mod gain;
mod noise;
mod rir;
mod spec_augment;

use std::path::Path;

use rand::Rng;

use clips::Clips;

pub use config::{AugmentConfig, GainConfig, NoiseConfig, RirConfig};
pub use error::AugmentError;
pub use noise::{active_power, mix_at_snr};
pub use rir::reverberate;
pub use spec_augment::{MaskFill, Masks, SpecAugmentConfig};

/// What a generator is wanted for; each has numbers of its own, so that switching one kind of
/// augmentation on leaves the others as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Whether a room is added, and which.
    Rir,
    /// Whether noise is added, which, from where and how loud.
    Noise,
    /// Whether the level changes, and by how much.
    Gain,
}

/// The settings with their clips at hand.
pub struct Augmenter {
    config: AugmentConfig,
    spec_augment: SpecAugmentConfig,
    views: usize,
    sample_rate_hz: u32,
    responses: Clips,
    noises: Clips,
}

impl Augmenter {
    /// Reads the manifests of noises and rooms, and every clip in them once.
    ///
    /// # Errors
    /// [`AugmentError`] naming the setting, the line or the clip.
    pub fn open(
        config: &AugmentConfig,
        spec_augment: &SpecAugmentConfig,
        sample_rate_hz: u32,
    ) -> Result<Augmenter, AugmentError> {
        config.validate()?;
        spec_augment.validate()?;
        let mut room_for = (config.cache_audio_mb << 20) / size_of::<f32>();
        // Rooms first: they are the shorter, and each is needed whole.
        let responses = Clips::open(&config.rir.manifests, sample_rate_hz, &mut room_for)?;
        responses.refuse_silence()?;
        let noises = Clips::open(&config.noise.manifests, sample_rate_hz, &mut room_for)?;
        Ok(Augmenter {
            config: config.clone(),
            spec_augment: spec_augment.clone(),
            views: 1,
            sample_rate_hz,
            responses,
            noises,
        })
    }

    /// Nothing is varied and nothing masked.
    pub fn off() -> Augmenter {
        Augmenter {
            config: AugmentConfig::default(),
            spec_augment: SpecAugmentConfig::off(),
            views: 1,
            sample_rate_hz: 16_000,
            responses: Clips::default(),
            noises: Clips::default(),
        }
    }

    /// The same, showing each utterance in `views` copies (1 or 2) that differ in their masks.
    #[must_use]
    pub fn with_views(self, views: usize) -> Augmenter {
        Augmenter { views, ..self }
    }

    /// Differently masked copies of each utterance.
    pub fn views(&self) -> usize {
        self.views
    }

    /// The masks on features.
    pub fn spec_augment(&self) -> &SpecAugmentConfig {
        &self.spec_augment
    }

    /// The noises that are silent and add nothing, by place and file.
    pub fn silent_noises(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.noises.quieter_than(noise::SILENCE)
    }

    /// Whether [`Augmenter::vary`] can change anything.
    pub fn varies_samples(&self) -> bool {
        let clips = [(&self.config.rir.manifests, self.config.rir.probability)];
        let noise = (&self.config.noise.manifests, self.config.noise.probability);
        let has_clips = clips.into_iter().chain([noise]).any(|(m, p)| !m.is_empty() && p > 0.0);
        has_clips || self.config.gain.probability > 0.0
    }

    /// Puts the utterance into a room, adds noise, and changes its level, in this order, each with its
    /// probability: noise is measured against the speech as it is heard in the room. `generator` makes
    /// the generator of each draw.
    ///
    /// # Errors
    /// When a clip that does not fit into memory cannot be read any more.
    pub fn vary<R: Rng>(
        &self,
        samples: &mut [f32],
        generator: impl Fn(Draw) -> R,
    ) -> Result<(), AugmentError> {
        if !self.responses.is_empty() {
            let mut rng = generator(Draw::Rir);
            if rng.random_bool(self.config.rir.probability) {
                let response = self.responses.whole(self.responses.choose(&mut rng))?;
                reverberate(samples, &response);
            }
        }
        if !self.noises.is_empty() {
            let mut rng = generator(Draw::Noise);
            let noise = &self.config.noise;
            if rng.random_bool(noise.probability) {
                let clip = self.noises.choose(&mut rng);
                let stretch = self.noises.stretch(clip, samples.len(), &mut rng)?;
                let snr_db = rng.random_range(noise.min_snr_db..=noise.max_snr_db);
                mix_at_snr(samples, &stretch, snr_db, self.sample_rate_hz);
            }
        }
        let gain = &self.config.gain;
        if gain.probability > 0.0 {
            let mut rng = generator(Draw::Gain);
            if rng.random_bool(gain.probability) {
                gain::amplify(samples, rng.random_range(gain.min_db..=gain.max_db));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::audio::tests::{Scratch, tone};

    fn generator(seed: u64) -> impl Fn(Draw) -> ChaCha8Rng {
        move |draw| ChaCha8Rng::seed_from_u64(seed * 8 + draw as u64)
    }

    /// Two noises (one silent) and two rooms (one the unit impulse), with their manifests.
    fn all_on(scratch: &Scratch) -> AugmentConfig {
        let hiss: Vec<f32> =
            (0..3_000_u64).map(|i| ((i * 7_919) % 1_009) as f32 / 2_018.0 - 0.25).collect();
        scratch.wav("hiss.wav", 16_000, &[&hiss]);
        scratch.wav("silent.wav", 16_000, &[&[0.0; 500]]);
        let mut room = vec![0.0; 2_000];
        (room[20], room[700], room[1_500]) = (0.9, 0.4, -0.2);
        scratch.wav("room.wav", 16_000, &[&room]);
        scratch.wav("unit.wav", 16_000, &[&[0.9]]);
        let line = |name: &str| format!("{{\"audio_filepath\": \"{name}.wav\"}}\n");
        let noise = scratch.write("noise.jsonl", (line("hiss") + &line("silent")).as_bytes());
        let rir = scratch.write("rir.jsonl", (line("room") + &line("unit")).as_bytes());
        AugmentConfig {
            gain: GainConfig { probability: 0.5, ..GainConfig::default() },
            noise: NoiseConfig { manifests: vec![noise], ..NoiseConfig::default() },
            rir: RirConfig { manifests: vec![rir], ..RirConfig::default() },
            ..AugmentConfig::default()
        }
    }

    fn open(config: &AugmentConfig) -> Augmenter {
        Augmenter::open(config, &SpecAugmentConfig::off(), 16_000).unwrap()
    }

    #[test]
    fn one_seed_gives_one_result_and_others_differ_with_or_without_a_cache() {
        let scratch = Scratch::new("augment-seed");
        let config = all_on(&scratch);
        let cached = open(&config);
        let uncached = open(&AugmentConfig { cache_audio_mb: 0, ..config });
        let clean = tone(300.0, 16_000, 8_000);
        let vary = |augmenter: &Augmenter, seed| {
            let mut samples = clean.clone();
            augmenter.vary(&mut samples, generator(seed)).unwrap();
            samples
        };
        let mut results = std::collections::HashSet::new();
        for seed in 0..40 {
            let samples = vary(&cached, seed);
            assert!(samples == vary(&cached, seed) && samples == vary(&uncached, seed), "{seed}");
            assert_eq!(samples.len(), clean.len());
            assert!(samples.iter().all(|x| x.is_finite()));
            results.insert(samples.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
        }
        assert!(results.len() > 20, "only {} different copies", results.len());
    }

    #[test]
    fn switching_one_kind_on_leaves_the_draws_of_the_others() {
        let scratch = Scratch::new("augment-apart");
        let config = all_on(&scratch);
        let gain_only = open(&AugmentConfig {
            noise: NoiseConfig::default(),
            rir: RirConfig::default(),
            ..config.clone()
        });
        let with_silence = {
            let line = "{\"audio_filepath\": \"silent.wav\"}\n";
            let manifest = scratch.write("silence.jsonl", line.as_bytes());
            let noise = NoiseConfig { manifests: vec![manifest], ..config.noise };
            open(&AugmentConfig { noise, rir: RirConfig::default(), ..config })
        };
        for seed in 0..20 {
            let (mut a, mut b) = (tone(200.0, 16_000, 4_000), tone(200.0, 16_000, 4_000));
            gain_only.vary(&mut a, generator(seed)).unwrap();
            with_silence.vary(&mut b, generator(seed)).unwrap();
            assert_eq!(a, b, "silent noise adds nothing, and moves no other draw");
        }
    }

    #[test]
    fn silence_a_single_sample_and_nothing_stay_finite() {
        let scratch = Scratch::new("augment-silence");
        let augmenter = open(&all_on(&scratch));
        for utterance in [vec![], vec![0.0], vec![0.3], vec![0.0; 5_000], vec![1e-30; 400]] {
            for seed in 0..30 {
                let mut samples = utterance.clone();
                augmenter.vary(&mut samples, generator(seed)).unwrap();
                assert_eq!(samples.len(), utterance.len());
                assert!(samples.iter().all(|x| x.is_finite()));
                if utterance.iter().all(|x| *x == 0.0) {
                    assert_eq!(samples, utterance, "no ratio to silence exists");
                }
            }
        }
    }

    #[test]
    fn by_default_samples_are_left_alone() {
        let augmenter = open(&AugmentConfig::default());
        assert!(!augmenter.varies_samples() && !Augmenter::off().varies_samples());
        let mut samples = tone(300.0, 16_000, 1_000);
        augmenter.vary(&mut samples, generator(1)).unwrap();
        assert_eq!(samples, tone(300.0, 16_000, 1_000));
        let scratch = Scratch::new("augment-varies");
        assert!(open(&all_on(&scratch)).varies_samples());
    }
}
