//! The first pass: every frame of logits, read once, to its log-sum-exp and to the emissions of
//! the target's symbols, so that the lattice reads what it needs from contiguous memory.

use super::exchange::{Lanes, group_max, group_sum};
use super::layout::{MARGIN_FRAMES, NORM_WORDS, Sizes};
use super::plan::HEADER;
use super::scaled::{IMPOSSIBLE_EXPONENT, normalized, pow2};
use cubecl::ir::ElemType;
use cubecl::prelude::*;

const EXPONENT_BITS: u32 = 0x7f80_0000;
/// More than any group has lanes.
const BAD_LANE: f32 = 256.0;
const NEGATIVE_INFINITY_BITS: u32 = 0xff80_0000;

/// How frames are spread over cubes, known when a kernel is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FrameClass {
    pub(super) lanes: Lanes,
    /// Lanes that share a frame.
    pub(super) group: usize,
    /// Frames of a cube.
    pub(super) frames: usize,
}

impl FrameClass {
    pub(super) fn of(lanes: Lanes, max_units: usize) -> Self {
        let group = lanes.count(32);
        Self { lanes, group, frames: (max_units.min(256) / group).clamp(1, 8) }
    }
}

/// Words that a group exchanges through.
pub(super) const fn scratch_words(class: FrameClass) -> usize {
    class.group * class.frames
}

#[cube]
pub(crate) fn is_finite(x: f32) -> bool {
    (u32::reinterpret(x) & EXPONENT_BITS) != EXPONENT_BITS
}

#[derive(CubeType, Clone, Copy)]
struct Reduced {
    r: f32,
    n: i32,
}

/// `e^x` as `e^r 2^n`. Reducing two logits apart and dividing keeps the digits that their
/// difference would round away when both are large.
#[cube]
fn reduced(x: f32) -> Reduced {
    let near = max(min(x, 1.0e8f32), -1.0e8f32);
    let n = (near * std::f32::consts::LOG2_E + 0.5f32).floor();
    // ln 2 in two parts, the first so short that its product with n is exact.
    let r = (near - n * 0.693_359_4f32) - n * -2.121_944_4e-4f32;
    Reduced { r, n: i32::cast_from(n) }
}

/// `ln(1 + x)` for `x >= 0`, to the last digits of a small `x`; runtimes promise neither
/// that nor a good `ln`.
#[cube]
pub(super) fn ln_1p(x: f32) -> f32 {
    // 1 + x = 2^k (1 + r), and r from x itself where k = 0.
    let y = normalized(1.0f32 + x, 0i32);
    let r = select(x < 1.0f32, x, y.m - 1.0f32);
    // ln(1 + r) = 2 artanh(s); the terms left out are below 1e-7 of the sum for s <= 1/3.
    let s = r / (2.0f32 + r);
    let q = s * s;
    let tail = q
        * (1.0f32 / 3.0f32
            + q * (0.2f32
                + q * (1.0f32 / 7.0f32 + q * (1.0f32 / 9.0f32 + q * (1.0f32 / 11.0f32)))));
    f32::cast_from(y.e) * std::f32::consts::LN_2 + 2.0f32 * (s + s * tail)
}

/// `ln x` of a normal `x > 0`.
#[cube]
pub(crate) fn ln(x: f32) -> f32 {
    let y = normalized(x, 0i32);
    f32::cast_from(y.e) * std::f32::consts::LN_2 + ln_1p(y.m - 1.0f32)
}

/// `e^-|x|`, which is 0 long before an infinity could take part.
#[cube]
fn decay(x: f32) -> f32 {
    (-min(max(x, -x), 1000.0f32)).exp()
}

/// `e^-|x|` to the last digits: runtimes' `exp` may be far from those at -10, and here its error
/// would be common to a whole lane.
#[cube]
fn exact_decay(x: f32) -> f32 {
    let y = reduced(-min(max(x, -x), 1000.0f32));
    let r = y.r;
    let tail = 1.0f32 / 6.0f32
        + r * (1.0f32 / 24.0f32
            + r * (1.0f32 / 120.0f32 + r * (1.0f32 / 720.0f32 + r * (1.0f32 / 5040.0f32))));
    (1.0f32 + (r + r * r * (0.5f32 + r * tail))) * pow2(y.n)
}

