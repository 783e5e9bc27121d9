//! Power spectra of eight frames at once: windows, transforms, squares. Two real frames share one
//! complex transform, one as its real and one as its imaginary part.
//!
//! In f64: beside a loud tone a silent band is all rounding noise, which in f32 (here as in PyTorch)
//! moves its logarithm by up to 5e-4, and a loud frame would drown the quiet one it shares a
//! transform with.

use std::sync::Arc;

use multiversion::multiversion;
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftPlanner};

use super::mel::Lanes;
use super::{LogMelConfig, PreemphasisOver, Spectrum};

/// Everything that depends on the settings alone.
pub(super) struct SpectrumPlan {
    window: Vec<f64>,
    n_fft: usize,
    hop: usize,
    fft: Arc<dyn Fft<f64>>,
    remove_dc: bool,
    /// Of the filter over each frame.
    preemphasis: f64,
    is_magnitude: bool,
}

/// Work space of one thread.
pub(super) struct SpectrumScratch {
    transform: Vec<Complex<f64>>,
    fft: Vec<Complex<f64>>,
    /// The two frames of a pair, where they are worked on.
    frames: [Vec<f64>; 2],
    silence: Vec<f64>,
}

impl SpectrumPlan {
    pub(super) fn new(config: &LogMelConfig) -> SpectrumPlan {
        SpectrumPlan {
            window: config.window.values(config.window_len()),
            n_fft: config.n_fft,
            hop: config.hop_len(),
            fft: FftPlanner::new().plan_fft_forward(config.n_fft),
            remove_dc: config.remove_dc,
            preemphasis: match config.preemphasis_over {
                PreemphasisOver::Frame => config.preemphasis,
                PreemphasisOver::Signal => 0.0,
            },
            is_magnitude: config.spectrum == Spectrum::Magnitude,
        }
    }

    pub(super) fn scratch(&self) -> SpectrumScratch {
        let zero = Complex::new(0.0, 0.0);
        SpectrumScratch {
            transform: vec![zero; self.n_fft],
            fft: vec![zero; self.fft.get_inplace_scratch_len()],
            frames: [vec![0.0; self.window.len()], vec![0.0; self.window.len()]],
            silence: vec![0.0; self.window.len()],
        }
    }

    /// Bins of a spectrum.
    pub(super) fn num_bins(&self) -> usize {
        self.n_fft / 2 + 1
    }

    /// The spectra of frames `0..num_frames` (at most eight) of a signal that begins with the first
    /// of them: `[num_bins]` times a value of each frame. Lanes without a frame are left as they are.
    pub(super) fn block(
        &self,
        signal: &[f64],
        num_frames: usize,
        scratch: &mut SpectrumScratch,
        powers: &mut [Lanes],
    ) {
        let SpectrumScratch { transform, fft, frames: [first, second], silence } = scratch;
        for pair in 0..num_frames.div_ceil(2) {
            let first = self.frame(signal, 2 * pair, first);
            let second = match 2 * pair + 1 {
                index if index < num_frames => self.frame(signal, index, second),
                _ => silence,
            };
            interleave(first, second, &self.window, transform);
            self.fft.process_with_scratch(transform, fft);
            squares(transform, pair, powers);
        }
        if self.is_magnitude {
            powers.as_flattened_mut().iter_mut().for_each(|power| *power = power.sqrt());
        }
    }

    /// Frame `index`, still without its window.
    fn frame<'a>(&self, signal: &'a [f64], index: usize, work: &'a mut [f64]) -> &'a [f64] {
        let frame = &signal[index * self.hop..][..work.len()];
        if !self.remove_dc && self.preemphasis == 0.0 {
            return frame;
        }
        work.copy_from_slice(frame);
        if self.remove_dc {
            subtract_mean(work);
        }
        let first = work[0];
        emphasise(work, self.preemphasis);
        work[0] = first - self.preemphasis * first;
        work
    }
}

#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn subtract_mean(frame: &mut [f64]) {
    // Sums in eight lanes, which the compiler may not make of one sum by itself.
    let mut sums = [0.0_f64; 8];
    let (chunks, rest) = frame.as_chunks::<8>();
    for chunk in chunks {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum += x;
        }
    }
    let sum: f64 = sums.iter().sum::<f64>() + rest.iter().sum::<f64>();
    let mean = sum / frame.len() as f64;
    for x in frame {
        *x -= mean;
    }
}

/// `x[n] - c x[n - 1]` for all but the first.
#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn emphasise(samples: &mut [f64], c: f64) {
    for n in (1..samples.len()).rev() {
        samples[n] -= c * samples[n - 1];
    }
}

#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn interleave(first: &[f64], second: &[f64], window: &[f64], out: &mut [Complex<f64>]) {
    let (inside, outside) = out.split_at_mut(window.len());
    for (((z, a), b), w) in inside.iter_mut().zip(first).zip(second).zip(window) {
        *z = Complex::new(a * w, b * w);
    }
    outside.fill(Complex::new(0.0, 0.0));
}

/// The two spectra of a shared transform `z`: with `u = z[k]` and `v` the conjugate of `z[-k]`, they
/// are `(u + v) / 2` and `(u - v) / 2i`.
#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn squares(z: &[Complex<f64>], pair: usize, powers: &mut [Lanes]) {
    let put = |lanes: &mut Lanes, u: Complex<f64>, v: Complex<f64>| {
        let (plus_re, plus_im) = (u.re + v.re, u.im + v.im);
        let (minus_re, minus_im) = (u.re - v.re, u.im - v.im);
        lanes[2 * pair] = (0.25 * (plus_re * plus_re + minus_im * minus_im)) as f32;
        lanes[2 * pair + 1] = (0.25 * (plus_im * plus_im + minus_re * minus_re)) as f32;
    };
    let (first, rest) = powers.split_at_mut(1);
    put(&mut first[0], z[0], z[0]);
    for ((lanes, u), v) in rest.iter_mut().zip(&z[1..]).zip(z.iter().rev()) {
        put(lanes, *u, *v);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Preset;
    use super::super::mel::LANES;
    use super::*;

    #[test]
    fn frames_that_share_a_transform_do_not_see_each_other() {
        for preset in [Preset::Nemo, Preset::Whisper, Preset::Kaldi] {
            let config = preset.settings(16_000);
            let plan = SpectrumPlan::new(&config);
            let mut scratch = plan.scratch();
            let mut signal = vec![0.0; 7 * config.hop_len() + config.window_len()];
            // Frame 0 is as loud as can be, frame 5 silent; both frames of the other pairs are noisy.
            for (i, x) in signal.iter_mut().enumerate() {
                let is_silent = (3 * config.hop_len()..).contains(&i);
                *x = if is_silent { 0.0 } else { 32_768.0 * ((i * i) as f64).sin() };
            }
            let mut powers = vec![[0.0; LANES]; plan.num_bins()];
            plan.block(&signal, 8, &mut scratch, &mut powers);
            let mut alone = vec![[0.0; LANES]; plan.num_bins()];
            for lane in 0..8 {
                plan.block(&signal[lane * config.hop_len()..], 1, &mut scratch, &mut alone);
                for (together, alone) in powers.iter().zip(&alone) {
                    let (a, b) = (together[lane], alone[0]);
                    assert!((a - b).abs() <= 1e-6 * b + 1e-12, "{preset} {lane} {a} {b}");
                }
            }
        }
    }
}
