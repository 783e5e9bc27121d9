//! Mel filter banks: triangles between points that are evenly spaced on a mel scale. The toolkits
//! differ in the scale, in what is straight (Hz or mel), in the right side and in the height.
//! Slaney's scale is that of his Auditory Toolbox (1998), HTK's that of the HTK Book, 5.4.
//!
//! The product runs over eight frames at once, one in each lane, and skips the zeros.

use multiversion::multiversion;
use serde::{Deserialize, Serialize};

use super::LogMelConfig;

/// From Hz to mel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MelScale {
    /// Linear up to 1 kHz, logarithmic above.
    Slaney,
    /// `1127 ln(1 + hz / 700)`. (With 2595 log10 for 1127 ln, as some write it, the bands are the
    /// same: all that counts is ratios of mels.)
    Htk,
}

/// The shape of the bands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MelTriangles {
    /// Straight lines over Hz.
    Hz,
    /// Straight lines over mel (Kaldi).
    Mel,
    /// Straight lines over Hz, as wide on the right as on the left, so that they end before the next
    /// band's peak (SpeechBrain).
    Symmetric,
}

/// The height of the bands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MelNorm {
    /// Triangles of unit area.
    Slaney,
    /// Triangles of unit height.
    None,
}

/// Hz per mel below the knee.
const HZ_PER_MEL: f64 = 200.0 / 3.0;
/// Where Slaney's scale turns logarithmic.
const KNEE_HZ: f64 = 1_000.0;

fn log_step() -> f64 {
    6.4_f64.ln() / 27.0
}

impl MelScale {
    fn mel(self, hz: f64) -> f64 {
        match self {
            MelScale::Htk => 1127.0 * (hz / 700.0).ln_1p(),
            MelScale::Slaney if hz < KNEE_HZ => hz / HZ_PER_MEL,
            MelScale::Slaney => KNEE_HZ / HZ_PER_MEL + (hz / KNEE_HZ).ln() / log_step(),
        }
    }

    fn hz(self, mel: f64) -> f64 {
        let knee = KNEE_HZ / HZ_PER_MEL;
        match self {
            MelScale::Htk => 700.0 * (mel / 1127.0).exp_m1(),
            MelScale::Slaney if mel < knee => mel * HZ_PER_MEL,
            MelScale::Slaney => KNEE_HZ * (log_step() * (mel - knee)).exp(),
        }
    }
}

/// The full matrix, `[num_mels][n_fft / 2 + 1]`.
pub(super) fn mel_matrix(config: &LogMelConfig) -> Vec<Vec<f64>> {
    let scale = config.mel_scale;
    let (low, high) = (scale.mel(config.fmin_hz), scale.mel(config.upper_hz()));
    let step = (high - low) / (config.num_mels + 1) as f64;
    let bin_hz = f64::from(config.sample_rate_hz) / config.n_fft as f64;
    let bins: Vec<f64> = (0..=config.n_fft / 2).map(|bin| bin as f64 * bin_hz).collect();
    let band = |band: usize| -> Vec<f64> {
        let mels = [0, 1, 2].map(|i| low + step * (band + i) as f64);
        let hz = mels.map(|mel| scale.hz(mel));
        let height = match config.mel_norm {
            MelNorm::Slaney => 2.0 / (hz[2] - hz[0]),
            MelNorm::None => 1.0,
        };
        let weight = |x: f64, edges: [f64; 3]| {
            let rise = (x - edges[0]) / (edges[1] - edges[0]);
            let fall = (edges[2] - x) / (edges[2] - edges[1]);
            height * rise.min(fall).max(0.0)
        };
        let of_bin = |bin: &f64| match config.mel_triangles {
            MelTriangles::Hz => weight(*bin, hz),
            MelTriangles::Mel => weight(scale.mel(*bin), mels),
            MelTriangles::Symmetric => weight(*bin, [hz[0], hz[1], 2.0 * hz[1] - hz[0]]),
        };
        bins.iter().map(of_bin).collect()
    };
    (0..config.num_mels).map(band).collect()
}

/// Frames that are worked on together, one in each lane.
pub(super) const LANES: usize = 8;

/// One value of each frame of a block.
pub(super) type Lanes = [f32; LANES];