/// Cubes: `[frames, rows]`. `N` logits are read at once. Columns of strips in waves are emptied.
#[cube(launch_unchecked)]
pub(super) fn read_frames<F: Float, N: Size>(
    logits: &[Vector<F, N>],
    plan: &[u32],
    symbols: &mut [Vector<u32, Const<2>>],
    norms: &mut [Vector<u32, Const<4>>],
    columns: &mut [u32],
    sizes: Sizes,
    num_strips: u32,
    #[comptime] class: FrameClass,
    #[comptime] in_waves: bool,
    #[define(F)] _dtype: ElemType,
) {
    let width = N::value();
    let lane = UNIT_POS_X as usize % class.group;
    let which = UNIT_POS_X as usize / class.group;
    let t = CUBE_POS_X as usize * class.frames + which;
    let local_row = CUBE_POS_Y as usize;
    let row = sizes.first_row as usize + local_row;
    let (num_frames, num_classes) = (sizes.num_frames as usize, sizes.num_classes as usize);
    let max_labels = sizes.max_labels as usize;
    let plan_at = row * (HEADER + 2 * max_labels + 1);
    let is_valid = t < plan[plan_at] as usize;
    let vectors = select(is_valid, num_classes / width, 0usize);
    let first = (row * num_frames + t) * (num_classes / width);

    // The greatest logit so far, and the others' sum as shares of it. The 1 of the greatest is
    // left out of the sum: what a confident frame loses is in the digits that adding it would
    // round away. A masked logit counts as the lowest float, whose share of any other is 0.
    let mut greatest = f32::new(f32::MIN);
    let mut others = 0.0f32;
    let mut bad = 0u32;
    let mut i = lane;
    while i < vectors {
        let vector = logits[first + i];
        #[unroll]
        for k in 0..width {
            let given = f32::cast_from(vector.extract(k));
            let usable = is_finite(given);
            let x = select(usable, given, f32::new(f32::MIN));
            bad |= select(usable, 0u32, u32::reinterpret(given) ^ NEGATIVE_INFINITY_BITS);
            let share = decay(x - greatest);
            others = select(x > greatest, (others + 1.0f32) * share, others + share);
            greatest = max(greatest, x);
        }
        i += class.group;
    }

    let mut scratch = Shared::<[f32]>::new_slice(comptime!(if class.lanes.is_shared() {
        scratch_words(class)
    } else {
        1
    }));
    let slot = UNIT_POS_X as usize;
    let top = group_max(greatest, &mut scratch, slot, class.group, class.lanes);
    let is_top = greatest == top;
    let ones = select(is_top, 1.0f32, 0.0f32);
    let rest = select(is_top, others, (others + 1.0f32) * exact_decay(greatest - top));
    // Two counts of lanes in one sum, which an f32 holds exactly.
    let marks = ones + select(bad != 0u32, BAD_LANE, 0.0f32);
    let all_marks = group_sum(marks, &mut scratch, slot, class.group, class.lanes);
    let rests = group_sum(rest, &mut scratch, slot, class.group, class.lanes);
    let bad_lanes = (all_marks * (1.0f32 / BAD_LANE)).floor();
    let tops = all_marks - bad_lanes * BAD_LANE;
    let is_bad = bad_lanes > 0.0f32 || top == f32::new(f32::MIN);
    let others = rests + (tops - 1.0f32);

    if is_valid {
        let frame = local_row * num_frames + t;
        if comptime!(in_waves) {
            let mut of_strip = lane;
            while of_strip < 2 * num_strips as usize {
                let strip_row = (of_strip / 2) * sizes.num_rows as usize + local_row;
                let at = (strip_row * 2 + of_strip % 2) * num_frames + t;
                columns[2 * at] = 0u32;
                columns[2 * at + 1] = 0u32;
                of_strip += class.group;
            }
        }
        if lane == 0 {
            let mut norm = Vector::<u32, Const<4>>::empty();
            norm.insert(0usize, u32::reinterpret(top));
            norm.insert(1usize, u32::reinterpret(1.0f32 / (1.0f32 + others)));
            norm.insert(2usize, u32::reinterpret(ln_1p(others)));
            norm.insert(3usize, select(is_bad, 1u32, 0u32));
            norms[frame] = norm;
        }
        let unit = reduced(top);
        let symbols_at = (frame + MARGIN_FRAMES) * (max_labels + 1);
        let mut symbol = lane;
        while symbol < plan[plan_at + 1] as usize + 1 {
            let mut class_of = sizes.blank as usize;
            if symbol > 0 {
                class_of = plan[plan_at + HEADER + symbol - 1] as usize;
            }
            let vector = logits[first + class_of / width];
            let mut x = f32::cast_from(vector.extract(0usize));
            #[unroll]
            for k in 1..width {
                x = select(class_of % width == k, f32::cast_from(vector.extract(k)), x);
            }
            let own = reduced(x);
            let share = normalized((own.r - unit.r).exp(), own.n - unit.n);
            let is_possible = is_finite(x) && share.e >= sizes.floor && !is_bad;
            let mut emission = Vector::<u32, Const<2>>::empty();
            emission.insert(0usize, u32::reinterpret(select(is_possible, share.m, 1.0f32)));
            emission.insert(
                1usize,
                u32::reinterpret(select(is_possible, share.e, IMPOSSIBLE_EXPONENT)),
            );
            symbols[symbols_at + symbol] = emission;
            symbol += class.group;
        }
    }
}

const _: () = assert!(NORM_WORDS == 4, "norms are written as one vector");
