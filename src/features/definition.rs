//! The definition, as slow and plain as it reads, in f64 throughout: each value of each frame from the
//! samples, with a Fourier sum and a full triangle for every bin. It shares nothing with the fast way
//! but the settings, and the tests compare the two over every preset, every setting and every signal
//! that breaks extractors.

use std::f64::consts::{PI, TAU};

use super::{
    Edges, Framing, Log, LogMelConfig, MelNorm, MelScale, MelTriangles, Normalize, PreemphasisOver,
    Spectrum, Window,
};

/// The features, frame by frame.
pub(super) fn features(config: &LogMelConfig, samples: &[f32]) -> Vec<Vec<f64>> {
    let mut x: Vec<f64> = samples.iter().map(|x| f64::from(*x) * config.input_scale).collect();
    if config.preemphasis_over == PreemphasisOver::Signal {
        x = emphasised(&x, config.preemphasis, 0.0);
    }
    let weights = triangles(config);
    let mut frames: Vec<Vec<f64>> = starts(config, x.len())
        .into_iter()
        .map(|start| {
            let spectrum = spectrum(config, &frame(config, &x, start));
            let energy = |band: &Vec<f64>| band.iter().zip(&spectrum).map(|(w, p)| w * p).sum();
            weights.iter().map(energy).map(|energy: f64| logarithm(config, energy)).collect()
        })
        .collect();
    let loudest = frames.iter().flatten().copied().fold(f64::MIN, f64::max);
    for value in frames.iter_mut().flatten() {
        if config.dynamic_range > 0.0 {
            *value = value.max(loudest - config.dynamic_range);
        }
        *value = (*value + config.output_offset) * config.output_scale;
    }
    normalise(config, &mut frames);
    frames
}

/// The sample that each frame's window begins with.
fn starts(config: &LogMelConfig, len: usize) -> Vec<i64> {
    let (len, window, hop) = (len as i64, config.window_len() as i64, config.hop_len() as i64);
    let n_fft = config.n_fft as i64;
    let mut starts = Vec::new();
    for t in 0.. {
        let centre = t * hop;
        let start = centre - n_fft / 2 + (n_fft - window) / 2;
        let (start, is_frame) = match config.framing {
            Framing::Centers => (start, centre <= len),
            Framing::Hops => (start, centre + hop <= len),
            Framing::Snip => (centre, centre + window <= len),
            Framing::Rounded => (centre + hop / 2 - window / 2, (len + hop / 2) / hop > t),
        };
        let is_empty = len == 0 && config.edges != Edges::Zeros;
        if !is_frame || is_empty {
            break;
        }
        starts.push(start);
    }
    starts
}

fn emphasised(x: &[f64], c: f64, first: f64) -> Vec<f64> {
    (0..x.len()).map(|n| x[n] - c * if n > 0 { x[n - 1] } else { first }).collect()
}

