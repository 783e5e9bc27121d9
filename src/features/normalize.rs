//! Normalisation of each band over the frames of its utterance.
//! Sums run in f64: over a long silent stretch f32 sums drift further than the deviation itself.

use multiversion::multiversion;

use super::Normalize;

/// Keeps a constant band finite.
const EPSILON: f64 = 1e-5;

/// Normalises `[T, F]` in place. With the unbiased deviation (T - 1), a constant band and a single
/// frame become 0.
pub(super) fn normalize(how: Normalize, data: &mut [f32], num_mels: usize) {
    let num_frames = data.len() / num_mels;
    if num_frames == 0 || how == Normalize::None {
        return;
    }
    let mut means = vec![0.0_f64; num_mels];
    add_frames(data, &mut means);
    for mean in &mut means {
        *mean /= num_frames as f64;
    }
    let mut scales = vec![1.0_f64; num_mels];
    if how == Normalize::PerFeature {
        scales.fill(0.0);
        add_squares(data, &means, &mut scales);
        for scale in &mut scales {
            *scale = 1.0 / ((*scale / (num_frames.max(2) - 1) as f64).sqrt() + EPSILON);
        }
    }
    shift_and_scale(data, &means, &scales);
}

#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn add_frames(data: &[f32], sums: &mut [f64]) {
    for frame in data.chunks_exact(sums.len()) {
        for (sum, x) in sums.iter_mut().zip(frame) {
            *sum += f64::from(*x);
        }
    }
}

#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn add_squares(data: &[f32], means: &[f64], sums: &mut [f64]) {
    for frame in data.chunks_exact(sums.len()) {
        for ((sum, mean), x) in sums.iter_mut().zip(means).zip(frame) {
            let distance = f64::from(*x) - mean;
            *sum += distance * distance;
        }
    }
}

#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn shift_and_scale(data: &mut [f32], means: &[f64], scales: &[f64]) {
    for frame in data.chunks_exact_mut(means.len()) {
        for ((x, mean), scale) in frame.iter_mut().zip(means).zip(scales) {
            *x = ((f64::from(*x) - mean) * scale) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_band_has_mean_zero_and_unbiased_deviation_one_or_its_own() {
        let raw: Vec<f32> =
            (0..300).map(|i| ((i * 7919) % 1_009) as f32 * (1 + i % 3) as f32).collect();
        let moments = |data: &[f32], band: usize| {
            let values: Vec<f64> =
                data.iter().skip(band).step_by(3).map(|x| f64::from(*x)).collect();
            let mean = values.iter().sum::<f64>() / 100.0;
            (mean, values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 99.0)
        };
        let (mut whole, mut shifted) = (raw.clone(), raw.clone());
        normalize(Normalize::PerFeature, &mut whole, 3);
        normalize(Normalize::Mean, &mut shifted, 3);
        for band in 0..3 {
            let (mean, variance) = moments(&whole, band);
            assert!(mean.abs() < 1e-6 && (variance - 1.0).abs() < 1e-5, "{mean} {variance}");
            let (mean, variance) = moments(&shifted, band);
            let want = moments(&raw, band).1;
            assert!(mean.abs() < 1e-3 && (variance / want - 1.0).abs() < 1e-5, "{mean}");
        }
        let mut same = raw.clone();
        normalize(Normalize::None, &mut same, 3);
        assert_eq!(same, raw);
    }

    #[test]
    fn silence_and_a_single_frame_become_zero_and_never_nan() {
        for how in [Normalize::PerFeature, Normalize::Mean] {
            for frames in [1, 2, 1_000] {
                let mut data = vec![-16.635_532; frames * 4];
                normalize(how, &mut data, 4);
                assert!(data.iter().all(|x| *x == 0.0), "{frames}");
            }
            normalize(how, &mut [], 4);
        }
    }
}
