//! Signals that break extractors.

use std::f32::consts::FRAC_PI_8;

/// Uniform noise.
pub fn noise(seed: u64, len: usize, amplitude: f32) -> Vec<f32> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| (2.0 * rng.f32() - 1.0) * amplitude).collect()
}

/// By name, for a window of 400 and a hop of 160.
pub fn extremes() -> Vec<(String, Vec<f32>)> {
    let mut impulse = vec![0.0; 1_500];
    impulse[777] = 1.0;
    let signals = [
        ("silence", vec![0.0; 1_200]),
        ("dc", vec![0.3; 1_200]),
        ("impulse", impulse),
        ("square", (0..1_500).map(|i| if i / 40 % 2 == 0 { 1.0 } else { -1.0 }).collect()),
        ("noise", noise(1, 2_000, 0.9)),
        ("tiny noise", noise(2, 1_700, 1e-6)),
        ("chirp", (0..2_000).map(|i| 0.8 * ((i * i) as f32 * 5e-4).sin()).collect()),
        ("tone", (0..1_500).map(|i| 0.5 * (i as f32 * FRAC_PI_8).sin()).collect()),
        ("loud then silent", {
            let mut signal = noise(4, 800, 1.0);
            signal.resize(2_400, 0.0);
            signal
        }),
    ];
    let mut named: Vec<(String, Vec<f32>)> =
        signals.map(|(name, signal)| (name.to_owned(), signal)).into();
    for len in [0, 1, 2, 3, 79, 80, 159, 160, 161, 200, 399, 400, 401, 559, 560] {
        named.push((format!("{len} samples of noise"), noise(len as u64, len, 0.7)));
    }
    named
}
