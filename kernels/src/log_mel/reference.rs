//! The definition in f64, as slow and plain as it reads: every value of every frame from the samples,
//! with a Fourier sum for every bin.

use std::f64::consts::TAU;

use super::{Edges, Normalize, PreemphasisOver, Settings};
use rayon::prelude::*;

/// Keeps a constant band finite.
const EPSILON: f64 = 1e-5;

/// The log-mel of one waveform, `[num_frames][num_mels]`.
pub fn log_mel(settings: &Settings, samples: &[f32], num_frames: usize) -> Vec<Vec<f64>> {
    let mut x: Vec<f64> = samples.iter().map(|x| f64::from(*x)).collect();
    if settings.preemphasis_over == PreemphasisOver::Signal {
        x = emphasised(&x, settings.preemphasis, 0.0);
    }
    let of_frame = |t: usize| {
        let first = t as i64 * settings.hop_len as i64 + i64::from(settings.first_sample);
        let powers = powers(settings, &frame(settings, &x, first));
        let energies = settings.bands.iter().map(|band| -> f64 {
            band.weights.iter().zip(&powers[band.first_bin..]).map(|(w, p)| w * p).sum()
        });
        let log = |energy: f64| {
            (energy + settings.log_guard).max(settings.log_floor).ln() * settings.log_factor
        };
        energies.map(log).collect()
    };
    let mut frames: Vec<Vec<f64>> = (0..num_frames).into_par_iter().map(of_frame).collect();
    normalise(settings.normalize, &mut frames);
    frames
}

fn emphasised(x: &[f64], c: f64, before: f64) -> Vec<f64> {
    (0..x.len()).map(|n| x[n] - c * if n > 0 { x[n - 1] } else { before }).collect()
}

/// One sample of the signal and its surroundings, by walking back in until there is one.
fn sample(edges: Edges, x: &[f64], mut at: i64) -> f64 {
    let len = x.len() as i64;
    while at < 0 || at >= len {
        at = match edges {
            _ if len == 0 => return 0.0,
            Edges::Zeros => return 0.0,
            Edges::Reflect if len == 1 => 0,
            Edges::Reflect if at < 0 => -at,
            Edges::Reflect => 2 * (len - 1) - at,
            Edges::Mirror if at < 0 => -at - 1,
            Edges::Mirror => 2 * len - 1 - at,
        };
    }
    x[at as usize]
}

fn frame(settings: &Settings, x: &[f64], first: i64) -> Vec<f64> {
    let len = settings.window.len();
    let mut frame: Vec<f64> =
        (0..len).map(|i| sample(settings.edges, x, first + i as i64)).collect();
    if settings.remove_dc {
        let mean = frame.iter().sum::<f64>() / len as f64;
        frame.iter_mut().for_each(|x| *x -= mean);
    }
    if settings.preemphasis_over == PreemphasisOver::Frame {
        frame = emphasised(&frame, settings.preemphasis, frame[0]);
    }
    frame.iter().zip(&settings.window).map(|(x, w)| x * w).collect()
}

fn powers(settings: &Settings, frame: &[f64]) -> Vec<f64> {
    let n = settings.fft_len;
    let turns: Vec<(f64, f64)> = (0..n).map(|i| (TAU * i as f64 / n as f64).sin_cos()).collect();
    let power = |bin: usize| {
        let (mut re, mut im) = (0.0, 0.0);
        for (i, x) in frame.iter().enumerate() {
            let (sine, cosine) = turns[bin * i % n];
            re += x * cosine;
            im -= x * sine;
        }
        re * re + im * im
    };
    (0..=n / 2).map(power).collect()
}

