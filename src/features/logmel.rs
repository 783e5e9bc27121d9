//! The spectrogram itself: pre-emphasis over the whole signal, frames centred on multiples of the hop,
//! zeros outside the signal, symmetric Hann window, power spectrum, mel bands, logarithm.
//! The spectrum is taken in f64: beside a loud tone a silent band is all rounding noise, which in f32
//! (here as in PyTorch) moves its logarithm by up to 5e-4.
//! One plan serves any number of threads; each thread brings a [`LogMelScratch`], and nothing is
//! allocated per frame.

use std::f64::consts::TAU;
use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};

use super::mel::{MelBank, mel_matrix};
use super::normalize::per_feature;
use super::{FeatureError, Features, LogMelConfig, Normalize};

/// Everything that depends on the settings alone.
pub struct LogMel {
    config: LogMelConfig,
    window: Vec<f64>,
    fft: Arc<dyn RealToComplex<f64>>,
    mel: MelBank,
}

/// Work space of one thread.
pub struct LogMelScratch {
    emphasised: Vec<f64>,
    frame: Vec<f64>,
    spectrum: Vec<Complex<f64>>,
    power: Vec<f32>,
    fft: Vec<Complex<f64>>,
}

/// The symmetric Hann window (`periodic=False` in PyTorch's words).
fn hann(len: usize) -> Vec<f64> {
    (0..len).map(|i| 0.5 - 0.5 * (TAU * i as f64 / (len - 1) as f64).cos()).collect()
}

impl LogMel {
    /// Plans the transform.
    ///
    /// # Errors
    /// When the settings have no meaning.
    pub fn new(config: &LogMelConfig) -> Result<LogMel, FeatureError> {
        config.validate()?;
        let rate_hz = f64::from(config.sample_rate_hz);
        let matrix =
            mel_matrix(rate_hz, config.n_fft, config.num_mels, config.fmin_hz, config.upper_hz());
        Ok(LogMel {
            window: hann(config.window_len()),
            fft: RealFftPlanner::new().plan_fft_forward(config.n_fft),
            mel: MelBank::new(&matrix),
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
            emphasised: Vec::new(),
            frame: self.fft.make_input_vec(),
            spectrum: self.fft.make_output_vec(),
            power: vec![0.0; self.config.n_fft / 2 + 1],
            fft: self.fft.make_scratch_vec(),
        }
    }

    /// The features of one utterance; less than one hop of audio has none.
    pub fn compute(&self, scratch: &mut LogMelScratch, samples: &[f32]) -> Features {
        let (num_mels, hop) = (self.config.num_mels, self.config.hop_len());
        let num_frames = self.config.num_frames(samples.len());
        self.emphasise(samples, &mut scratch.emphasised);
        let left = (self.config.n_fft - self.window.len()) / 2;
        // The window starts this far before the centre of its frame; that many zeros are in front.
        let mut data = vec![0.0; num_frames * num_mels];
        let guard = self.config.log_guard as f32;
        for (t, row) in data.chunks_exact_mut(num_mels).enumerate() {
            let signal = &scratch.emphasised[t * hop + left..][..self.window.len()];
            scratch.frame.fill(0.0);
            let inner = &mut scratch.frame[left..left + self.window.len()];
            for ((out, x), w) in inner.iter_mut().zip(signal).zip(&self.window) {
                *out = x * w;
            }
            self.fft
                .process_with_scratch(&mut scratch.frame, &mut scratch.spectrum, &mut scratch.fft)
                .expect("buffers come from the plan");
            for (power, bin) in scratch.power.iter_mut().zip(&scratch.spectrum) {
                *power = (bin.re * bin.re + bin.im * bin.im) as f32;
            }
            self.mel.apply(&scratch.power, row);
            for x in row {
                *x = (*x + guard).ln();
            }
        }
        if self.config.normalize == Normalize::PerFeature {
            per_feature(&mut data, num_mels);
        }
        Features { data, num_frames, num_mels }
    }

    /// `x[n] - c * x[n - 1]` with the first sample kept, and half a transform of zeros on both sides.
    fn emphasise(&self, samples: &[f32], out: &mut Vec<f64>) {
        let (pad, c) = (self.config.n_fft / 2, self.config.preemphasis);
        out.clear();
        out.reserve(samples.len() + 2 * pad);
        out.resize(pad, 0.0);
        out.extend(samples.first().map(|x| f64::from(*x)));
        out.extend(samples.windows(2).map(|pair| f64::from(pair[1]) - c * f64::from(pair[0])));
        out.resize(samples.len() + 2 * pad, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    /// The definition in f64 with a plain Fourier sum.
    fn slow_log_mel(config: &LogMelConfig, samples: &[f32]) -> Vec<f64> {
        let (n, win, hop) = (config.n_fft, config.window_len(), config.hop_len());
        let x: Vec<f64> = (0..samples.len())
            .map(|i| {
                f64::from(samples[i])
                    - if i > 0 { config.preemphasis * f64::from(samples[i - 1]) } else { 0.0 }
            })
            .collect();
        let matrix = mel_matrix(
            f64::from(config.sample_rate_hz),
            n,
            config.num_mels,
            config.fmin_hz,
            config.upper_hz(),
        );
        let window = hann(win);
        let mut out = Vec::new();
        for t in 0..samples.len() / hop {
            let mut frame = vec![0.0; n];
            for (i, w) in window.iter().enumerate() {
                let in_frame = (n - win) / 2 + i;
                let at = (t * hop + in_frame) as isize - (n / 2) as isize;
                if at >= 0 && (at as usize) < x.len() {
                    frame[in_frame] = x[at as usize] * w;
                }
            }
            let power: Vec<f64> = (0..=n / 2)
                .map(|k| {
                    let (mut re, mut im) = (0.0, 0.0);
                    for (i, x) in frame.iter().enumerate() {
                        let angle = TAU * ((k * i) % n) as f64 / n as f64;
                        re += x * angle.cos();
                        im -= x * angle.sin();
                    }
                    re * re + im * im
                })
                .collect();
            for row in &matrix {
                let energy: f64 = row.iter().zip(&power).map(|(w, p)| w * p).sum();
                out.push((energy + config.log_guard).ln());
            }
        }
        out
    }

    /// A linear congruential generator, so that the signals need no library.
    fn noise(seed: u32, len: usize, amplitude: f32) -> Vec<f32> {
        let mut state = seed;
        (0..len)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state as f32 / u32::MAX as f32 * 2.0 - 1.0) * amplitude
            })
            .collect()
    }

