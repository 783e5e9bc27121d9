//! Speech in a room: convolution with an impulse response, by overlap-add of spectra. The response's
//! largest sample, the direct path, is its time 0, so that words stay where they were (what arrives
//! earlier reaches back); what rings on past the end is cut. The utterance keeps its energy: rooms differ
//! by orders of magnitude in scale, which says nothing about rooms.

use std::cell::RefCell;
use std::sync::Arc;

use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};

/// A transform is this many times as long as the response, so that most of it is new signal.
const BLOCK_FACTOR: usize = 4;

/// Short responses gain from longer transforms, up to here.
const MIN_TRANSFORM_LEN: usize = 4_096;

thread_local! {
    static PLANNER: RefCell<RealFftPlanner<f32>> = RefCell::default();
}

/// Puts `samples` into the room of `response`. A response of zeros, and a result that is not finite
/// (samples near the greatest float), leave them as they are.
pub fn reverberate(samples: &mut [f32], response: &[f32]) {
    let direct = direct_path(response);
    let heard = convolve(samples, response, direct);
    let (before, after) = (energy(samples), energy(&heard));
    if !(before > 0.0 && before.is_finite() && after > 0.0 && after.is_finite()) {
        return;
    }
    let factor = (before / after).sqrt() as f32;
    for (x, y) in samples.iter_mut().zip(heard) {
        *x = y * factor;
    }
}

/// The index of the largest sample, the first of equals.
fn direct_path(response: &[f32]) -> usize {
    let larger = |best: usize, at: usize| {
        if response[at].abs() > response[best].abs() { at } else { best }
    };
    (0..response.len()).fold(0, larger)
}

fn energy(samples: &[f32]) -> f64 {
    samples.iter().map(|x| f64::from(*x).powi(2)).sum()
}

/// `samples` convolved with `response`, from `skip` on and as long as `samples`.
fn convolve(samples: &[f32], response: &[f32], skip: usize) -> Vec<f32> {
    let mut out = vec![0.0; samples.len()];
    if samples.is_empty() || response.is_empty() {
        return out;
    }
    let needed = samples.len() + response.len() - 1;
    let len = (BLOCK_FACTOR * response.len()).max(MIN_TRANSFORM_LEN).min(needed);
    let len = len.next_power_of_two();
    let (forward, inverse): (Arc<dyn RealToComplex<f32>>, Arc<dyn ComplexToReal<f32>>) = PLANNER
        .with_borrow_mut(|planner| (planner.plan_fft_forward(len), planner.plan_fft_inverse(len)));
    let mut block = forward.make_input_vec();
    let mut room = forward.make_output_vec();
    let mut spectrum = forward.make_output_vec();
    let mut scratch = forward.make_scratch_vec();
    let mut inverse_scratch = inverse.make_scratch_vec();
    block[..response.len()].copy_from_slice(response);
    forward.process_with_scratch(&mut block, &mut room, &mut scratch).expect(PLANNED);
    let scale = 1.0 / len as f32;
    let step = len + 1 - response.len();
    for (index, part) in samples.chunks(step).enumerate() {
        block[..part.len()].copy_from_slice(part);
        block[part.len()..].fill(0.0);
        forward.process_with_scratch(&mut block, &mut spectrum, &mut scratch).expect(PLANNED);
        for (bin, room) in spectrum.iter_mut().zip(&room) {
            *bin = *bin * room * scale;
        }
        // The product of two real bins may round off its zero imaginary part.
        let last = spectrum.len() - 1;
        (spectrum[0].im, spectrum[last].im) = (0.0, 0.0);
        inverse
            .process_with_scratch(&mut spectrum, &mut block, &mut inverse_scratch)
            .expect(PLANNED);
        let heard = &block[..part.len() + response.len() - 1];
        let start = index * step;
        let cut = skip.saturating_sub(start).min(heard.len());
        let at = (start + cut - skip.min(start + cut)).min(out.len());
        for (out, x) in out[at..].iter_mut().zip(&heard[cut..]) {
            *out += x;
        }
    }
    out
}

