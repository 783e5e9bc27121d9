//! Toolkits' conventions as settings, for tests and benchmarks: windows, mel bands, frame counts.

use asr_kernels::log_mel::{Band, Edges, Normalize, PreemphasisOver, Settings};
use std::f64::consts::{PI, TAU};

const SAMPLE_RATE_HZ: f64 = 16_000.0;

/// How frames are counted.
#[derive(Clone, Copy)]
pub enum Framing {
    Centers,
    Hops,
    Snip,
    Rounded,
}

/// Settings and what belongs to them on the host.
#[derive(Clone)]
pub struct Convention {
    pub name: &'static str,
    pub settings: Settings,
    pub framing: Framing,
}

impl Convention {
    pub fn num_frames(&self, num_samples: usize) -> usize {
        let (hop, window_len) = (self.settings.hop_len, self.settings.window.len());
        match self.framing {
            _ if num_samples == 0 => 0,
            Framing::Centers => 1 + num_samples / hop,
            Framing::Hops => num_samples / hop,
            Framing::Snip => num_samples.checked_sub(window_len).map_or(0, |rest| 1 + rest / hop),
            Framing::Rounded => (num_samples + hop / 2) / hop,
        }
    }

    pub fn without_normalisation(mut self) -> Convention {
        self.settings.normalize = Normalize::None;
        self
    }
}

fn slaney_hz(mel: f64) -> f64 {
    if mel < 15.0 {
        mel * 200.0 / 3.0
    } else {
        1_000.0 * (6.4_f64.ln() / 27.0 * (mel - 15.0)).exp()
    }
}

/// Slaney's bands of unit area up to half the sample rate.
fn slaney_bands(num_mels: usize, fft_len: usize) -> Vec<Band> {
    let top = 15.0 + 27.0 * 8.0_f64.ln() / 6.4_f64.ln();
    let edge = |i: usize| slaney_hz(top * i as f64 / (num_mels + 1) as f64);
    let band = |band: usize| {
        let [low, peak, high] = [0, 1, 2].map(|i| edge(band + i));
        let weight = |bin: usize| {
            let hz = bin as f64 * SAMPLE_RATE_HZ / fft_len as f64;
            let (rise, fall) = ((hz - low) / (peak - low), (high - hz) / (high - peak));
            rise.min(fall).max(0.0) * 2.0 / (high - low)
        };
        Band::of_row(&(0..=fft_len / 2).map(weight).collect::<Vec<f64>>())
    };
    (0..num_mels).map(band).collect()
}

/// Kaldi's bands: straight over mel, of unit height.
fn kaldi_bands(num_mels: usize, fft_len: usize, top_hz: f64) -> Vec<Band> {
    let mel = |hz: f64| 1127.0 * (hz / 700.0).ln_1p();
    let (low, high) = (mel(20.0), mel(top_hz));
    let step = (high - low) / (num_mels + 1) as f64;
    let band = |band: usize| {
        let left = low + step * band as f64;
        let weight = |bin: usize| {
            let rise = (mel(bin as f64 * SAMPLE_RATE_HZ / fft_len as f64) - left) / step;
            rise.min(2.0 - rise).max(0.0)
        };
        Band::of_row(&(0..=fft_len / 2).map(weight).collect::<Vec<f64>>())
    };
    (0..num_mels).map(band).collect()
}

/// NeMo's: the project's default.
pub fn nemo(num_mels: usize) -> Convention {
    let settings = Settings {
        window: (0..400).map(|i| (PI * f64::from(i) / 399.0).sin().powi(2)).collect(),
        hop_len: 160,
        fft_len: 512,
        first_sample: -200,
        edges: Edges::Zeros,
        remove_dc: false,
        preemphasis: 0.97,
        preemphasis_over: PreemphasisOver::Signal,
        bands: slaney_bands(num_mels, 512),
        log_guard: 2_f64.powi(-24),
        log_floor: 0.0,
        log_factor: 1.0,
        normalize: Normalize::PerFeature,
    };
    Convention { name: "nemo", settings, framing: Framing::Hops }
}

/// Kaldi's.
pub fn kaldi(num_mels: usize) -> Convention {
    let povey = |i: i32| 32_768.0 * (PI * f64::from(i) / 399.0).sin().powi(2).powf(0.85);
    let settings = Settings {
        window: (0..400).map(povey).collect(),
        first_sample: 0,
        edges: Edges::Mirror,
        remove_dc: true,
        preemphasis_over: PreemphasisOver::Frame,
        bands: kaldi_bands(num_mels, 512, 8_000.0),
        log_guard: 0.0,
        log_floor: f64::from(f32::EPSILON),
        normalize: Normalize::None,
        ..nemo(1).settings
    };
    Convention { name: "kaldi", settings, framing: Framing::Snip }
}

/// Lhotse's.
pub fn lhotse() -> Convention {
    let mut lhotse = kaldi(1);
    lhotse.settings.window.iter_mut().for_each(|w| *w /= 32_768.0);
    lhotse.settings.bands = kaldi_bands(80, 512, 7_600.0);
    lhotse.settings.first_sample = -120;
    Convention { name: "lhotse", framing: Framing::Rounded, ..lhotse }
}

/// ESPnet's.
pub fn espnet() -> Convention {
    let settings = Settings {
        window: (0..512).map(|i| 0.5 - 0.5 * (TAU * f64::from(i) / 512.0).cos()).collect(),
        hop_len: 128,
        first_sample: -256,
        edges: Edges::Reflect,
        preemphasis: 0.0,
        log_guard: 0.0,
        log_floor: 1e-10,
        normalize: Normalize::None,
        ..nemo(80).settings
    };
    Convention { name: "espnet", settings, framing: Framing::Centers }
}
