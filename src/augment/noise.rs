//! Noise added at a signal-to-noise ratio. The speech's power is its active power, over the frames that
//! are not pauses (in the spirit of ITU-T P.56): measured over everything, an utterance with long pauses
//! would be drowned. The noise's power is that of the whole stretch that is added.

use super::gain::within_range;

/// Length of a frame.
const FRAME_S: f64 = 0.02;

/// Frames this far below the loudest are pauses: 40 decibels.
const PAUSE: f64 = 1e-4;

/// Noise below -100 dB of full scale is a silent file: raising it would add nothing but its rounding.
pub(super) const SILENCE: f64 = 1e-10;

/// Mean power over the frames within 40 dB of the loudest; 0 for silence and for nothing.
pub fn active_power(samples: &[f32], sample_rate_hz: u32) -> f64 {
    let frame_len = ((FRAME_S * f64::from(sample_rate_hz)) as usize).max(1);
    let frames = || samples.chunks(frame_len).map(|frame| (energy(frame), frame.len() as f64));
    let loudest = frames().map(|(energy, len)| energy / len).fold(0.0, f64::max);
    let active = frames().filter(|(energy, len)| energy / len >= loudest * PAUSE);
    let (energy, len) = active.fold((0.0, 0.0), |(e, n), (energy, len)| (e + energy, n + len));
    if len > 0.0 { energy / len } else { 0.0 }
}

fn energy(samples: &[f32]) -> f64 {
    samples.iter().map(|x| f64::from(*x).powi(2)).sum()
}