const PLANNED: &str = "buffers come from the plan";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::tests::tone;

    fn noise(seed: u32, len: usize) -> Vec<f32> {
        let mut state = seed;
        (0..len)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state as f32 / u32::MAX as f32 - 0.5
            })
            .collect()
    }

    /// The definition, in f64.
    fn slow_convolve(samples: &[f32], response: &[f32], skip: usize) -> Vec<f64> {
        let at = |n: usize| {
            let mut sum = 0.0;
            for (k, h) in response.iter().enumerate() {
                if n >= k && n - k < samples.len() {
                    sum += f64::from(*h) * f64::from(samples[n - k]);
                }
            }
            sum
        };
        (0..samples.len()).map(|n| at(n + skip)).collect()
    }

    /// A response with an onset, a direct path and a decaying tail.
    fn room(len: usize, direct: usize) -> Vec<f32> {
        let mut response = noise(9, len);
        for (i, x) in response.iter_mut().enumerate() {
            *x *= 0.5 * (-(i as f32) / (len as f32 / 5.0)).exp();
        }
        response[direct] = 2.0;
        response
    }

    #[test]
    fn it_equals_the_slow_twin_for_every_relation_of_lengths() {
        for (len, response_len, skip) in [
            (1, 1, 0),
            (1, 300, 0),
            (1, 300, 299),
            (300, 1, 0),
            (4_096, 4_096, 17),
            (9_999, 1_500, 40),
            (20_000, 700, 699),
            (5_000, 6_001, 6_000),
            (16_000, 100, 0),
        ] {
            let (samples, response) = (noise(3, len), noise(5, response_len));
            let got = convolve(&samples, &response, skip);
            let want = slow_convolve(&samples, &response, skip);
            let peak = want.iter().fold(0.1_f64, |peak, x| peak.max(x.abs()));
            for (n, (got, want)) in got.iter().zip(&want).enumerate() {
                let error = (f64::from(*got) - want).abs();
                assert!(error < 2e-6 * peak, "{len} {response_len} {skip} at {n}: {got} {want}");
            }
        }
    }

    #[test]
    fn a_unit_impulse_changes_nothing_wherever_it_is_and_whatever_its_size() {
        let samples = tone(300.0, 16_000, 12_345);
        for (response_len, at, size) in [(1, 0, 1.0), (4_000, 0, 1.0), (4_000, 3_999, -1e-3)] {
            let mut response = vec![0.0; response_len];
            response[at] = size;
            let mut heard = samples.clone();
            reverberate(&mut heard, &response);
            let sign = size.signum();
            let worst =
                heard.iter().zip(&samples).map(|(a, b)| (a * sign - b).abs()).fold(0.0, f32::max);
            assert!(worst < 2e-6, "{worst}");
        }
    }

    #[test]
    fn a_click_stays_in_its_place_and_keeps_its_energy() {
        for direct in [0, 35, 900] {
            let mut samples = vec![0.0; 16_000];
            samples[5_000] = 0.8;
            reverberate(&mut samples, &room(3_000, direct));
            assert_eq!(direct_path(&samples), 5_000, "the direct path is time 0");
            assert!((energy(&samples) - 0.64).abs() < 1e-4);
            assert!(samples[5_001..7_000].iter().any(|x| x.abs() > 1e-3), "the room rings");
        }
    }

    #[test]
    fn silence_zero_rooms_and_the_greatest_floats_change_nothing() {
        let speech = tone(300.0, 16_000, 2_000);
        for response in [vec![], vec![0.0; 50]] {
            let mut samples = speech.clone();
            reverberate(&mut samples, &response);
            assert_eq!(samples, speech);
        }
        for samples in [vec![], vec![0.0; 2_000], vec![f32::MAX; 2_000]] {
            let mut heard = samples.clone();
            reverberate(&mut heard, &room(500, 3));
            assert_eq!(heard, samples);
        }
    }
}
