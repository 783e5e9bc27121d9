//! The two passes that treat frames alike and apart: reading them before the lattice, and
//! writing their gradient after it. 32 units share a frame; sums go lane by lane and then
//! up a tree, so their order depends on nothing but the sizes.

use super::plan::HEADER;
use super::scaled::{Scaled, load, normalized, share, store};
use cubecl::prelude::*;

/// Units that share a frame.
pub(super) const FRAME_UNITS: usize = 32;
/// Frames of a cube.
pub(super) const CUBE_FRAMES: usize = 8;
/// Words of a frame's norm: greatest logit, `1 / sum`, `ln sum` of `sum(e^(x - max))`, and
/// whether it has none of these.
pub(super) const NORM_WORDS: usize = 4;
/// Words of a row's summary: verdict, the total's mantissa and exponent, and what one
/// segment of the sweep hands the next: the sum of `ln sum`, and faults.
pub(super) const SUMMARY_WORDS: usize = 5;

/// Verdict: the row has a loss and a gradient.
pub(super) const SOUND: u32 = 0;
/// Verdict: no path has a probability, and the gradient is 0.
pub(super) const IMPOSSIBLE: u32 = 1;
/// Verdict: these bits, a NaN, fill the loss and the gradient.
pub(super) const NAN_BITS: u32 = 0x7fc0_0000;

const EXPONENT_BITS: u32 = 0x7f80_0000;
const NEGATIVE_INFINITY_BITS: u32 = 0xff80_0000;
const ANY_FINITE: u32 = 1;
const ANY_BAD: u32 = 2;

#[cube]
fn is_finite(x: f32) -> bool {
    (u32::reinterpret(x) & EXPONENT_BITS) != EXPONENT_BITS
}

