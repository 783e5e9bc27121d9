//! Where the two directions meet: the probability of all paths, the row's loss and verdict.
//! One cube a row, its sums in an order that depends on nothing but the sizes.

use super::frames::ln_1p;
use super::layout::{IMPOSSIBLE, NAN_BITS, SOUND, STATE_WORDS, SUMMARY_WORDS, Sizes};
use super::plan::HEADER;
use super::scaled::{Scaled, ZERO_BELOW, ZERO_EXPONENT, choose, normalized, sum2, sum3, zero};
use cubecl::prelude::*;

const INFINITY_BITS: u32 = 0x7f80_0000;

#[cube]
fn blank_at(states: &[u32], pair_at: usize) -> Scaled {
    Scaled {
        m: f32::reinterpret(states[pair_at * STATE_WORDS]),
        e: i32::reinterpret(states[pair_at * STATE_WORDS + 1]),
    }
}

#[cube]
fn label_at(states: &[u32], pair_at: usize) -> Scaled {
    Scaled {
        m: f32::reinterpret(states[pair_at * STATE_WORDS + 2]),
        e: i32::reinterpret(states[pair_at * STATE_WORDS + 3]),
    }
}

#[cube]
fn plus(a: &Scaled, b: &Scaled) -> Scaled {
    let sum = sum2(a, b);
    normalized(sum.m, sum.e)
}

#[cube]
fn times(a: &Scaled, b: &Scaled) -> Scaled {
    normalized(a.m * b.m, max(a.e + b.e, ZERO_EXPONENT.runtime()))
}

/// Cubes: `[rows]`, each of `units`, a power of two.
#[cube(launch_unchecked)]
pub(super) fn total(
    plan: &[u32],
    norms: &[Vector<u32, Const<4>>],
    states: &[u32],
    summary: &mut [u32],
    nll: &mut [u32],
    sizes: Sizes,
    #[comptime] units: usize,
) {
    let unit = UNIT_POS_X as usize;
    let local_row = CUBE_POS_X as usize;
    let row = sizes.first_row as usize + local_row;
    let num_frames = sizes.num_frames as usize;
    let max_labels = sizes.max_labels as usize;
    let plan_at = row * (HEADER + 2 * max_labels + 1);
    let labels_at = plan_at + HEADER;
    let is_feasible = plan[plan_at + 2] == 1u32;
    let frame_len = select(is_feasible, plan[plan_at] as usize, 0usize);
    let num_labels = plan[plan_at + 1] as usize;

    let mut ln_sum = 0.0f32;
    let mut faults = 0u32;
    let mut t = unit;
    while t < frame_len {
        let norm = norms[local_row * num_frames + t];
        ln_sum += f32::reinterpret(norm.extract(2usize));
        faults |= norm.extract(3usize);
        t += units;
    }

    let ahead_at = local_row * 2 * (max_labels + 1);
    let back_at = ahead_at + max_labels + 1;
    let mut sum_m = 1.0f32;
    let mut sum_e = ZERO_EXPONENT.runtime();
    let mut j = unit;
    while j < num_labels + 1 {
        let blank = blank_at(states, ahead_at + j);
        let before = label_at(states, ahead_at + max(j, 1usize) - 1);
        let left = choose(j > 0, &before, &zero());
        let to_blank = sum2(&blank, &left);
        let product = times(&to_blank, &blank_at(states, back_at + num_labels - j));
        let with_blank = plus(&Scaled { m: sum_m, e: sum_e }, &product);
        sum_m = with_blank.m;
        sum_e = with_blank.e;
        if j < num_labels {
            let label = plan[labels_at + j];
            let may_skip = j > 0 && plan[labels_at + max(j, 1usize) - 1] != label;
            let skipped = choose(may_skip, &left, &zero());
            let to_label = sum3(&label_at(states, ahead_at + j), &blank, &skipped);
            let product = times(&to_label, &label_at(states, back_at + num_labels - 1 - j));
            let with_label = plus(&Scaled { m: sum_m, e: sum_e }, &product);
            sum_m = with_label.m;
            sum_e = with_label.e;
        }
        j += units;
    }

    let mut ln_sums = Shared::<[f32]>::new_slice(units);
    let mut all_faults = Shared::<[u32]>::new_slice(units);
    let mut sums_m = Shared::<[f32]>::new_slice(units);
    let mut sums_e = Shared::<[i32]>::new_slice(units);
    ln_sums[unit] = ln_sum;
    all_faults[unit] = faults;
    sums_m[unit] = sum_m;
    sums_e[unit] = sum_e;
    #[unroll]
    for level in 0..comptime!(units.ilog2() as usize) {
        let half = comptime!(units >> (level + 1));
        sync_cube();
        if unit < half {
            ln_sums[unit] += ln_sums[unit + half];
            all_faults[unit] |= all_faults[unit + half];
            let both = plus(
                &Scaled { m: sums_m[unit], e: sums_e[unit] },
                &Scaled { m: sums_m[unit + half], e: sums_e[unit + half] },
            );
            sums_m[unit] = both.m;
            sums_e[unit] = both.e;
        }
    }
    if unit == 0 {
        let (m, e) = (sums_m[0], sums_e[0]);
        let mut verdict = SOUND.runtime();
        let ln_total = f32::cast_from(e) * std::f32::consts::LN_2 + ln_1p(m - 1.0f32);
        let mut loss = u32::reinterpret(ln_sums[0] - ln_total);
        if all_faults[0] != 0 {
            verdict = NAN_BITS.runtime();
            loss = NAN_BITS.runtime();
        } else if !is_feasible || e < ZERO_BELOW {
            verdict = IMPOSSIBLE.runtime();
            loss = INFINITY_BITS.runtime();
        }
        nll[row] = loss;
        summary[local_row * SUMMARY_WORDS] = verdict;
        summary[local_row * SUMMARY_WORDS + 1] = u32::reinterpret(1.0f32 / m);
        summary[local_row * SUMMARY_WORDS + 2] = u32::reinterpret(e);
    }
}
