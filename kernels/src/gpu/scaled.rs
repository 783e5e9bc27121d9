//! Probabilities as `m 2^e`, for kernels: an f32 of at least 1 and an i32. A sweep normalises to
//! `[1, 2)` every few steps, before mantissas outgrow the arithmetic here. The exponent of a
//! zero lies in a range that no product of probabilities reaches ([`EXPONENT_RANGE`]), so
//! that zero takes part in the arithmetic without a branch and is told in integers.

use cubecl::prelude::*;

/// Exponents of a path's probability stay above the negative of this; the launch gives
/// every frame its share and counts a symbol below it as impossible.
pub(super) const EXPONENT_RANGE: usize = 1 << 27;
/// The exponent of zero; no normal exponent is lower.
pub(super) const ZERO_EXPONENT: i32 = -(1 << 28);
/// The emission exponent of an impossible symbol: any state that it meets becomes a zero,
/// and no sum of the few such exponents between two normalisations leaves an i32.
pub(super) const IMPOSSIBLE_EXPONENT: i32 = ZERO_EXPONENT + 4096;
/// What an exponent is below exactly when it is a zero's. Adding zeros raises their exponent
/// by at most 2 a frame, from `ZERO_EXPONENT`.
pub(super) const ZERO_BELOW: i32 = -(3 << 26);
const ONE_BITS: u32 = 0x3f80_0000;
const MANTISSA_BITS: u32 = 0x007f_ffff;

/// A probability; `m` is in `[1, 2^23)`.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Scaled {
    pub(super) m: f32,
    pub(super) e: i32,
}

#[cube]
pub(super) fn zero() -> Scaled {
    Scaled { m: 1.0f32, e: ZERO_EXPONENT }
}

#[cube]
pub(super) fn one() -> Scaled {
    Scaled { m: 1.0f32, e: 0i32 }
}

#[cube]
pub(super) fn copied(a: &Scaled) -> Scaled {
    Scaled { m: a.m, e: a.e }
}

/// `a` and, for a penalty of [`ZERO_EXPONENT`] instead of 0, zero: an addition where a choice would
/// be a comparison and a selection.
#[cube]
pub(super) fn penalized(a: &Scaled, penalty: i32) -> Scaled {
    Scaled { m: a.m, e: a.e + penalty }
}

#[cube]
pub(super) fn choose(condition: bool, a: &Scaled, b: &Scaled) -> Scaled {
    Scaled { m: select(condition, a.m, b.m), e: select(condition, a.e, b.e) }
}

/// `m 2^(e - top)` for `e <= top`, by the exponent's bits; what lies below the range of an f32
/// becomes less than `2^-100`, which no sum with a term of at least 1 notices.
#[cube]
fn aligned(a: &Scaled, top: i32) -> f32 {
    let shift = max(a.e - top, -127i32);
    f32::reinterpret(u32::reinterpret(a.m) + (u32::reinterpret(shift) << 23u32))
}

/// `a + b`, at most twice the greater mantissa.
#[cube]
pub(super) fn sum2(a: &Scaled, b: &Scaled) -> Scaled {
    let top = max(a.e, b.e);
    Scaled { m: aligned(a, top) + aligned(b, top), e: top }
}

/// `a + b + c`, at most thrice the greatest mantissa.
#[cube]
pub(super) fn sum3(a: &Scaled, b: &Scaled, c: &Scaled) -> Scaled {
    let top = max(max(a.e, b.e), c.e);
    Scaled { m: aligned(a, top) + aligned(b, top) + aligned(c, top), e: top }
}

/// `a` times an emission, not normalised.
#[cube]
pub(super) fn emit(a: &Scaled, emission: &Scaled) -> Scaled {
    Scaled { m: a.m * emission.m, e: a.e + emission.e }
}

/// The same value, its mantissa in `[1, 2)`, zeros at their exponent again.
#[cube]
pub(super) fn renormalized(a: &Scaled) -> Scaled {
    let normal = normalized(a.m, a.e);
    Scaled { m: normal.m, e: max(normal.e, ZERO_EXPONENT) }
}

#[cube]
fn mantissa(bits: u32) -> f32 {
    f32::reinterpret((bits & MANTISSA_BITS) | ONE_BITS)
}

/// `m 2^e` for a normal `m > 0`.
#[cube]
pub(super) fn normalized(m: f32, e: i32) -> Scaled {
    let bits = u32::reinterpret(m);
    Scaled { m: mantissa(bits), e: e + (i32::reinterpret(bits >> 23u32) - 127i32) }
}

/// `2^d`, and 0 for `d <= -127`; `d` is at most 127.
#[cube]
pub(super) fn pow2(d: i32) -> f32 {
    f32::reinterpret(u32::reinterpret(max(d + 127i32, 0i32)) << 23u32)
}

/// Words below it are zeros, whatever their mantissa.
const ZERO_WORDS: u32 = 16 << 16;

/// A state in one word: 16 bits of exponent, plus `bias`, and 16 of mantissa, rounded. A mantissa
/// of 2 or more carries into the exponent by itself, by 12 at most in the steps between two
/// normalisations. The bias keeps that below `2^16`; what it puts at or below 0 ends below 16, and
/// that is a zero.
#[cube]
pub(super) fn packed(a: &Scaled, bias: i32) -> u32 {
    let key = u32::reinterpret(max(a.e + bias, 0i32));
    let rounded = (u32::reinterpret(a.m) - comptime!(ONE_BITS - 64)) >> 7u32;
    (key << 16u32) + rounded
}

/// `a` times what was packed in `word`, as a plain f32, over a power of two: `shift` is its exponent
/// plus the word's bias.
#[cube]
pub(super) fn share(a: &Scaled, word: u32, shift: i32) -> f32 {
    let d = max(a.e + i32::reinterpret(word >> 16u32) - shift, -127i32);
    let kept =
        f32::reinterpret(u32::reinterpret(mantissa(word << 7u32)) + (u32::reinterpret(d) << 23u32));
    select(word < ZERO_WORDS, 0.0f32, a.m * kept)
}
