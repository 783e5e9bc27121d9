//! Probabilities as `m 2^e`, for kernels: an f32 in `[1, 2)` and an i32. The exponent of a
//! zero lies in a range that no product of probabilities reaches ([`EXPONENT_RANGE`]), so
//! that zero takes part in the arithmetic without a branch and is told in integers.

use cubecl::prelude::*;

/// Exponents of a path's probability stay above the negative of this; the launch gives
/// every frame its share and counts a symbol below it as impossible.
pub(super) const EXPONENT_RANGE: usize = 1 << 28;
/// The exponent of zero; no exponent is lower.
pub(super) const ZERO_EXPONENT: i32 = -(1 << 29);
/// The emission exponent of an impossible symbol: any state that it meets becomes a zero,
/// and no sum of two such exponents leaves an i32.
pub(super) const IMPOSSIBLE_EXPONENT: i32 = ZERO_EXPONENT + 4096;
/// What an exponent is below exactly when it is a zero's. Adding zeros raises their exponent
/// by at most 2 a frame, from `ZERO_EXPONENT`.
pub(super) const ZERO_BELOW: i32 = -(3 << 27);
/// Emissions are stored with their exponent lowered by the bias of an f32's, which saves
/// the sweep an addition.
pub(super) const EMISSION_BIAS: i32 = 127;

const ONE_BITS: u32 = 0x3f80_0000;
const MANTISSA_BITS: u32 = 0x007f_ffff;

/// A probability; `m` may be anything in `[1, 16)` where a function says so.
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

#[cube]
pub(super) fn choose(condition: bool, a: &Scaled, b: &Scaled) -> Scaled {
    Scaled { m: select(condition, a.m, b.m), e: select(condition, a.e, b.e) }
}

/// `m 2^(e - top)` for `m` in `[1, 2)` and `e <= top`, by the exponent's bits; what lies below
/// the range of an f32 becomes less than `2^-126`, which no sum that has a 1 in it notices.
#[cube]
fn aligned(a: &Scaled, top: i32) -> f32 {
    let shift = max(a.e - top, -127i32);
    f32::reinterpret(u32::reinterpret(a.m) + (u32::reinterpret(shift) << 23u32))
}

/// `a + b`, its mantissa in `[1, 4)`.
#[cube]
pub(super) fn sum2(a: &Scaled, b: &Scaled) -> Scaled {
    let top = max(a.e, b.e);
    Scaled { m: aligned(a, top) + aligned(b, top), e: top }
}

/// `a + b + c`, its mantissa in `[1, 6)`.
#[cube]
pub(super) fn sum3(a: &Scaled, b: &Scaled, c: &Scaled) -> Scaled {
    let top = max(max(a.e, b.e), c.e);
    Scaled { m: aligned(a, top) + aligned(b, top) + aligned(c, top), e: top }
}

/// `a` times a stored emission, normal again; the product of the mantissas must be in `[1, 16)`.
#[cube]
pub(super) fn emit(a: &Scaled, emission: &Scaled) -> Scaled {
    let bits = u32::reinterpret(a.m * emission.m);
    let e = a.e + emission.e + i32::reinterpret(bits >> 23u32);
    Scaled { m: mantissa(bits), e: max(e, ZERO_EXPONENT) }
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

/// A state in one word: 16 bits of exponent, plus `bias`, and 16 of mantissa, rounded. The
/// bias keeps the exponent below `2^16 - 2`; what it puts at or below 0 is stored as zero.
#[cube]
pub(super) fn packed(a: &Scaled, bias: i32) -> u32 {
    let key = a.e + bias;
    let rounded = (u32::reinterpret(a.m) - comptime!(ONE_BITS - 64)) >> 7u32;
    select(key > 0i32, (u32::reinterpret(key) << 16u32) + rounded, 0u32)
}

/// What [`packed`] packed.
#[cube]
pub(super) fn unpacked(word: u32, bias: i32) -> Scaled {
    Scaled {
        m: mantissa(word << 7u32),
        e: select(word == 0u32, ZERO_EXPONENT, i32::reinterpret(word >> 16u32) - bias),
    }
}

/// `a b / total`, a probability of at most 1 and a little, as a plain f32; `inverse` is 1 over the
/// total's mantissa and `total_e` its exponent.
#[cube]
pub(super) fn share(a: &Scaled, b: &Scaled, inverse: f32, total_e: i32) -> f32 {
    // Each exponent is at least ZERO_EXPONENT, half of what would leave an i32.
    a.m * b.m * inverse * pow2(min(a.e + b.e - total_e, 4i32))
}
