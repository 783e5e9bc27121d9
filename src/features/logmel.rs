//! The extractor: signal, frames, spectra, mel bands, logarithm, normalisation, eight frames at a
//! time. One plan serves any number of threads; each thread brings a [`LogMelScratch`], and nothing is
//! allocated per frame. What comes out depends on the samples alone: not on batch mates, and not on
//! padding, which is never seen.

use rand::Rng;

use super::compression::Compression;
use super::dither::add_noise;
use super::mel::{LANES, Lanes, MelBank, mel_matrix};
use super::normalize::normalize;
use super::signal::Signal;
use super::spectrum::{SpectrumPlan, SpectrumScratch};
use super::{FeatureError, Features, LogMelConfig};

/// Everything that depends on the settings alone.
pub struct LogMel {
    config: LogMelConfig,
    spectrum: SpectrumPlan,
    mel: MelBank,
    compression: Compression,
}

/// Work space of one thread.
pub struct LogMelScratch {
    /// Of an utterance with dither.
    dithered: Vec<f64>,
    /// What a block of frames sees.
    signal: Vec<f64>,
    spectrum: SpectrumScratch,
    powers: Vec<Lanes>,
    bands: Vec<Lanes>,
}

impl LogMel {
    /// Plans the transform.
    ///
    /// # Errors
    /// When the settings have no meaning.
    pub fn new(config: &LogMelConfig) -> Result<LogMel, FeatureError> {
        config.validate()?;
        Ok(LogMel {
            spectrum: SpectrumPlan::new(config),
            mel: MelBank::new(&mel_matrix(config)),
            compression: Compression::new(config),
            config: config.clone(),
        })
    }

    /// The settings.
    pub fn config(&self) -> &LogMelConfig {
        &self.config
    }

    /// Work space for [`LogMel::compute`].
    pub fn scratch(&self) -> LogMelScratch {
        LogMelScratch {
            dithered: Vec::new(),
            signal: vec![0.0; (LANES - 1) * self.config.hop_len() + self.config.window_len()],
            spectrum: self.spectrum.scratch(),
            powers: vec![[0.0; LANES]; self.spectrum.num_bins()],
            bands: vec![[0.0; LANES]; self.config.num_mels],
        }
    }

    /// The features of one utterance, without dither.
    pub fn compute(&self, scratch: &mut LogMelScratch, samples: &[f32]) -> Features {
        let signal = Signal::new(&self.config, samples, self.config.input_scale);
        self.features(scratch, &signal, samples.len())
    }

    /// The features of one training utterance, with the dither of the settings from `rng`. Without
    /// dither nothing is drawn.
    pub fn compute_dithered(
        &self,
        scratch: &mut LogMelScratch,
        samples: &[f32],
        rng: &mut impl Rng,
    ) -> Features {
        if self.config.dither == 0.0 {
            return self.compute(scratch, samples);
        }
        let mut dithered = std::mem::take(&mut scratch.dithered);
        dithered.clear();
        dithered.extend(samples.iter().map(|x| f64::from(*x) * self.config.input_scale));
        add_noise(&mut dithered, self.config.dither, rng);
        let signal = Signal::new(&self.config, &dithered, 1.0);
        let features = self.features(scratch, &signal, samples.len());
        scratch.dithered = dithered;
        features
    }

