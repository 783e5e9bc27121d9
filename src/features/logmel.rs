//! The extractor: signal, frames, spectra, mel bands, logarithm, normalisation, eight frames at a
//! time. One plan serves any number of threads; each thread brings a [`LogMelScratch`], and nothing is
//! allocated per frame. What comes out depends on the samples alone: not on batch mates, and not on
//! padding, which is never seen.

use rand::Rng;

use super::compression::Compression;
use super::dither::add_noise;
use super::mel::{LANES, Lanes, MelBank, mel_matrix};
use super::normalize::normalize;
use super::spectrum::{SpectrumPlan, SpectrumScratch};
use super::{FeatureError, Features, LogMelConfig, PreemphasisOver};

/// Everything that depends on the settings alone.
pub struct LogMel {
    config: LogMelConfig,
    spectrum: SpectrumPlan,
    mel: MelBank,
    compression: Compression,
}

/// Work space of one thread.
pub struct LogMelScratch {
    samples: Vec<f64>,
    /// From the first sample of the first frame to the last of the last.
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
            samples: Vec::new(),
            signal: Vec::new(),
            spectrum: self.spectrum.scratch(),
            powers: vec![[0.0; LANES]; self.spectrum.num_bins()],
            bands: vec![[0.0; LANES]; self.config.num_mels],
        }
    }

    /// The features of one utterance, without dither.
    pub fn compute(&self, scratch: &mut LogMelScratch, samples: &[f32]) -> Features {
        self.scale(samples, &mut scratch.samples);
        self.finish(scratch)
    }

    /// The features of one training utterance, with the dither of the settings from `rng`. Without
    /// dither nothing is drawn.
    pub fn compute_dithered(
        &self,
        scratch: &mut LogMelScratch,
        samples: &[f32],
        rng: &mut impl Rng,
    ) -> Features {
        self.scale(samples, &mut scratch.samples);
        if self.config.dither > 0.0 {
            add_noise(&mut scratch.samples, self.config.dither, rng);
        }
        self.finish(scratch)
    }

    fn scale(&self, samples: &[f32], out: &mut Vec<f64>) {
        let scale = self.config.input_scale;
        out.clear();
        out.extend(samples.iter().map(|x| f64::from(*x) * scale));
    }

    fn finish(&self, scratch: &mut LogMelScratch) -> Features {
        let num_mels = self.config.num_mels;
        let num_frames = self.config.num_frames(scratch.samples.len());
        let mut data = vec![0.0; num_frames * num_mels];
        if num_frames > 0 {
            self.lay_out(scratch, num_frames);
            self.fill(scratch, &mut data);
            self.compression.finish(&mut data);
            normalize(self.config.normalize, &mut data, num_mels);
        }
        Features { data, num_frames, num_mels }
    }

    /// The signal from the first frame to the last, emphasised where the filter runs over it.
    fn lay_out(&self, scratch: &mut LogMelScratch, num_frames: usize) {
        let config = &self.config;
        let (window_len, hop) = (config.window_len(), config.hop_len());
        if config.preemphasis_over == PreemphasisOver::Signal && config.preemphasis != 0.0 {
            for n in (1..scratch.samples.len()).rev() {
                scratch.samples[n] -= config.preemphasis * scratch.samples[n - 1];
            }
        }
        let first = config.framing.first_sample(window_len, hop, config.n_fft);
        let end = first + ((num_frames - 1) * hop + window_len) as isize;
        scratch.signal.clear();
        config.edges.extend(&scratch.samples, first, end, &mut scratch.signal);
    }

    fn fill(&self, scratch: &mut LogMelScratch, data: &mut [f32]) {
        let (num_mels, hop) = (self.config.num_mels, self.config.hop_len());
        for (block, rows) in data.chunks_mut(LANES * num_mels).enumerate() {
            let signal = &scratch.signal[block * LANES * hop..];
            let num_frames = rows.len() / num_mels;
            self.spectrum.block(signal, num_frames, &mut scratch.spectrum, &mut scratch.powers);
            self.mel.apply(&scratch.powers, &mut scratch.bands);
            for (lane, row) in rows.chunks_exact_mut(num_mels).enumerate() {
                for (x, band) in row.iter_mut().zip(&scratch.bands) {
                    *x = band[lane];
                }
            }
            self.compression.logarithms(rows);
        }
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
