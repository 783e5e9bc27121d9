//! Band-limited conversion between sample rates, and speed perturbation (Ko et al. 2015), which is
//! the same thing: playing 1.1 times as fast is reading the samples as if they came at 1.1 times the rate.
//! rubato's FFT resampler does the work. Below 95 % of the lower limit it is flat within 0.01 dB, and above
//! the limit nothing is left (-120 dB): a test measures both. `n` samples become `n * to / from`, rounded
//! up, and sample 0 stays where it is: the filter's delay is removed.

use std::cell::RefCell;
use std::collections::HashMap;

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Fft, FixedSync, Resampler, WindowFunction};

/// Samples a block at the lower of the two rates, at least: long enough for a sharp filter, short against
/// any utterance.
const MIN_BLOCK_LEN: u64 = 1_024;

/// Speeds are multiples of this.
const SPEED_STEPS: f64 = 1_000.0;

thread_local! {
    /// Filters take longer to design than to apply to a short utterance.
    static PLANS: RefCell<HashMap<(u32, u32), Fft<f32>>> = RefCell::default();
}

/// Length of `num_samples` after conversion, rounded up so that no sample is lost.
pub fn resampled_len(num_samples: usize, from_hz: u32, to_hz: u32) -> usize {
    (num_samples as u64 * u64::from(to_hz)).div_ceil(u64::from(from_hz)) as usize
}

/// Converts `samples` from one rate to another; the result has [`resampled_len`] samples.
///
/// # Panics
/// When a rate is 0.
pub fn resample(samples: &[f32], from_hz: u32, to_hz: u32) -> Vec<f32> {
    assert!(from_hz > 0 && to_hz > 0, "sample rates are positive");
    if from_hz == to_hz || samples.is_empty() {
        return samples.to_vec();
    }
    let input =
        InterleavedSlice::new(samples, 1, samples.len()).expect("one channel of that length");
    let output = PLANS.with_borrow_mut(|plans| {
        let plan = plans.entry((from_hz, to_hz)).or_insert_with(|| plan(from_hz, to_hz));
        // `process_all` starts from a clean state, whatever the plan was used for before.
        plan.process_all(&input, samples.len(), None).expect("buffers are of the right size")
    });
    let mut output = output.take_data();
    output.resize(resampled_len(samples.len(), from_hz, to_hz), 0.0);
    output
}

/// The filter delays by half a block. An even number of whole periods makes that a whole number of
/// samples on both sides, so that it can be removed without a rest.
fn plan(from_hz: u32, to_hz: u32) -> Fft<f32> {
    let (from, to) = (u64::from(from_hz), u64::from(to_hz));
    let period = from / u64::from(gcd(from_hz, to_hz));
    let min_len = (MIN_BLOCK_LEN * from).div_ceil(from.min(to));
    Fft::new_custom(
        from_hz as usize,
        to_hz as usize,
        (period * min_len.div_ceil(period).next_multiple_of(2)) as usize,
        1,
        1,
        WindowFunction::BlackmanHarris2,
        FixedSync::Both,
    )
    .expect("rates, block and channel count are positive")
}

