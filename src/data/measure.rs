//! What samples tell of a recording beyond its length: silence, clipping, and a fingerprint that two
//! recordings share only if their samples are the same.

use sha2::{Digest, Sha256};

use crate::audio::Waveform;

/// Frames below this are silent, -60 dB of full scale,
const SILENCE: f64 = 1e-6;

/// in a quiet recording those that lie 40 dB below its loudest,
const PAUSE: f64 = 1e-4;

/// and anywhere those that hold no more than the rounding of 16 bits: -90 dB.
const ROUNDING: f64 = 1e-9;

/// A recording is quiet where no frame reaches this: -50 dB.
const QUIET: f64 = 1e-5;

/// Length of a frame.
const FRAME_S: f64 = 0.02;

/// A recording clips where this many samples in a row
const CLIPPED_RUN: usize = 3;

/// lie within this share of its peak,
const AT_PEAK: f32 = 0.9999;

/// and the peak is near full scale.
const FULL_SCALE: f32 = 0.98;

/// What was measured of one utterance's samples, as training would use them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Sample rate of the recording.
    pub recorded_hz: u32,
    /// Channels of the recording.
    pub num_channels: usize,
    /// The largest magnitude.
    pub peak: f32,
    /// Power of the loudest frame.
    pub loudest: f64,
    /// Share of the frames that are silent: below -60 dB of full scale, in a quiet recording 40 dB below
    /// its loudest.
    pub silent_share: f32,
    /// Runs of samples that stay at full scale.
    pub clipped_runs: usize,
    /// Of the samples.
    pub fingerprint: [u8; 16],
}

impl Measured {
    /// Whether no frame holds more than rounding.
    pub fn is_silent(&self) -> bool {
        self.loudest < ROUNDING
    }

    /// Whether there is something, and hardly to be heard.
    pub fn is_quiet(&self) -> bool {
        !self.is_silent() && self.loudest < QUIET
    }

    /// Measures a recording as it is read.
    pub fn of(waveform: &Waveform) -> Measured {
        let samples = &waveform.samples;
        let (loudest, silent_share) = loudness(samples, waveform.sample_rate_hz);
        let peak = samples.iter().fold(0.0_f32, |peak, x| peak.max(x.abs()));
        Measured {
            recorded_hz: waveform.recorded_hz,
            num_channels: waveform.num_channels,
            peak,
            loudest,
            silent_share,
            clipped_runs: clipped_runs(samples, peak),
            fingerprint: fingerprint(samples),
        }
    }
}

/// The power of the loudest frame and the share of the silent ones.
fn loudness(samples: &[f32], sample_rate_hz: u32) -> (f64, f32) {
    let frame_len = ((FRAME_S * f64::from(sample_rate_hz)) as usize).max(1);
    let power = |frame: &[f32]| {
        frame.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / frame.len() as f64
    };
    let powers: Vec<f64> = samples.chunks(frame_len).map(power).collect();
    let loudest = powers.iter().copied().fold(0.0, f64::max);
    let silence = (loudest * PAUSE).clamp(ROUNDING, SILENCE);
    let silent = powers.iter().filter(|power| **power < silence).count();
    (loudest, if powers.is_empty() { 1.0 } else { silent as f32 / powers.len() as f32 })
}

/// Relative to the peak, since a gain or a lossy format moves where a recorder clipped; one sample at the
/// peak is the nature of peaks, several in a row are not.
fn clipped_runs(samples: &[f32], peak: f32) -> usize {
    if peak < FULL_SCALE {
        return 0;
    }
    let (mut runs, mut run) = (0, 0);
    for x in samples {
        run = if x.abs() >= peak * AT_PEAK { run + 1 } else { 0 };
        runs += usize::from(run == CLIPPED_RUN);
    }
    runs
}

fn fingerprint(samples: &[f32]) -> [u8; 16] {
    let mut hash = Sha256::new();
    let mut bytes = [0; 4 * 1_024];
    for part in samples.chunks(1_024) {
        for (bytes, x) in bytes.chunks_exact_mut(4).zip(part) {
            bytes.copy_from_slice(&x.to_le_bytes());
        }
        hash.update(&bytes[..4 * part.len()]);
    }
    let digest = hash.finalize();
    std::array::from_fn(|i| digest[i])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::tests::tone;

    fn measured(samples: &[f32], sample_rate_hz: u32) -> Measured {
        let (samples, recorded_hz) = (samples.to_vec(), sample_rate_hz);
        Measured::of(&Waveform { samples, sample_rate_hz, recorded_hz, num_channels: 1 })
    }

    #[test]
    fn silence_is_counted_in_frames() {
        let mut samples = tone(200.0, 16_000, 16_000);
        samples[8_000..].iter_mut().for_each(|x| *x *= 1e-4);
        assert_eq!(measured(&samples, 16_000).silent_share, 0.5);
        assert_eq!(measured(&[0.0; 900], 16_000).silent_share, 1.0);
        assert_eq!(measured(&tone(200.0, 8_000, 900), 8_000).silent_share, 0.0);
        assert_eq!(measured(&[], 8_000).silent_share, 1.0);
    }

    #[test]
    fn a_quiet_recording_is_not_a_silent_one() {
        let at = |gain: f32| {
            let mut samples = tone(200.0, 16_000, 16_000);
            samples[8_000..].fill(0.0);
            samples.iter_mut().for_each(|x| *x *= gain);
            measured(&samples, 16_000)
        };
        for (gain, is_quiet, is_silent) in [
            (1.0, false, false),
            (1e-2, false, false),
            (3e-3, true, false),
            (2e-4, true, false),
            (5e-5, false, true),
            (0.0, false, true),
        ] {
            let measured = at(gain);
            assert_eq!(
                (measured.is_quiet(), measured.is_silent()),
                (is_quiet, is_silent),
                "{gain}"
            );
            let share = if is_silent { 1.0 } else { 0.5 };
            assert_eq!(measured.silent_share, share, "{gain}");
        }
    }

    #[test]
    fn clipping_is_a_run_at_the_peak_and_loud_tones_do_not_clip() {
        let loud: Vec<f32> = tone(100.0, 16_000, 16_000).iter().map(|x| x * 1.99).collect();
        assert_eq!(measured(&loud, 16_000).clipped_runs, 0);
        // A second of 100 Hz has 200 peaks.
        let clipped: Vec<f32> = loud.iter().map(|x| (x * 1.5).clamp(-0.999, 0.999)).collect();
        assert_eq!(measured(&clipped, 16_000).clipped_runs, 200);
        let quieter: Vec<f32> = clipped.iter().map(|x| x * 0.5).collect();
        assert_eq!(measured(&quieter, 16_000).clipped_runs, 0, "far from full scale");
        let eight_bits: Vec<f32> = clipped.iter().map(|x| (x * 128.0).floor() / 128.0).collect();
        assert!(measured(&eight_bits, 16_000).clipped_runs >= 100);
        assert_eq!(measured(&[], 16_000).clipped_runs, 0);
    }

    #[test]
    fn a_fingerprint_is_that_of_the_samples() {
        let a = tone(200.0, 16_000, 5_000);
        let mut b = a.clone();
        assert_eq!(fingerprint(&a), fingerprint(&b));
        b[4_999] += 1e-3;
        assert_ne!(fingerprint(&a), fingerprint(&b));
        assert_ne!(fingerprint(&a), fingerprint(&a[..4_999]));
    }
}
