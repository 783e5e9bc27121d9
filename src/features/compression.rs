//! From mel energies to the values a model sees: guard and floor, logarithm, the range below the
//! loudest value, offset and factor. All values of a block or of an utterance at once.
//!
//! The C library's logarithm would take a third of the whole extractor's time. This one has an error
//! of at most 1.5 units in the last place of a float32 where the result is not near 0, see the tests.

use multiversion::multiversion;

use super::{Log, LogMelConfig};

/// What is done to every energy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compression {
    guard: f32,
    floor: f32,
    /// Of the natural logarithm; `None` leaves the energies.
    log_factor: Option<f32>,
    range: Option<f32>,
    offset: f32,
    scale: f32,
}

impl Compression {
    pub(super) fn new(config: &LogMelConfig) -> Compression {
        let log_factor = match config.log {
            Log::Ln => Some(1.0),
            Log::Log10 => Some(std::f64::consts::LOG10_E as f32),
            Log::Db => Some((10.0 * std::f64::consts::LOG10_E) as f32),
            Log::None => None,
        };
        Compression {
            guard: config.log_guard as f32,
            floor: config.log_floor as f32,
            log_factor,
            range: (config.dynamic_range > 0.0).then_some(config.dynamic_range as f32),
            offset: config.output_offset as f32,
            scale: config.output_scale as f32,
        }
    }

    /// The logarithm of energies, in place.
    pub(super) fn logarithms(&self, energies: &mut [f32]) {
        if let Some(factor) = self.log_factor {
            logarithms(energies, self.guard, self.floor, factor);
        }
    }

    /// What needs the whole utterance, in place.
    pub(super) fn finish(&self, values: &mut [f32]) {
        if let Some(range) = self.range {
            let least = values.iter().copied().fold(f32::NEG_INFINITY, f32::max) - range;
            values.iter_mut().for_each(|x| *x = x.max(least));
        }
        if (self.offset, self.scale) != (0.0, 1.0) {
            values.iter_mut().for_each(|x| *x = (*x + self.offset) * self.scale);
        }
    }
}

#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn logarithms(energies: &mut [f32], guard: f32, floor: f32, factor: f32) {
    for x in energies {
        // Finite samples far outside -1 to 1 can overflow a float32; their logarithm is still finite.
        *x = ln((*x + guard).max(floor).clamp(f32::MIN_POSITIVE, f32::MAX)) * factor;
    }
}

/// `ln(x)` of a normal positive number. With `x = 2^e m`, `m` between the root of 1/2 and that of 2,
/// and `s = (m - 1) / (m + 1)`: `ln m = 2 artanh s = 2 (s + s^3/3 + s^5/5 + ...)`, where `|s| < 0.172`
/// makes five terms enough.
#[inline(always)]
fn ln(x: f32) -> f32 {
    // The logarithm of 2 in two parts; the first has so few bits that its product with e is exact.
    const LN_2_HIGH: f32 = 355.0 / 512.0;
    const LN_2_LOW: f32 = (std::f64::consts::LN_2 - LN_2_HIGH as f64) as f32;
    // The bits of the root of 1/2, rounded down.
    const ROOT_HALF: i32 = 0x3f35_04f3;
    let bits = x.to_bits() as i32;
    let e = (bits - ROOT_HALF) >> 23;
    let m = f32::from_bits((bits - (e << 23)) as u32);
    let e = e as f32;
    let s = (m - 1.0) / (m + 1.0);
    let s2 = s * s;
    let series = s2 * (2.0 / 3.0 + s2 * (2.0 / 5.0 + s2 * (2.0 / 7.0 + s2 * (2.0 / 9.0))));
    e * LN_2_HIGH + (e * LN_2_LOW + (2.0 * s + s * series))
}

#[cfg(test)]
mod tests {
    use super::super::Preset;
    use super::*;

    fn compression(preset: Preset) -> Compression {
        Compression::new(&preset.settings(16_000))
    }

    #[test]
    fn the_logarithm_is_that_of_f64_to_the_last_place() {
        let mut worst = 0.0_f64;
        // Where the logarithm is nearly 0, the unit is that of 1/4. Every 997th normal positive number, and all around 1.
        let all = (f32::MIN_POSITIVE.to_bits()..=f32::MAX.to_bits()).step_by(997);
        let around_one = 1.0_f32.to_bits() - 100_000..1.0_f32.to_bits() + 100_000;
        for bits in all.chain(around_one) {
            let x = f32::from_bits(bits);
            let want = f64::from(x).ln();
            let unit = f64::from(f32::EPSILON) * want.abs().max(0.25);
            worst = worst.max((f64::from(ln(x)) - want).abs() / unit);
        }
        println!("largest error: {worst:.3} units");
        assert!(worst < 1.5, "{worst}");
    }

    #[test]
    fn the_many_at_once_are_the_same_as_one_by_one() {
        let energies: Vec<f32> = (0..1_003).map(|i| (i as f32 - 500.0).exp2()).collect();
        let mut values = energies.clone();
        let kaldi = compression(Preset::Kaldi);
        kaldi.logarithms(&mut values);
        for (x, got) in energies.iter().zip(&values) {
            let want = f64::from(x.clamp(f32::EPSILON, f32::MAX)).ln();
            assert!((f64::from(*got) - want).abs() < 1e-5, "{x} {got} {want}");
        }
        assert_eq!(values[0], f32::EPSILON.ln());
    }

    #[test]
    fn the_range_hangs_from_the_loudest_value_and_offset_comes_before_scale() {
        let mut values = vec![0.0, 1e-30, 1.0, 1e-3];
        let whisper = compression(Preset::Whisper);
        whisper.logarithms(&mut values);
        whisper.finish(&mut values);
        let want = [-1.0, -1.0, 1.0, 0.25];
        assert!(values.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-6), "{values:?}");
        let mut values = vec![1e-30, 1.0, 1e-3, 100.0];
        let speechbrain = compression(Preset::Speechbrain);
        speechbrain.logarithms(&mut values);
        speechbrain.finish(&mut values);
        let want = [-60.0, 0.0, -30.0, 20.0];
        assert!(values.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-5), "{values:?}");
        whisper.finish(&mut []);
    }
}