/// The pair of rates whose ratio is `speed`.
fn speed_rates(speed: f64) -> (u32, u32) {
    assert!((0.1..=10.0).contains(&speed), "a speed is between 0.1 and 10");
    let (from, to) = ((speed * SPEED_STEPS).round() as u32, SPEED_STEPS as u32);
    let gcd = gcd(from, to);
    (from / gcd, to / gcd)
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Plays `samples` at `speed` (1.1 is faster, shorter and higher). The result has
/// [`perturbed_len`] samples.
///
/// # Panics
/// When the speed is outside 0.1 to 10.
pub fn speed_perturb(samples: &[f32], speed: f64) -> Vec<f32> {
    let (from, to) = speed_rates(speed);
    resample(samples, from, to)
}

/// Length of `num_samples` played at `speed`.
///
/// # Panics
/// When the speed is outside 0.1 to 10.
pub fn perturbed_len(num_samples: usize, speed: f64) -> usize {
    let (from, to) = speed_rates(speed);
    resampled_len(num_samples, from, to)
}

#[cfg(test)]
mod tests {
    use super::super::tests::tone;
    use super::*;

    fn rms(samples: &[f32]) -> f64 {
        (samples.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / samples.len() as f64).sqrt()
    }

    #[test]
    fn a_tone_below_both_limits_arrives_in_time_and_in_tune() {
        for (from, to) in [
            (8_000, 16_000),
            (44_100, 16_000),
            (48_000, 16_000),
            (11_025, 16_000),
            (22_050, 16_000),
        ] {
            let out = resample(&tone(440.0, from, from as usize), from, to);
            let want = tone(440.0, to, to as usize);
            assert_eq!(out.len(), want.len());
            let inner = 2_000..want.len() - 2_000;
            let error: Vec<f32> =
                out[inner.clone()].iter().zip(&want[inner]).map(|(a, b)| a - b).collect();
            assert!(rms(&error) < 1e-3, "{from} -> {to}: {}", rms(&error));
        }
    }

    /// Gain at the frequency of a tone, and the energy of all else relative to the tone's, both in dB,
    /// over the second of three seconds: whole periods, so that the tone is told apart exactly.
    fn response(hz: u32, from: u32, to: u32) -> (f64, f64) {
        let out = resample(&tone(f64::from(hz), from, 3 * from as usize), from, to);
        let (mut re, mut im, mut energy) = (0.0, 0.0, 0.0);
        for (i, x) in out.iter().enumerate().skip(to as usize).take(to as usize) {
            // The phase in whole steps, since `i` times the frequency would lose digits.
            let step = i as u64 * u64::from(hz) % u64::from(to);
            let phase = std::f64::consts::TAU * step as f64 / f64::from(to);
            let x = f64::from(*x);
            re += x * phase.cos();
            im += x * phase.sin();
            energy += x * x / f64::from(to);
        }
        // The tone has an amplitude of one half, that is an energy of an eighth.
        let at_hz = 2.0 * (re * re + im * im) / f64::from(to).powi(2);
        let db = |energy: f64| 10.0 * (energy / 0.125).max(1e-30).log10();
        (db(at_hz), db(energy - at_hz))
    }

    const RATES: [(u32, u32); 8] = [
        (48_000, 16_000),
        (44_100, 16_000),
        (96_000, 16_000),
        (22_050, 16_000),
        (16_000, 8_000),
        (8_000, 16_000),
        (11_025, 16_000),
        (11, 10),
    ];

    #[test]
    fn below_the_limit_tones_pass_unchanged_and_bring_no_images() {
        for (from, to) in RATES {
            // Speeds as rates of one second at 16 kHz.
            let (from, to) = if from < 100 { (1_600 * from, 1_600 * to) } else { (from, to) };
            let limit = from.min(to) / 2;
            for percent in [1, 10, 37, 60, 80, 90, 95] {
                let (gain_db, rest_db) = response(limit * percent / 100, from, to);
                assert!(gain_db.abs() < 0.01, "{from} -> {to} at {percent} %: {gain_db} dB");
                assert!(rest_db < -100.0, "{from} -> {to} at {percent} %: {rest_db} dB");
            }
        }
    }

    #[test]
    fn above_the_limit_nothing_is_left_to_fold_back() {
        for (from, to) in RATES.into_iter().filter(|(from, to)| from > to) {
            let (from, to) = if from < 100 { (1_600 * from, 1_600 * to) } else { (from, to) };
            let (limit, top) = (to / 2 + 1, from / 2 - 1);
            for step in 0..=12 {
                let hz = limit + (top - limit) * step / 12;
                let out = resample(&tone(f64::from(hz), from, 3 * from as usize), from, to);
                let left_db =
                    20.0 * (rms(&out[to as usize..2 * to as usize]) / 0.125_f64.sqrt()).log10();
                assert!(left_db < -120.0, "{from} -> {to} at {hz} Hz: {left_db} dB");
            }
        }
    }

    #[test]
    fn lengths_are_as_promised_for_every_speed_and_length() {
        for n in [1, 2, 159, 160, 1_023, 1_024, 1_025, 16_001] {
            let samples = tone(200.0, 16_000, n);
            for speed in [0.9, 0.95, 1.0, 1.05, 1.1, 1.333] {
                let out = speed_perturb(&samples, speed);
                assert_eq!(out.len(), perturbed_len(n, speed), "{n} at {speed}");
                assert!(out.iter().all(|x| x.is_finite() && x.abs() < 1.0));
            }
        }
        assert_eq!(perturbed_len(16_000, 0.8), 20_000);
        assert_eq!(perturbed_len(11_000, 1.1), 10_000);
    }

    #[test]
    fn what_was_resampled_before_changes_nothing() {
        let (a, b) = (tone(300.0, 16_000, 5_000), tone(1_300.0, 16_000, 3_001));
        let first = speed_perturb(&a, 1.1);
        speed_perturb(&b, 1.1);
        assert_eq!(speed_perturb(&a, 1.1), first);
    }

    #[test]
    fn speed_moves_the_pitch_and_keeps_the_level() {
        let out = speed_perturb(&tone(400.0, 16_000, 16_000), 1.25);
        let want = tone(500.0, 16_000, out.len());
        let error: Vec<f32> =
            out[2_000..10_000].iter().zip(&want[2_000..10_000]).map(|(a, b)| a - b).collect();
        assert!(rms(&error) < 1e-3, "{}", rms(&error));
        assert_eq!(speed_perturb(&out, 1.0), out);
    }
}
