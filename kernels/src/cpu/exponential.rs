//! Exponentials that a compiler can vectorise: no branches, no calls, no tables.
//! Plain multiply-adds, never fused ones, so that every instruction set gives the same bits.

use std::f64::consts::{LN_2, LOG2_E};

/// Below this `e^x` is no normal f32; it is given as 0.
const LOWEST: f32 = -87.3;

/// Adding and subtracting `1.5 * 2^23` rounds an f32 to an integer, which its low bits then hold.
const ROUND_F32: f32 = 12_582_912.0;

/// `1.5 * 2^52`, the same for f64.
pub(super) const ROUND_F64: f64 = 6_755_399_441_055_744.0;

/// `e^x` for `x <= 0`, within 2 units in the last place; NaN stays NaN.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // ln 2 in two parts, the first so short that its product with n is exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let rounded = x * LOG2_E as f32 + ROUND_F32;
    let n = rounded - ROUND_F32;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    // Taylor's series to r^7: the rest is below 6e-9 for |r| <= ln(2) / 2.
    let mut sum = 1.0 / 5040.0;
    for inverse in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5] {
        sum = sum * r + inverse;
    }
    let mantissa = 1.0 + (r + r * r * sum);
    let scale = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    if x < LOWEST { 0.0 } else { mantissa * scale }
}

/// `2^y` for `y <= 0` as `(m, e)` with `2^y = m 2^e`, m within 1e-12 of exact and `e` an
/// integer, or `-inf` for an exact 0.
#[inline(always)]
pub(super) fn exp2_split(y: f64) -> (f64, f64) {
    // Beyond 2^50 a f64 has no fraction worth the name.
    const WHOLE: f64 = -1.125_899_906_842_624e15;
    let near = if y > WHOLE { y } else { WHOLE };
    let n = (near + ROUND_F64) - ROUND_F64;
    let r = (near - n) * LN_2;
    let mut mantissa = 1.0 / 3_628_800.0;
    for inverse in [
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        mantissa = mantissa * r + inverse;
    }
    (mantissa, if y > WHOLE { n } else { y })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        let mut worst: f64 = 0.0;
        for i in 0..4_000_000 {
            let x = -87.29 * (i as f32 / 4e6);
            let want = f64::from(x).exp();
            let ulp =
                f64::from(f32::from_bits((want as f32).to_bits() + 1)) - f64::from(want as f32);
            worst = worst.max((f64::from(exp(x)) - want).abs() / ulp);
        }
        assert!(worst < 2.0, "{worst} ulp");
        assert_eq!((exp(0.0), exp(-0.0), exp(-88.0), exp(f32::NEG_INFINITY)), (1.0, 1.0, 0.0, 0.0));
        assert_eq!(exp(f32::MIN), 0.0);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn exp2_split_keeps_twelve_digits_and_any_range() {
        for i in 0..1_000_000 {
            let y = -1000.0 * (f64::from(i) / 1e6);
            let (m, e) = exp2_split(y);
            assert!((m * e.exp2() / y.exp2() - 1.0).abs() < 1e-12, "{y}");
        }
        assert_eq!(exp2_split(-7e9), (1.0, -7e9));
        assert_eq!(exp2_split(-1e30), (1.0, -1e30));
        assert_eq!(exp2_split(f64::NEG_INFINITY), (1.0, f64::NEG_INFINITY));
    }
}