    fn features<S: Copy + Into<f64>>(
        &self,
        scratch: &mut LogMelScratch,
        signal: &Signal<S>,
        num_samples: usize,
    ) -> Features {
        let config = &self.config;
        let (num_mels, hop, window_len) = (config.num_mels, config.hop_len(), config.window_len());
        let num_frames = config.num_frames(num_samples);
        let first = config.framing.first_sample(window_len, hop, config.n_fft);
        let mut data = vec![0.0; num_frames * num_mels];
        for (block, rows) in data.chunks_mut(LANES * num_mels).enumerate() {
            let count = rows.len() / num_mels;
            let seen = &mut scratch.signal[..(count - 1) * hop + window_len];
            signal.read(first + (block * LANES * hop) as isize, seen);
            self.spectrum.block(seen, count, &mut scratch.spectrum, &mut scratch.powers);
            self.mel.apply(&scratch.powers, &mut scratch.bands);
            for (lane, row) in rows.chunks_exact_mut(num_mels).enumerate() {
                for (x, band) in row.iter_mut().zip(&scratch.bands) {
                    *x = band[lane];
                }
            }
            self.compression.logarithms(rows);
        }
        self.compression.finish(&mut data);
        normalize(config.normalize, &mut data, num_mels);
        Features { data, num_frames, num_mels }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Preset;
    use super::super::signals::noise;
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn compute(config: &LogMelConfig, samples: &[f32]) -> Features {
        let plan = LogMel::new(config).unwrap();
        plan.compute(&mut plan.scratch(), samples)
    }

    #[test]
    fn a_scratch_that_was_used_before_changes_nothing() {
        for preset in Preset::ALL {
            let plan = LogMel::new(&preset.settings(16_000)).unwrap();
            let mut scratch = plan.scratch();
            let first = plan.compute(&mut scratch, &noise(5, 5_000, 0.5));
            plan.compute(&mut scratch, &noise(6, 9_000, 0.5));
            assert_eq!(plan.compute(&mut scratch, &noise(5, 5_000, 0.5)), first, "{preset}");
        }
    }

    #[test]
    fn features_of_anything_finite_are_finite() {
        for preset in Preset::ALL {
            let config = preset.settings(16_000);
            for signal in [
                vec![],
                vec![1.0],
                vec![0.0; 159],
                vec![0.0; 160],
                vec![1.0; 16_000],
                vec![f32::MIN_POSITIVE; 4_000],
                vec![1e3; 4_000],
                noise(9, 4_000, f32::MAX),
            ] {
                let features = compute(&config, &signal);
                assert_eq!(features.num_frames, config.num_frames(signal.len()));
                assert_eq!(features.data.len(), features.num_frames * features.num_mels);
                assert!(features.data.iter().all(|x| x.is_finite()), "{preset} {}", signal.len());
            }
        }
    }

    #[test]
    fn dither_is_the_streams_alone_and_only_where_it_is_set() {
        let kaldi = Preset::Kaldi.settings(16_000);
        let dithered = LogMelConfig { dither: 1.0, ..kaldi.clone() };
        let silence = vec![0.0; 4_000];
        let run = |config: &LogMelConfig, seed: u64| {
            let plan = LogMel::new(config).unwrap();
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            plan.compute_dithered(&mut plan.scratch(), &silence, &mut rng)
        };
        assert_eq!(run(&dithered, 1), run(&dithered, 1));
        assert_ne!(run(&dithered, 1), run(&dithered, 2));
        assert_eq!(run(&kaldi, 1), compute(&kaldi, &silence));
        // Evaluation never sees it.
        assert_eq!(compute(&dithered, &silence), compute(&kaldi, &silence));
        // A deviation of 1 is far above Kaldi's floor of 1.2e-7.
        assert!(run(&dithered, 1).data.iter().all(|x| *x > -5.0));
    }

    #[test]
    fn zeros_behind_an_utterance_move_no_frame_that_does_not_reach_them() {
        for preset in Preset::ALL {
            let config = LogMelConfig {
                normalize: super::super::Normalize::None,
                ..preset.settings(16_000)
            };
            let samples = noise(7, 8_000, 0.5);
            let mut padded = samples.clone();
            padded.resize(20_000, 0.0);
            let (alone, padded) = (compute(&config, &samples), compute(&config, &padded));
            let reach = config.n_fft / config.hop_len() + 2;
            let inner = (alone.num_frames - reach) * alone.num_mels;
            for (a, b) in alone.data[..inner].iter().zip(&padded.data) {
                assert!((a - b).abs() < 1e-5, "{preset} {a} {b}");
            }
        }
    }
}
