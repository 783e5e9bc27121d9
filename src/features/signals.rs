//! Signals of the tests.

/// Uniform noise, from a linear congruential generator so that no library has a say in it.
pub(super) fn noise(seed: u32, len: usize, amplitude: f32) -> Vec<f32> {
    let mut state = seed;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state as f32 / u32::MAX as f32 * 2.0 - 1.0) * amplitude
        })
        .collect()
}

/// What breaks extractors, by name, for a window and a hop.
pub(super) fn extremes(window_len: usize, hop: usize) -> Vec<(String, Vec<f32>)> {
    let rising = |i: usize| (i as f32 * i as f32 * 5e-4).sin();
    let mut impulse = vec![0.0; 1_500];
    impulse[777] = 1.0;
    let signals = [
        ("silence", vec![0.0; 1_200]),
        ("dc", vec![0.3; 1_200]),
        ("dc of full scale", vec![-1.0; 1_200]),
        ("impulse", impulse),
        ("square", (0..1_500).map(|i| if i / 40 % 2 == 0 { 1.0 } else { -1.0 }).collect()),
        ("noise", noise(1, 2_000, 0.9)),
        ("tiny noise", noise(2, 1_700, 1e-6)),
        ("clipped", noise(3, 1_700, 3.0).into_iter().map(|x| x.clamp(-1.0, 1.0)).collect()),
        ("chirp", (0..2_000).map(|i| 0.8 * rising(i)).collect()),
        (
            "tone",
            (0..1_500).map(|i| 0.5 * (i as f32 * std::f32::consts::FRAC_PI_8).sin()).collect(),
        ),
        ("loud then silent", {
            let mut signal = noise(4, 800, 1.0);
            signal.resize(2_400, 0.0);
            signal
        }),
    ];
    let mut named: Vec<(String, Vec<f32>)> =
        signals.map(|(name, signal)| (name.to_owned(), signal)).into();
    let lens = [0, 1, 2, 3, hop / 2 - 1, hop / 2, hop - 1, hop, hop + 1, window_len / 2];
    let longer =
        [window_len - 1, window_len, window_len + 1, window_len + hop - 1, window_len + hop];
    for len in lens.into_iter().chain(longer) {
        named.push((format!("{len} samples of noise"), noise(len as u32, len, 0.7)));
    }
    named
}
