//! Changes of level. Samples may leave [-1, 1]: they are floats, and clipping would be a distortion
//! nobody asked for.

/// Multiplies `samples` by `gain_db` decibels.
pub(super) fn amplify(samples: &mut [f32], gain_db: f64) {
    let factor = 10_f64.powf(gain_db / 20.0);
    for x in samples {
        *x = within_range(f64::from(*x) * factor);
    }
}

/// The nearest finite sample: what a float file holds may be near the greatest float.
pub(super) fn within_range(x: f64) -> f32 {
    x.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_decibels_change_nothing_and_twenty_are_a_factor_of_ten() {
        let original = [0.0, -0.0, 0.1, -0.7, 1e-38, f32::MAX];
        let mut samples = original;
        amplify(&mut samples, 0.0);
        assert_eq!(samples.map(f32::to_bits), original.map(f32::to_bits));
        let mut samples = [0.05, -0.02, f32::MAX];
        amplify(&mut samples, 20.0);
        assert!((samples[0] - 0.5).abs() < 1e-6 && (samples[1] + 0.2).abs() < 1e-6);
        assert_eq!(samples[2], f32::MAX, "no infinity");
    }

    #[test]
    fn a_gain_and_its_opposite_cancel() {
        let mut samples: Vec<f32> = (0..100).map(|i| (i as f32 * 0.37).sin()).collect();
        let original = samples.clone();
        amplify(&mut samples, 13.7);
        amplify(&mut samples, -13.7);
        assert!(samples.iter().zip(original).all(|(a, b)| (a - b).abs() < 1e-6));
    }
}