/// One sample of the signal and its surroundings, by walking back in until there is one.
fn sample(config: &LogMelConfig, x: &[f64], mut at: i64) -> f64 {
    let len = x.len() as i64;
    while at < 0 || at >= len {
        at = match config.edges {
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

fn frame(config: &LogMelConfig, x: &[f64], start: i64) -> Vec<f64> {
    let len = config.window_len();
    let mut frame: Vec<f64> = (0..len).map(|i| sample(config, x, start + i as i64)).collect();
    if config.remove_dc {
        let mean = frame.iter().sum::<f64>() / len as f64;
        frame = frame.iter().map(|x| x - mean).collect();
    }
    if config.preemphasis_over == PreemphasisOver::Frame {
        frame = emphasised(&frame, config.preemphasis, frame[0]);
    }
    frame.iter().enumerate().map(|(i, x)| x * window(config.window, i, len)).collect()
}

fn window(window: Window, i: usize, len: usize) -> f64 {
    let (i, symmetric, periodic) = (i as f64, (len - 1) as f64, len as f64);
    // The square of a sine is half of one minus the cosine of the double angle.
    match window {
        Window::Hann => (PI * i / symmetric).sin().powi(2),
        Window::HannPeriodic => (PI * i / periodic).sin().powi(2),
        Window::Hamming => 0.08 + 0.92 * (PI * i / symmetric).sin().powi(2),
        Window::HammingPeriodic => 0.08 + 0.92 * (PI * i / periodic).sin().powi(2),
        Window::Povey => (PI * i / symmetric).sin().powi(2).powf(0.85),
        Window::Rectangular => 1.0,
    }
}

fn spectrum(config: &LogMelConfig, frame: &[f64]) -> Vec<f64> {
    let n = config.n_fft;
    let turn: Vec<(f64, f64)> = (0..n).map(|i| (TAU * i as f64 / n as f64).sin_cos()).collect();
    let power = |k: usize| {
        let (mut re, mut im) = (0.0, 0.0);
        for (i, x) in frame.iter().enumerate() {
            let (sine, cosine) = turn[k * i % n];
            re += x * cosine;
            im -= x * sine;
        }
        match config.spectrum {
            Spectrum::Power => re * re + im * im,
            Spectrum::Magnitude => re.hypot(im),
        }
    };
    (0..=n / 2).map(power).collect()
}

fn mel_of_hz(scale: MelScale, hz: f64) -> f64 {
    match scale {
        MelScale::Htk => 2595.0 * (1.0 + hz / 700.0).log10(),
        MelScale::Slaney if hz <= 1_000.0 => 3.0 * hz / 200.0,
        MelScale::Slaney => 15.0 + 27.0 * (hz / 1_000.0).ln() / 6.4_f64.ln(),
    }
}

/// The inverse, by bisection.
fn hz_of_mel(scale: MelScale, mel: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if mel_of_hz(scale, middle) < mel { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

fn triangles(config: &LogMelConfig) -> Vec<Vec<f64>> {
    let (scale, count) = (config.mel_scale, config.num_mels as f64);
    let nyquist = f64::from(config.sample_rate_hz) / 2.0;
    let top = if config.fmax_hz > 0.0 { config.fmax_hz } else { nyquist + config.fmax_hz };
    let (low, high) = (mel_of_hz(scale, config.fmin_hz), mel_of_hz(scale, top));
    let point = |i: usize| low + (high - low) * i as f64 / (count + 1.0);
    let bin_hz = f64::from(config.sample_rate_hz) / config.n_fft as f64;
    let triangle = |band: usize| -> Vec<f64> {
        let mels = [point(band), point(band + 1), point(band + 2)];
        let [left, peak, right] = mels.map(|mel| hz_of_mel(scale, mel));
        let height = match config.mel_norm {
            MelNorm::None => 1.0,
            MelNorm::Slaney => 2.0 / (right - left),
        };
        let weight = |bin: usize| {
            let hz = bin as f64 * bin_hz;
            let (x, left, peak, right) = match config.mel_triangles {
                MelTriangles::Hz => (hz, left, peak, right),
                MelTriangles::Mel => (mel_of_hz(scale, hz), mels[0], mels[1], mels[2]),
                MelTriangles::Symmetric => (hz, left, peak, peak + (peak - left)),
            };
            let share = if x <= left || x >= right {
                0.0
            } else if x <= peak {
                (x - left) / (peak - left)
            } else {
                (right - x) / (right - peak)
            };
            height * share
        };
        (0..=config.n_fft / 2).map(weight).collect()
    };
    (0..config.num_mels).map(triangle).collect()
}

fn logarithm(config: &LogMelConfig, energy: f64) -> f64 {
    let guarded = (energy + config.log_guard).max(config.log_floor);
    match config.log {
        Log::Ln => guarded.ln(),
        Log::Log10 => guarded.log10(),
        Log::Db => 10.0 * guarded.log10(),
        Log::None => energy,
    }
}

fn normalise(config: &LogMelConfig, frames: &mut [Vec<f64>]) {
    let count = frames.len() as f64;
    for band in 0..config.num_mels {
        let mean = frames.iter().map(|frame| frame[band]).sum::<f64>() / count;
        let squares = frames.iter().map(|frame| (frame[band] - mean).powi(2)).sum::<f64>();
        let deviation = if frames.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        for frame in frames.iter_mut() {
            match config.normalize {
                Normalize::None => {}
                Normalize::Mean => frame[band] -= mean,
                Normalize::PerFeature => frame[band] = (frame[band] - mean) / (deviation + 1e-5),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::signals::{extremes, noise};
    use super::super::{LogMel, Preset};
    use super::*;

    /// The largest distance from the definition.
    fn distance(config: &LogMelConfig, samples: &[f32]) -> f64 {
        let plan = LogMel::new(config).unwrap();
        let got = plan.compute(&mut plan.scratch(), samples);
        let want = features(config, samples);
        assert_eq!(got.num_frames, want.len());
        assert_eq!(config.num_frames(samples.len()), want.len());
        let want: Vec<f64> = want.into_iter().flatten().collect();
        assert_eq!(got.data.len(), want.len());
        got.data.iter().zip(want).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn every_preset_is_its_definition_on_every_extreme_signal() {
        for preset in Preset::ALL {
            // A band that is nearly constant is divided by nearly nothing: no numbers to compare.
            let config = LogMelConfig { normalize: Normalize::None, ..preset.settings(16_000) };
            let mut worst = (0.0, String::new());
            for (name, signal) in extremes(config.window_len(), config.hop_len()) {
                let distance = distance(&config, &signal);
                assert!(distance < 2e-5, "{preset} {name}: {distance:.1e}");
                if distance > worst.0 {
                    worst = (distance, name);
                }
            }
            println!("{preset}: at most {:.1e} ({})", worst.0, worst.1);
        }
    }

    #[test]
    fn normalised_features_are_their_definition() {
        for normalize in [Normalize::PerFeature, Normalize::Mean] {
            let config = LogMelConfig { normalize, ..LogMelConfig::default() };
            for (seed, len) in [(1, 3_000), (2, 321), (3, 160), (4, 20_000)] {
                let distance = distance(&config, &noise(seed, len, 0.3));
                assert!(distance < 2e-5, "{distance:.1e}");
            }
        }
    }

    #[test]
    fn every_setting_means_what_the_definition_says_in_any_mixture() {
        let mut state = 12_345_u32;
        let mut draw = |count: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as usize % count
        };
        for round in 0..60 {
            let sample_rate_hz = [8_000, 11_025, 16_000, 22_050][draw(4)];
            let base = Preset::ALL[draw(8)].settings(sample_rate_hz);
            let config = LogMelConfig {
                window_ms: [base.window_ms, 20.0, 12.5][draw(3)],
                n_fft: base.n_fft.max(1_024),
                hop_ms: [base.hop_ms, 10.0, 3.3][draw(3)],
                window: [
                    Window::Hann,
                    Window::HannPeriodic,
                    Window::Hamming,
                    Window::HammingPeriodic,
                    Window::Povey,
                    Window::Rectangular,
                ][draw(6)],
                framing: [Framing::Centers, Framing::Hops, Framing::Snip, Framing::Rounded]
                    [draw(4)],
                edges: [Edges::Zeros, Edges::Reflect, Edges::Mirror][draw(3)],
                remove_dc: draw(2) == 0,
                preemphasis: [0.0, 0.5, 0.97][draw(3)],
                preemphasis_over: [PreemphasisOver::Signal, PreemphasisOver::Frame][draw(2)],
                spectrum: [Spectrum::Power, Spectrum::Magnitude][draw(2)],
                num_mels: [1, 23, 64][draw(3)],
                mel_scale: [MelScale::Slaney, MelScale::Htk][draw(2)],
                mel_triangles: [MelTriangles::Hz, MelTriangles::Mel, MelTriangles::Symmetric]
                    [draw(3)],
                mel_norm: [MelNorm::Slaney, MelNorm::None][draw(2)],
                fmin_hz: [0.0, 20.0, 300.0][draw(3)],
                fmax_hz: [0.0, -400.0, 3_400.0][draw(3)],
                log: [Log::Ln, Log::Log10, Log::Db][draw(3)],
                dynamic_range: [0.0, 3.0][draw(2)],
                output_offset: [0.0, 4.0][draw(2)],
                output_scale: [1.0, 0.25][draw(2)],
                normalize: Normalize::None,
                ..base
            };
            let samples = noise(round, 200 + draw(3_000), [1.0, 1e-3][draw(2)]);
            let distance = distance(&config, &samples);
            assert!(distance < 5e-5, "{distance:.1e} {config:?}");
        }
    }

    #[test]
    fn energies_without_a_logarithm_are_relative_to_their_size() {
        let config = LogMelConfig { log: Log::None, ..Preset::Torchaudio.settings(16_000) };
        let samples = noise(8, 3_000, 0.5);
        let plan = LogMel::new(&config).unwrap();
        let got = plan.compute(&mut plan.scratch(), &samples);
        for (a, b) in got.data.iter().zip(features(&config, &samples).into_iter().flatten()) {
            assert!((f64::from(*a) - b).abs() <= 1e-5 * b, "{a} {b}");
        }
    }
}