fn normalise(how: Normalize, frames: &mut [Vec<f64>]) {
    let (count, num_mels) = (frames.len() as f64, frames.first().map_or(0, Vec::len));
    if how == Normalize::None {
        return;
    }
    for band in 0..num_mels {
        let mean = frames.iter().map(|frame| frame[band]).sum::<f64>() / count;
        let squares: f64 = frames.iter().map(|frame| (frame[band] - mean).powi(2)).sum();
        let scale = match how {
            Normalize::PerFeature => 1.0 / ((squares / (count - 1.0).max(1.0)).sqrt() + EPSILON),
            Normalize::Mean | Normalize::None => 1.0,
        };
        for frame in frames.iter_mut() {
            frame[band] = (frame[band] - mean) * scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Band;
    use super::*;

    /// A window of 4 ones in a transform of 16, hop 2, one band over everything.
    fn settings() -> Settings {
        Settings {
            window: vec![1.0; 4],
            hop_len: 2,
            fft_len: 16,
            first_sample: 0,
            edges: Edges::Zeros,
            remove_dc: false,
            preemphasis: 0.0,
            preemphasis_over: PreemphasisOver::Signal,
            bands: vec![Band { first_bin: 0, weights: vec![1.0] }],
            log_guard: 0.0,
            log_floor: 1e-10,
            log_factor: 1.0,
            normalize: Normalize::None,
        }
    }

    #[test]
    fn the_lowest_bin_is_the_squared_sum_of_the_frame() {
        let got = log_mel(&settings(), &[1.0, 2.0, 3.0, 4.0, 5.0], 3);
        let want = [10.0_f64, 12.0, 5.0].map(|sum| (sum * sum).ln());
        assert!(got.iter().zip(want).all(|(got, want)| (got[0] - want).abs() < 1e-12), "{got:?}");
    }

    #[test]
    fn all_bins_together_hold_the_energy_of_the_frame() {
        // Parseval: the bins between the first and the last count twice.
        let mut weights = vec![2.0 / 16.0; 9];
        (weights[0], weights[8]) = (1.0 / 16.0, 1.0 / 16.0);
        let settings = Settings { bands: vec![Band { first_bin: 0, weights }], ..settings() };
        let got = log_mel(&settings, &[1.0, -2.0, 3.0, 0.5], 1);
        assert!((got[0][0] - 14.25_f64.ln()).abs() < 1e-12, "{got:?}");
    }

    #[test]
    fn edges_and_filters_are_those_of_the_convention() {
        let sum = |settings: &Settings, samples: &[f32]| {
            (log_mel(settings, samples, 1)[0][0] / 2.0).exp()
        };
        let early = Settings { first_sample: -2, ..settings() };
        let of = |edges| sum(&Settings { edges, ..early.clone() }, &[1.0, 2.0, 4.0]);
        assert!((of(Edges::Zeros) - 3.0).abs() < 1e-9);
        assert!((of(Edges::Reflect) - 9.0).abs() < 1e-9);
        assert!((of(Edges::Mirror) - 6.0).abs() < 1e-9);
        let filtered = Settings { preemphasis: 0.5, ..settings() };
        assert!((sum(&filtered, &[1.0, 2.0, 4.0, 8.0]) - 11.5).abs() < 1e-9);
        let by_frame = Settings { preemphasis_over: PreemphasisOver::Frame, ..filtered };
        assert!((sum(&by_frame, &[1.0, 2.0, 4.0, 8.0]) - 11.0).abs() < 1e-9);
        let without_dc = Settings { remove_dc: true, ..settings() };
        assert!((sum(&without_dc, &[1.0, 2.0, 4.0, 8.0]) - 1e-5).abs() < 1e-12);
    }

    #[test]
    fn normalised_bands_have_mean_0_and_unbiased_deviation_1_and_silence_is_0() {
        let samples: Vec<f32> = (0..40).map(|i| ((i * i) as f32).sin()).collect();
        let per_feature = Settings { normalize: Normalize::PerFeature, ..settings() };
        let got = log_mel(&per_feature, &samples, 20);
        let mean = got.iter().map(|x| x[0]).sum::<f64>() / 20.0;
        let variance = got.iter().map(|x| x[0] * x[0]).sum::<f64>() / 19.0;
        assert!(mean.abs() < 1e-9 && (variance - 1.0).abs() < 1e-4, "{mean} {variance}");
        assert_eq!(log_mel(&per_feature, &[0.0; 40], 1), [[0.0]]);
        assert!(log_mel(&per_feature, &[], 0).is_empty());
    }
}
