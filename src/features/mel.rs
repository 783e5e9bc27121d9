//! The mel filter bank of Slaney's Auditory Toolbox as librosa builds it: linear up to 1 kHz,
//! logarithmic above, triangles in Hz of equal area. Each row is stored as one run of weights.

/// Hz per mel below the knee.
const HZ_PER_MEL: f64 = 200.0 / 3.0;
/// Where the scale turns logarithmic.
const KNEE_HZ: f64 = 1_000.0;

fn log_step() -> f64 {
    6.4_f64.ln() / 27.0
}

fn hz_to_mel(hz: f64) -> f64 {
    if hz < KNEE_HZ {
        hz / HZ_PER_MEL
    } else {
        KNEE_HZ / HZ_PER_MEL + (hz / KNEE_HZ).ln() / log_step()
    }
}

fn mel_to_hz(mel: f64) -> f64 {
    let knee = KNEE_HZ / HZ_PER_MEL;
    if mel < knee { mel * HZ_PER_MEL } else { KNEE_HZ * (log_step() * (mel - knee)).exp() }
}

/// The full matrix, `[num_mels][n_fft / 2 + 1]`.
pub(super) fn mel_matrix(
    rate_hz: f64,
    n_fft: usize,
    num_mels: usize,
    fmin: f64,
    fmax: f64,
) -> Vec<Vec<f64>> {
    let (low, high) = (hz_to_mel(fmin), hz_to_mel(fmax));
    let step = (high - low) / (num_mels + 1) as f64;
    let edges: Vec<f64> = (0..num_mels + 2).map(|i| mel_to_hz(low + step * i as f64)).collect();
    edges
        .windows(3)
        .map(|edge| {
            let area = 2.0 / (edge[2] - edge[0]);
            (0..=n_fft / 2)
                .map(|bin| {
                    let hz = bin as f64 * rate_hz / n_fft as f64;
                    let rise = (hz - edge[0]) / (edge[1] - edge[0]);
                    let fall = (edge[2] - hz) / (edge[2] - edge[1]);
                    area * rise.min(fall).max(0.0)
                })
                .collect()
        })
        .collect()
}

/// The same without its zeros: a triangle touches a few bins in a row.
pub(super) struct MelBank {
    rows: Vec<(usize, Vec<f32>)>,
}

impl MelBank {
    pub(super) fn new(matrix: &[Vec<f64>]) -> MelBank {
        let rows = matrix.iter().map(|row| {
            let first = row.iter().position(|w| *w > 0.0).unwrap_or(0);
            let end = row.iter().rposition(|w| *w > 0.0).map_or(first, |last| last + 1);
            (first, row[first..end].iter().map(|w| *w as f32).collect())
        });
        MelBank { rows: rows.collect() }
    }

    /// Writes one energy a band.
    pub(super) fn apply(&self, power: &[f32], out: &mut [f32]) {
        for ((first, weights), out) in self.rows.iter().zip(out) {
            *out = weights.iter().zip(&power[*first..]).map(|(w, p)| w * p).sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_inverts_and_meets_its_known_points() {
        for hz in [0.0, 60.0, 999.9, 1_000.0, 1_000.1, 4_000.0, 8_000.0] {
            assert!((mel_to_hz(hz_to_mel(hz)) - hz).abs() < 1e-9, "{hz}");
        }
        // Published points of the scale: 1 kHz is mel 15, 6.4 kHz is 27 steps above.
        assert!((hz_to_mel(1_000.0) - 15.0).abs() < 1e-12);
        assert!((hz_to_mel(6_400.0) - 42.0).abs() < 1e-12);
    }

    #[test]
    fn the_sparse_product_is_the_full_product() {
        let matrix = mel_matrix(16_000.0, 512, 80, 0.0, 8_000.0);
        let power: Vec<f32> = (0..257).map(|i| ((i * 7919) % 101) as f32 / 10.0).collect();
        let mut got = vec![0.0; 80];
        MelBank::new(&matrix).apply(&power, &mut got);
        for (row, got) in matrix.iter().zip(got) {
            let want: f64 = row.iter().zip(&power).map(|(w, p)| w * f64::from(*p)).sum();
            assert!((want - f64::from(got)).abs() <= 1e-5 * want.abs() + 1e-9, "{want} {got}");
        }
    }

    #[test]
    fn triangles_have_unit_area() {
        // Over a fine grid, the sum of weights times the bin width is the area, which Slaney makes 1.
        let n_fft = 1 << 15;
        for row in mel_matrix(16_000.0, n_fft, 40, 0.0, 8_000.0) {
            let area: f64 = row.iter().sum::<f64>() * 16_000.0 / n_fft as f64;
            assert!((area - 1.0).abs() < 1e-3, "{area}");
        }
    }
}