/// Adds `noise`, repeated if it is shorter, so that the ratio of the active power of `samples` to the
/// power of what is added is `snr_db`. A silent utterance, for which no ratio exists, and silent noise
/// leave `samples` as they are.
pub fn mix_at_snr(samples: &mut [f32], noise: &[f32], snr_db: f64, sample_rate_hz: u32) {
    if noise.is_empty() {
        return;
    }
    let added = || noise.iter().cycle().take(samples.len()).map(|x| f64::from(*x));
    let noise_power = added().map(|x| x * x).sum::<f64>() / samples.len().max(1) as f64;
    let speech_power = active_power(samples, sample_rate_hz);
    if speech_power <= 0.0 || noise_power < SILENCE {
        return;
    }
    let factor = (speech_power / noise_power).sqrt() * 10_f64.powf(-snr_db / 20.0);
    for (x, noise) in samples.iter_mut().zip(noise.iter().cycle()) {
        *x = within_range(f64::from(*x) + f64::from(*noise) * factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::tests::tone;

    fn hiss(len: usize, level: f32) -> Vec<f32> {
        let mut state = 7_u32;
        (0..len)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state as f32 / u32::MAX as f32 - 0.5) * level
            })
            .collect()
    }

    /// The definition with a loop a step, in f64.
    fn slow_mix(samples: &[f32], noise: &[f32], snr_db: f64, rate_hz: u32) -> Vec<f64> {
        let frame = rate_hz as usize / 50;
        let mut powers = Vec::new();
        for start in (0..samples.len()).step_by(frame) {
            let end = (start + frame).min(samples.len());
            let mut sum = 0.0;
            for x in &samples[start..end] {
                sum += f64::from(*x) * f64::from(*x);
            }
            powers.push((sum, (end - start) as f64));
        }
        let loudest = powers.iter().map(|(sum, len)| sum / len).fold(0.0, f64::max);
        let (mut sum, mut count) = (0.0, 0.0);
        for (energy, len) in powers {
            if 10.0 * (energy / len / loudest).log10() >= -40.0 - 1e-9 {
                sum += energy;
                count += len;
            }
        }
        let speech = sum / count;
        let mut noise_power = 0.0;
        for i in 0..samples.len() {
            noise_power += f64::from(noise[i % noise.len()]).powi(2) / samples.len() as f64;
        }
        let wanted = speech / 10_f64.powf(snr_db / 10.0);
        let factor = (wanted / noise_power).sqrt();
        (0..samples.len())
            .map(|i| f64::from(samples[i]) + factor * f64::from(noise[i % noise.len()]))
            .collect()
    }

    #[test]
    fn the_ratio_asked_for_is_the_ratio_measured_pauses_or_not() {
        let mut paused = tone(300.0, 16_000, 16_000);
        paused[3_200..12_800].fill(0.0);
        for speech in [tone(300.0, 16_000, 16_000), paused] {
            for level in [1.0, 1e-3] {
                for noise in [hiss(16_000, level), hiss(1_234, level), hiss(40_000, level)] {
                    for snr_db in [-20.0, 0.0, 7.5, 40.0] {
                        let mut mixed = speech.clone();
                        mix_at_snr(&mut mixed, &noise, snr_db, 16_000);
                        let added: f64 = mixed
                            .iter()
                            .zip(&speech)
                            .map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2))
                            .sum::<f64>()
                            / 16_000.0;
                        // The active part is a tone of amplitude 0.5.
                        let measured = 10.0 * (0.125 / added).log10();
                        assert!((measured - snr_db).abs() < 0.01, "{measured} for {snr_db}");
                    }
                }
            }
        }
    }

    #[test]
    fn it_equals_the_slow_twin_on_speech_like_quiet_and_short_signals() {
        let mut swelling = hiss(9_999, 0.8);
        for (i, x) in swelling.iter_mut().enumerate() {
            *x *= (i as f32 / 9_999.0).powi(4);
        }
        for speech in [swelling, tone(200.0, 8_000, 801), vec![1e-20; 50], vec![0.3]] {
            for noise in [hiss(5_000, 0.2), tone(900.0, 8_000, 77)] {
                let mut mixed = speech.clone();
                mix_at_snr(&mut mixed, &noise, 12.0, 8_000);
                let want = slow_mix(&speech, &noise, 12.0, 8_000);
                // One sample of a tone is its zero: nothing that could be added.
                let is_silent = noise.iter().take(speech.len()).all(|x| *x == 0.0);
                let peak = want.iter().fold(1e-30_f64, |peak, x| peak.max(x.abs()));
                for ((got, want), clean) in mixed.iter().zip(&want).zip(&speech) {
                    let want = if is_silent { f64::from(*clean) } else { *want };
                    assert!((f64::from(*got) - want).abs() <= 1e-6 * peak, "{got} {want}");
                }
            }
        }
    }

    #[test]
    fn silence_on_either_side_and_no_noise_change_nothing() {
        let speech = tone(300.0, 16_000, 1_000);
        for noise in [vec![], vec![0.0; 10], vec![1e-6; 2_000]] {
            let mut mixed = speech.clone();
            mix_at_snr(&mut mixed, &noise, 0.0, 16_000);
            assert_eq!(mixed, speech);
        }
        let mut silent = vec![0.0; 1_000];
        mix_at_snr(&mut silent, &hiss(1_000, 0.5), 0.0, 16_000);
        assert!(silent.iter().all(|x| *x == 0.0));
        mix_at_snr(&mut [], &hiss(10, 0.5), 0.0, 16_000);
        assert_eq!((active_power(&[], 16_000), active_power(&[0.0; 99], 16_000)), (0.0, 0.0));
    }

    #[test]
    fn the_greatest_floats_stay_finite() {
        let mut samples = vec![f32::MAX; 1_000];
        mix_at_snr(&mut samples, &hiss(1_000, 1e-4), -100.0, 16_000);
        assert!(samples.iter().all(|x| x.is_finite()));
        let mut samples = vec![f32::MIN_POSITIVE; 1_000];
        mix_at_snr(&mut samples, &vec![f32::MAX; 1_000], -100.0, 16_000);
        assert!(samples.iter().all(|x| x.is_finite()));
    }
}
