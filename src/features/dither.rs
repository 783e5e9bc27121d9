//! Dither: normal noise on the samples of a training utterance, so that digital silence is not one
//! point far from everything else. The numbers come from the stream the caller brings, which is the
//! utterance's and the epoch's alone. Added once to the signal, as NeMo does; Kaldi draws anew for
//! every frame, so that overlapping frames disagree about the samples they share.

use std::f64::consts::TAU;

use rand::Rng;

/// Adds noise of a deviation, two values from two uniform numbers (Box and Muller, 1958).
pub(super) fn add_noise(samples: &mut [f64], deviation: f64, rng: &mut impl Rng) {
    for pair in samples.chunks_mut(2) {
        // In (0, 1], so that the logarithm is finite.
        let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt() * deviation;
        let (sine, cosine) = (TAU * rng.random::<f64>()).sin_cos();
        for (x, direction) in pair.iter_mut().zip([cosine, sine]) {
            *x += radius * direction;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn noise(seed: u64, len: usize) -> Vec<f64> {
        let mut samples = vec![10.0; len];
        add_noise(&mut samples, 3.0, &mut ChaCha8Rng::seed_from_u64(seed));
        samples
    }

    #[test]
    fn it_is_normal_around_the_sample_and_the_streams_alone() {
        let samples = noise(1, 100_001);
        let count = samples.len() as f64;
        let moment = |power: i32| {
            samples.iter().map(|x| ((x - 10.0) / 3.0).powi(power)).sum::<f64>() / count
        };
        assert!(moment(1).abs() < 0.02, "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.02, "{}", moment(2));
        assert!(moment(3).abs() < 0.05, "{}", moment(3));
        assert!((moment(4) - 3.0).abs() < 0.15, "{}", moment(4));
        assert_eq!(samples, noise(1, 100_001));
        assert_ne!(samples, noise(2, 100_001));
        assert!(samples.iter().all(|x| x.is_finite()));
    }
}