/// `e^x` as `e^r 2^n`. Reducing two logits apart and dividing keeps the digits that their
/// difference would round away when both are large.
#[cube]
fn reduced(x: f32) -> Scaled {
    let near = max(min(x, 1.0e8f32), -1.0e8f32);
    let n = (near * std::f32::consts::LOG2_E + 0.5f32).floor();
    // ln 2 in two parts, the first so short that its product with n is exact.
    let r = (near - n * 0.693_359_4f32) - n * -2.121_944_4e-4f32;
    Scaled { m: r, e: i32::cast_from(n) }
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

/// Sizes that every kernel needs.
#[derive(CubeLaunch, CubeType, Clone, Copy)]
pub(super) struct Sizes {
    /// Frames of the logits.
    pub(super) num_frames: u32,
    /// Classes of the logits.
    pub(super) num_classes: u32,
    /// The longest target.
    pub(super) max_labels: u32,
    /// The blank.
    pub(super) blank: u32,
    /// Rows before the first of this launch; buffers between passes start at it.
    pub(super) first_row: u32,
    /// Rows of this launch.
    pub(super) num_rows: u32,
    /// Steps of the sweep before this segment, a multiple of `RECENT_FRAMES`.
    pub(super) first_step: u32,
    /// Steps of this segment.
    pub(super) num_steps: u32,
    /// Log2-shares below this count as 0, so that `num_frames` of them fit an i32.
    pub(super) floor: i32,
}

/// Greatest of `FRAME_UNITS` values, and the union of as many flags.
#[cube]
fn reduce_max(values: &mut [f32], flags: &mut [u32], slot: usize, lane: usize) {
    #[unroll]
    for level in 0..5usize {
        let half = comptime!(FRAME_UNITS >> (level + 1));
        sync_cube();
        if lane < half {
            values[slot] = max(values[slot], values[slot + half]);
            flags[slot] |= flags[slot + half];
        }
    }
    sync_cube();
}

/// Sum of `FRAME_UNITS` values.
#[cube]
fn reduce_sum(values: &mut [f32], slot: usize, lane: usize) {
    #[unroll]
    for level in 0..5usize {
        let half = comptime!(FRAME_UNITS >> (level + 1));
        sync_cube();
        if lane < half {
            values[slot] += values[slot + half];
        }
    }
    sync_cube();
}

/// Pass 1. `logits` `[B, T, C]`; out: `symbols` `[rows, T, S + 1, 2]`, the blank first, as
/// shares of the likeliest class, and `norms` `[rows, T, NORM_WORDS]`.
#[cube(launch)]
pub(super) fn read_frames(
    logits: &[f32],
    plan: &[u32],
    symbols: &mut [u32],
    norms: &mut [u32],
    sizes: Sizes,
) {
    let lane = UNIT_POS_X as usize;
    let t = CUBE_POS_X as usize * CUBE_FRAMES + UNIT_POS_Y as usize;
    let local_row = CUBE_POS_Y as usize;
    let row = sizes.first_row as usize + local_row;
    let (num_frames, num_classes) = (sizes.num_frames as usize, sizes.num_classes as usize);
    let max_labels = sizes.max_labels as usize;
    let plan_at = row * (HEADER + 3 * max_labels + 1);
    let is_valid = t < plan[plan_at] as usize;
    let classes = select(is_valid, num_classes, 0usize);
    let frame = (row * num_frames + t) * num_classes;

    let mut values = Shared::<[f32]>::new_slice(comptime!(FRAME_UNITS * CUBE_FRAMES));
    let mut flags = Shared::<[u32]>::new_slice(comptime!(FRAME_UNITS * CUBE_FRAMES));
    let slot = UNIT_POS_Y as usize * FRAME_UNITS + lane;
    let first_slot = UNIT_POS_Y as usize * FRAME_UNITS;

    let mut greatest = f32::new(f32::MIN);
    let mut seen = 0u32;
    let mut c = lane;
    while c < classes {
        let x = logits[frame + c];
        if is_finite(x) {
            greatest = max(greatest, x);
            seen |= ANY_FINITE;
        } else if u32::reinterpret(x) != NEGATIVE_INFINITY_BITS {
            seen |= ANY_BAD;
        }
        c += FRAME_UNITS;
    }
    values[slot] = greatest;
    flags[slot] = seen;
    reduce_max(&mut values, &mut flags, slot, lane);
    let greatest = values[first_slot];
    let is_bad = flags[first_slot] != ANY_FINITE;
    sync_cube();

    // One 1, of the greatest logit, is left out of the sum: what a confident frame loses is
    // in the digits that adding it would round away.
    let mut others = 0.0f32;
    let mut ones = 0.0f32;
    let mut c = lane;
    while c < classes {
        let x = logits[frame + c];
        if is_finite(x) {
            if x < greatest {
                others += (x - greatest).exp();
            } else {
                ones += 1.0f32;
            }
        }
        c += FRAME_UNITS;
    }
    values[slot] = ones;
    reduce_sum(&mut values, slot, lane);
    let ones = values[first_slot];
    sync_cube();
    values[slot] = others;
    reduce_sum(&mut values, slot, lane);
    let others = values[first_slot] + (ones - 1.0f32);

    if is_valid {
        let norm_at = (local_row * num_frames + t) * NORM_WORDS;
        if lane == 0 {
            norms[norm_at] = u32::reinterpret(greatest);
            norms[norm_at + 1] = u32::reinterpret(1.0f32 / (1.0f32 + others));
            norms[norm_at + 2] = u32::reinterpret(ln_1p(others));
            norms[norm_at + 3] = u32::cast_from(is_bad);
        }
        let top = reduced(greatest);
        let symbols_at = (local_row * num_frames + t) * (max_labels + 1);
        let mut symbol = lane;
        while symbol < plan[plan_at + 1] as usize + 1 {
            let mut class = sizes.blank as usize;
            if symbol > 0 {
                class = plan[plan_at + HEADER + symbol - 1] as usize;
            }
            let x = logits[frame + class];
            let own = reduced(x);
            let e = own.e - top.e;
            let is_possible = is_finite(x) && e >= sizes.floor && !is_bad;
            let m = select(is_possible, (own.m - top.m).exp(), 0.0f32);
            store(symbols, 2 * (symbols_at + symbol), 1usize, &normalized(m, e));
            symbol += FRAME_UNITS;
        }
    }
}

/// Softmax of one logit.
#[cube]
fn softmax(x: f32, greatest: f32, inverse_sum: f32) -> f32 {
    let mut p = 0.0f32;
    if is_finite(x) {
        p = (x - greatest).exp() * inverse_sum;
    }
    p
}

/// `alpha beta / p` of state `kind` (0 blank, 1 label) of pair `j`, at the frame whose
/// lattice cells start at `cells_at`.
#[cube]
#[allow(clippy::too_many_arguments)]
fn occupancy(
    alpha: &[u32],
    beta: &[u32],
    cells_at: usize,
    kind: usize,
    j: usize,
    pairs: usize,
    total: &Scaled,
) -> f32 {
    let cell = cells_at + 2 * (kind * pairs + j);
    share(&load(alpha, cell, 1usize), &load(beta, cell, 1usize), total)
}

/// Pass 3. Writes every element of `grad` `[B, T, C]` that belongs to this launch's rows.
/// `alpha` and `beta` are `[rows, T, 2, S + 1, 2]`.
#[cube(launch)]
pub(super) fn write_gradient(
    logits: &[f32],
    plan: &[u32],
    norms: &[u32],
    alpha: &[u32],
    beta: &[u32],
    summary: &[u32],
    grad: &mut [f32],
    sizes: Sizes,
) {
    let lane = UNIT_POS_X as usize;
    let t = CUBE_POS_X as usize * CUBE_FRAMES + UNIT_POS_Y as usize;
    let local_row = CUBE_POS_Y as usize;
    let row = sizes.first_row as usize + local_row;
    let (num_frames, num_classes) = (sizes.num_frames as usize, sizes.num_classes as usize);
    let max_labels = sizes.max_labels as usize;
    let pairs = max_labels + 1;
    let plan_at = row * (HEADER + 3 * max_labels + 1);
    let num_labels = plan[plan_at + 1] as usize;
    let verdict = summary[local_row * SUMMARY_WORDS];
    let is_valid = t < plan[plan_at] as usize;
    let is_sound = is_valid && verdict == SOUND;
    let frame = (row * num_frames + t) * num_classes;
    let total = load(summary, local_row * SUMMARY_WORDS + 1, 1usize);
    let frame_in_launch = local_row * num_frames + t;
    let cells_at = 4 * frame_in_launch * pairs;

    let mut greatest = 0.0f32;
    let mut inverse_sum = 0.0f32;
    if is_sound {
        greatest = f32::reinterpret(norms[frame_in_launch * NORM_WORDS]);
        inverse_sum = f32::reinterpret(norms[frame_in_launch * NORM_WORDS + 1]);
    }
    let mut elsewhere = 0.0f32;
    if is_valid && verdict > IMPOSSIBLE {
        elsewhere = f32::reinterpret(verdict);
    }
    let classes = select(t < num_frames, num_classes, 0usize);
    let mut c = lane;
    while c < classes {
        let mut value = elsewhere;
        if is_sound {
            value = softmax(logits[frame + c], greatest, inverse_sum);
        }
        grad[frame + c] = value;
        c += FRAME_UNITS;
    }

    let mut values = Shared::<[f32]>::new_slice(comptime!(FRAME_UNITS * CUBE_FRAMES));
    let slot = UNIT_POS_Y as usize * FRAME_UNITS + lane;
    let mut blanks = 0.0f32;
    if is_sound {
        let mut j = lane;
        while j < num_labels + 1 {
            blanks += occupancy(alpha, beta, cells_at, 0usize, j, pairs, &total);
            j += FRAME_UNITS;
        }
    }
    values[slot] = blanks;
    reduce_sum(&mut values, slot, lane);

    // The target's classes are written a second time: the first must have landed.
    sync_storage();
    if is_sound {
        if lane == 0 {
            let at = frame + sizes.blank as usize;
            grad[at] = softmax(logits[at], greatest, inverse_sum) - values[slot];
        }
        let positions_at = plan_at + HEADER + max_labels;
        let starts_at = positions_at + max_labels;
        let mut run = lane;
        while run < plan[plan_at + 2] as usize {
            let start = plan[starts_at + run] as usize;
            let end = plan[starts_at + run + 1] as usize;
            let mut occupied = 0.0f32;
            for i in start..end {
                let j = plan[positions_at + i] as usize;
                occupied += occupancy(alpha, beta, cells_at, 1usize, j, pairs, &total);
            }
            let class = plan[plan_at + HEADER + plan[positions_at + start] as usize] as usize;
            let at = frame + class;
            grad[at] = softmax(logits[at], greatest, inverse_sum) - occupied;
            run += FRAME_UNITS;
        }
    }
}