/// The matrix without its zeros: a triangle touches a few bins in a row.
pub(super) struct MelBank {
    bands: Vec<Band>,
    weights: Vec<f32>,
}

struct Band {
    first_bin: usize,
    num_bins: usize,
}

impl MelBank {
    pub(super) fn new(matrix: &[Vec<f64>]) -> MelBank {
        let mut bank = MelBank { bands: Vec::new(), weights: Vec::new() };
        for row in matrix {
            let first_bin = row.iter().position(|w| *w > 0.0).unwrap_or(0);
            let end = row.iter().rposition(|w| *w > 0.0).map_or(first_bin, |last| last + 1);
            bank.bands.push(Band { first_bin, num_bins: end - first_bin });
            bank.weights.extend(row[first_bin..end].iter().map(|w| *w as f32));
        }
        bank
    }

    /// From `[n_fft / 2 + 1]` powers to `[num_mels]` energies.
    pub(super) fn apply(&self, powers: &[Lanes], energies: &mut [Lanes]) {
        product(self, powers, energies);
    }
}

#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn product(bank: &MelBank, powers: &[Lanes], energies: &mut [Lanes]) {
    let mut rest = bank.weights.as_slice();
    for (band, energy) in bank.bands.iter().zip(energies) {
        let (weights, after) = rest.split_at(band.num_bins);
        rest = after;
        let mut sum = [0.0_f32; LANES];
        for (weight, power) in weights.iter().zip(&powers[band.first_bin..]) {
            for lane in 0..LANES {
                sum[lane] += weight * power[lane];
            }
        }
        *energy = sum;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Preset;
    use super::*;

    #[test]
    fn the_scales_invert_and_meet_their_known_points() {
        for scale in [MelScale::Slaney, MelScale::Htk] {
            for hz in [0.0, 60.0, 999.9, 1_000.0, 1_000.1, 4_000.0, 8_000.0] {
                assert!((scale.hz(scale.mel(hz)) - hz).abs() < 1e-9, "{hz}");
            }
        }
        // 1 kHz is mel 15 of Slaney's, 6.4 kHz is 27 steps above; 1 kHz is mel 1000 of HTK's.
        assert!((MelScale::Slaney.mel(1_000.0) - 15.0).abs() < 1e-12);
        assert!((MelScale::Slaney.mel(6_400.0) - 42.0).abs() < 1e-12);
        assert!((MelScale::Htk.mel(1_000.0) - 1_000.0).abs() < 0.02);
    }

    #[test]
    fn the_sparse_product_is_the_full_product() {
        for preset in Preset::ALL {
            let config = preset.settings(16_000);
            let matrix = mel_matrix(&config);
            let powers: Vec<Lanes> = (0..=config.n_fft / 2)
                .map(|bin| [0, 1, 2, 3, 4, 5, 6, 7].map(|i| ((bin * 7919 + i) % 101) as f32 / 10.0))
                .collect();
            let mut energies = vec![[0.0; LANES]; config.num_mels];
            MelBank::new(&matrix).apply(&powers, &mut energies);
            for (row, got) in matrix.iter().zip(&energies) {
                for (lane, got) in got.iter().enumerate() {
                    let want: f64 =
                        row.iter().zip(&powers).map(|(w, p)| w * f64::from(p[lane])).sum();
                    assert!((want - f64::from(*got)).abs() <= 1e-5 * want.abs() + 1e-9);
                }
            }
        }
    }

    #[test]
    fn normalised_triangles_have_unit_area_and_others_unit_height() {
        // Over a fine grid, the sum of weights times the bin width is the area, which Slaney makes 1.
        let fine = LogMelConfig { n_fft: 1 << 15, num_mels: 40, ..Preset::Nemo.settings(16_000) };
        for row in mel_matrix(&fine) {
            let area: f64 = row.iter().sum::<f64>() * 16_000.0 / fine.n_fft as f64;
            assert!((area - 1.0).abs() < 1e-3, "{area}");
        }
        for preset in [Preset::Kaldi, Preset::Torchaudio, Preset::Speechbrain] {
            let fine = LogMelConfig { n_fft: 1 << 16, ..preset.settings(16_000) };
            for row in mel_matrix(&fine) {
                let height = row.into_iter().fold(0.0, f64::max);
                assert!(height > 0.99 && height <= 1.0, "{preset} {height}");
            }
        }
    }
}
