//! Per-feature normalisation: each band of an utterance to mean 0 and deviation 1.
//! Sums run in f64: over a long silent stretch f32 sums drift further than the deviation itself.

/// Keeps a constant band finite.
const EPSILON: f64 = 1e-5;

/// Normalises `[T, F]` in place with the unbiased deviation (T - 1). A constant band, and a single
/// frame, become 0.
pub(super) fn per_feature(data: &mut [f32], num_mels: usize) {
    let num_frames = data.len() / num_mels;
    if num_frames == 0 {
        return;
    }
    let mut means = vec![0.0_f64; num_mels];
    for frame in data.chunks_exact(num_mels) {
        for (mean, x) in means.iter_mut().zip(frame) {
            *mean += f64::from(*x);
        }
    }
    for mean in &mut means {
        *mean /= num_frames as f64;
    }
    let mut scales = vec![0.0_f64; num_mels];
    for frame in data.chunks_exact(num_mels) {
        for ((scale, mean), x) in scales.iter_mut().zip(&means).zip(frame) {
            *scale += (f64::from(*x) - mean).powi(2);
        }
    }
    for scale in &mut scales {
        *scale = 1.0 / ((*scale / (num_frames.max(2) - 1) as f64).sqrt() + EPSILON);
    }
    for frame in data.chunks_exact_mut(num_mels) {
        for ((x, mean), scale) in frame.iter_mut().zip(&means).zip(&scales) {
            *x = ((f64::from(*x) - mean) * scale) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_band_has_mean_zero_and_unbiased_deviation_one() {
        let mut data: Vec<f32> =
            (0..300).map(|i| ((i * 7919) % 1_009) as f32 * (1 + i % 3) as f32).collect();
        per_feature(&mut data, 3);
        for band in 0..3 {
            let values: Vec<f64> =
                data.iter().skip(band).step_by(3).map(|x| f64::from(*x)).collect();
            let mean = values.iter().sum::<f64>() / 100.0;
            let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 99.0;
            assert!(mean.abs() < 1e-6 && (variance - 1.0).abs() < 1e-5, "{mean} {variance}");
        }
    }

    #[test]
    fn silence_and_a_single_frame_become_zero_and_never_nan() {
        for frames in [1, 2, 1_000] {
            let mut data = vec![-16.635_532; frames * 4];
            per_feature(&mut data, 4);
            assert!(data.iter().all(|x| *x == 0.0), "{frames}");
        }
        per_feature(&mut [], 4);
    }
}
