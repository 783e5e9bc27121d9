//! Probabilities as `m 2^e`, for kernels: an f32 in `[1, 2)`, or 0, and an i32.

use cubecl::prelude::*;

/// The exponent that goes with a mantissa of 0. It says nothing by itself; it only keeps
/// a zero from setting the scale of a sum.
pub(super) const ZERO_EXPONENT: i32 = -(1 << 30);

/// A probability.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Scaled {
    pub(super) m: f32,
    pub(super) e: i32,
}

/// `2^d` for `d <= 0`, 0 when that is no normal f32.
#[cube]
fn pow2(d: i32) -> f32 {
    f32::reinterpret(u32::cast_from(max(d + 127i32, 0i32)) << 23u32)
}

/// `m 2^e` for any `m >= 0` that is 0 or normal.
#[cube]
pub(super) fn normalized(m: f32, e: i32) -> Scaled {
    let bits = u32::reinterpret(m);
    let exponent = i32::cast_from(bits >> 23u32) - 127i32;
    let mantissa = f32::reinterpret((bits & 0x007f_ffffu32) | 0x3f80_0000u32);
    Scaled {
        m: select(m > 0.0f32, mantissa, 0.0f32),
        e: select(m > 0.0f32, e + exponent, ZERO_EXPONENT),
    }
}

#[cube]
pub(super) fn add3(a: &Scaled, b: &Scaled, c: &Scaled) -> Scaled {
    let e = max(max(a.e, b.e), c.e);
    let m = a.m * pow2(a.e - e) + b.m * pow2(b.e - e) + c.m * pow2(c.e - e);
    normalized(m, e)
}

#[cube]
pub(super) fn multiply(a: &Scaled, b: &Scaled) -> Scaled {
    normalized(a.m * b.m, a.e + b.e)
}

/// `a b 2^-e / m`, a probability of at most 1 and a little, as a plain f32.
#[cube]
pub(super) fn share(a: &Scaled, b: &Scaled, total: &Scaled) -> f32 {
    // Three ranges of 2^30 do not fit an i32, but a zero's mantissa needs no exponent.
    let is_zero = a.m * b.m == 0.0f32;
    let d = select(is_zero, -127i32, a.e + b.e - total.e);
    let clamped = max(min(d, 2i32), -127i32);
    a.m * b.m / total.m * f32::reinterpret(u32::cast_from(clamped + 127i32) << 23u32)
}

/// Reads the pair stored at words `at` and `at + stride`.
#[cube]
pub(super) fn load(words: &[u32], at: usize, stride: usize) -> Scaled {
    Scaled { m: f32::reinterpret(words[at]), e: i32::reinterpret(words[at + stride]) }
}

/// Writes a pair to words `at` and `at + stride`.
#[cube]
pub(super) fn store(words: &mut [u32], at: usize, stride: usize, value: &Scaled) {
    words[at] = u32::reinterpret(value.m);
    words[at + stride] = u32::reinterpret(value.e);
}