    fn compute(config: &LogMelConfig, samples: &[f32]) -> Features {
        let plan = LogMel::new(config).unwrap();
        plan.compute(&mut plan.scratch(), samples)
    }

    #[test]
    fn it_equals_the_slow_twin_on_loud_quiet_and_short_signals() {
        let raw = LogMelConfig { normalize: Normalize::None, ..LogMelConfig::default() };
        let narrow = LogMelConfig {
            n_fft: 400,
            num_mels: 23,
            fmin_hz: 20.0,
            fmax_hz: 7_600.0,
            preemphasis: 0.0,
            ..raw.clone()
        };
        let telephone =
            LogMelConfig { sample_rate_hz: 8_000, n_fft: 256, num_mels: 40, ..raw.clone() };
        for config in [raw, narrow, telephone] {
            for signal in [
                noise(1, 2_000, 0.9),
                noise(2, 1_700, 1e-4),
                noise(3, 161, 0.3),
                vec![0.0; 800],
                noise(4, 100, 1.0),
            ] {
                let want = slow_log_mel(&config, &signal);
                let got = compute(&config, &signal);
                assert_eq!(got.data.len(), want.len());
                assert_eq!(got.num_frames, config.num_frames(signal.len()));
                for (got, want) in got.data.iter().zip(want) {
                    assert!((f64::from(*got) - want).abs() < 1e-5, "{got} {want}");
                }
            }
        }
    }

    #[test]
    fn a_scratch_that_was_used_before_changes_nothing() {
        let plan = LogMel::new(&LogMelConfig::default()).unwrap();
        let mut scratch = plan.scratch();
        let first = plan.compute(&mut scratch, &noise(5, 5_000, 0.5));
        plan.compute(&mut scratch, &noise(6, 9_000, 0.5));
        assert_eq!(plan.compute(&mut scratch, &noise(5, 5_000, 0.5)), first);
    }

    #[test]
    fn features_of_anything_finite_are_finite() {
        for signal in [
            vec![],
            vec![1.0],
            vec![0.0; 159],
            vec![0.0; 160],
            vec![1.0; 16_000],
            vec![f32::MIN_POSITIVE; 4_000],
            vec![1e3; 4_000],
        ] {
            assert!(compute(&LogMelConfig::default(), &signal).data.iter().all(|x| x.is_finite()));
        }
    }

    #[derive(Deserialize)]
    struct Goldens {
        made_by: String,
        cases: Vec<Golden>,
    }

    /// `normalized` is `None` where the toolkit divides rounding errors by a tiny deviation.
    #[derive(Deserialize)]
    struct Golden {
        name: String,
        samples: Vec<i16>,
        num_frames: usize,
        frames: Vec<usize>,
        log_mel: Vec<Vec<f32>>,
        normalized: Option<Vec<Vec<f32>>>,
    }

    #[test]
    fn it_equals_the_golden_vectors_of_the_toolkit() {
        let text = include_str!("../../tests/fixtures/features/log_mel.json");
        let goldens: Goldens = serde_json::from_str(text).unwrap();
        assert!(goldens.made_by.contains("ParakeetFeatureExtractor"));
        assert!(goldens.cases.len() >= 8);
        let raw = LogMelConfig { normalize: Normalize::None, ..LogMelConfig::default() };
        for case in goldens.cases {
            let samples: Vec<f32> = case.samples.iter().map(|x| f32::from(*x) / 32_768.0).collect();
            let check = |config: &LogMelConfig, want: &[Vec<f32>]| {
                let got = compute(config, &samples);
                assert_eq!(got.num_frames, case.num_frames, "{}", case.name);
                assert_eq!(case.frames.len(), want.len());
                let mut worst = 0.0_f32;
                for (t, row) in case.frames.iter().zip(want) {
                    assert_eq!(row.len(), got.num_mels);
                    let got = &got.data[t * got.num_mels..];
                    worst = row.iter().zip(got).map(|(a, b)| (a - b).abs()).fold(worst, f32::max);
                }
                println!("{}: {worst:.1e}", case.name);
                assert!(worst < 1e-4, "{} differs by {worst}", case.name);
            };
            check(&raw, &case.log_mel);
            if let Some(normalized) = &case.normalized {
                check(&LogMelConfig::default(), normalized);
            }
        }
    }
}
