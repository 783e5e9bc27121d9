//! Pass 2: the lattice. Forward and backward are one recurrence, the second over reversed
//! labels and frames, so a cube takes its direction from its position.
//!
//! A unit steps pairs of states, blank `j` and label `j`. Rows alternate between two
//! places, with one barrier a frame. A launch takes a segment of the frames, as a rule all;
//! see [`Capacity::max_iterations`](super::Capacity::max_iterations).

use super::frames::{IMPOSSIBLE, NAN_BITS, NORM_WORDS, SOUND, SUMMARY_WORDS, Sizes, ln_1p};
use super::plan::HEADER;
use super::scaled::{Scaled, ZERO_EXPONENT, add3, load, multiply, store};
use cubecl::prelude::*;

const INFINITY_BITS: u32 = 0x7f80_0000;
/// Frames whose `ln sum` is added up before the whole is.
pub(super) const RECENT_FRAMES: usize = 128;

/// Words of the two rows, for so many slots.
pub(super) const fn row_words(slots: usize) -> usize {
    8 * slots
}

#[cube]
fn zero() -> Scaled {
    Scaled { m: 0.0f32, e: ZERO_EXPONENT }
}

/// Where state `kind` of pair `j` of row `which` keeps its mantissa; its exponent is `slots`
/// further. Slot 0 holds the zero before the first pair.
#[cube]
fn place(base: usize, slots: usize, which: usize, kind: usize, j: usize) -> usize {
    base + (which * 4 + kind * 2) * slots + j + 1
}

/// Runs one cube's direction in `rows`, whose two rows start at `base`.
#[cube]
#[allow(clippy::too_many_arguments)]
fn run(
    rows: &mut [u32],
    base: usize,
    slots: usize,
    plan: &[u32],
    symbols: &[u32],
    norms: &[u32],
    alpha: &mut [u32],
    beta: &mut [u32],
    summary: &mut [u32],
    nll: &mut [u32],
    sizes: Sizes,
    #[comptime] keep: bool,
    #[comptime] in_global: bool,
) {
    let local_row = CUBE_POS_X as usize;
    let is_forward = CUBE_POS_Y == 0;
    let unit = UNIT_POS_X as usize;
    let units = CUBE_DIM_X as usize;
    let row = sizes.first_row as usize + local_row;
    let num_frames = sizes.num_frames as usize;
    let max_labels = sizes.max_labels as usize;
    let pairs = max_labels + 1;
    let plan_at = row * (HEADER + 3 * max_labels + 1);
    let labels_at = plan_at + HEADER;
    let is_feasible = plan[plan_at + 3] == 1;
    let frame_len = select(is_feasible, plan[plan_at] as usize, 0usize);
    let num_labels = plan[plan_at + 1] as usize;

    let first_step = sizes.first_step as usize;
    let end_step = min(first_step + sizes.num_steps as usize, frame_len);

    if first_step == 0 {
        // Before the first frame a path is certainly in the first blank.
        let mut j = unit;
        while j < num_labels + 2 {
            #[unroll]
            for which in 0..2usize {
                #[unroll]
                for kind in 0..2usize {
                    store(rows, place(base, slots, which, kind, j) - 1, slots, &zero());
                }
            }
            j += units;
        }
        sync_rows(in_global);
        if unit == 0 {
            let start = place(base, slots, 0usize, 0usize, 0usize);
            store(rows, start, slots, &Scaled { m: 1.0f32, e: 0i32 });
        }
        sync_rows(in_global);
    }

    // Emissions are shares of a frame's likeliest class, exact where the model is sure. What
    // that leaves out, the frames' `ln sum`, is added up apart, in two levels against rounding.
    let mut faults = 0u32;
    let mut recent = 0.0f32;
    let mut normalizer = 0.0f32;
    if first_step > 0 && is_forward {
        normalizer = f32::reinterpret(summary[local_row * SUMMARY_WORDS + 3]);
        faults = summary[local_row * SUMMARY_WORDS + 4];
    }
    for step in first_step..end_step {
        let which = step % 2;
        let t = select(is_forward, step, frame_len - 1 - step);
        let frame = local_row * num_frames + t;
        faults |= norms[frame * NORM_WORDS + 3];
        recent += f32::reinterpret(norms[frame * NORM_WORDS + 2]);
        if step % RECENT_FRAMES == RECENT_FRAMES - 1 {
            normalizer += recent;
            recent = 0.0f32;
        }
        let symbols_at = 2 * frame * pairs;
        let cells_at = 4 * frame * pairs;
        let blank_prob = load(symbols, symbols_at, 1usize);
        let mut j = unit;
        while j < num_labels + 1 {
            let blank = load(&*rows, place(base, slots, which, 0usize, j), slots);
            let left = load(&*rows, place(base, slots, which, 1usize, j) - 1, slots);
            let to_blank = add3(&blank, &left, &zero());
            let at_blank = multiply(&to_blank, &blank_prob);
            store(rows, place(base, slots, 1 - which, 0usize, j), slots, &at_blank);
            if comptime!(keep) {
                let pair = select(is_forward, j, num_labels - j);
                if is_forward {
                    store(alpha, cells_at + 2 * pair, 1usize, &at_blank);
                } else {
                    store(beta, cells_at + 2 * pair, 1usize, &to_blank);
                }
            }
            if j < num_labels {
                let pair = select(is_forward, j, num_labels - 1 - j);
                let label = plan[labels_at + pair];
                let mut may_skip = false;
                if j > 0 {
                    let before = select(is_forward, pair - 1, pair + 1);
                    may_skip = plan[labels_at + before] != label;
                }
                let skipped = choose(may_skip, &left, &zero());
                let own = load(&*rows, place(base, slots, which, 1usize, j), slots);
                let to_label = add3(&own, &blank, &skipped);
                let label_prob = load(symbols, symbols_at + 2 * (pair + 1), 1usize);
                let at_label = multiply(&to_label, &label_prob);
                store(rows, place(base, slots, 1 - which, 1usize, j), slots, &at_label);
                if comptime!(keep) {
                    let cell = cells_at + 2 * (pairs + pair);
                    if is_forward {
                        store(alpha, cell, 1usize, &at_label);
                    } else {
                        store(beta, cell, 1usize, &to_label);
                    }
                }
            }
            j += units;
        }
        sync_rows(in_global);
    }

    let is_last = frame_len <= first_step + sizes.num_steps as usize
        && (frame_len > first_step || first_step == 0);
    if is_forward && unit == 0 && !is_last && frame_len > first_step {
        // A segment is whole in `recent`'s.
        summary[local_row * SUMMARY_WORDS + 3] = u32::reinterpret(normalizer);
        summary[local_row * SUMMARY_WORDS + 4] = faults;
    }
    if is_forward && unit == 0 && is_last {
        let which = frame_len % 2;
        let blank = load(&*rows, place(base, slots, which, 0usize, num_labels), slots);
        let label = load(&*rows, place(base, slots, which, 1usize, num_labels) - 1, slots);
        let total = add3(&blank, &label, &zero());
        let mut verdict = SOUND.runtime();
        let ln_total = f32::cast_from(total.e) * std::f32::consts::LN_2 + ln_1p(total.m - 1.0f32);
        let mut loss = u32::reinterpret((normalizer + recent) - ln_total);
        if faults != 0 {
            verdict = NAN_BITS;
            loss = NAN_BITS;
        } else if !is_feasible || total.m == 0.0f32 {
            verdict = IMPOSSIBLE;
            loss = INFINITY_BITS;
        }
        nll[row] = loss;
        summary[local_row * SUMMARY_WORDS] = verdict;
        store(summary, local_row * SUMMARY_WORDS + 1, 1usize, &total);
    }
}

#[cube]
fn choose(condition: bool, a: &Scaled, b: &Scaled) -> Scaled {
    Scaled { m: select(condition, a.m, b.m), e: select(condition, a.e, b.e) }
}

/// Makes a row visible to the cube.
#[cube]
fn sync_rows(#[comptime] in_global: bool) {
    if comptime!(in_global) {
        sync_storage();
    } else {
        sync_cube();
    }
}

/// Rows in shared memory. Cubes: `[rows, directions]`.
#[cube(launch)]
#[allow(clippy::too_many_arguments)]
pub(super) fn sweep_shared(
    plan: &[u32],
    symbols: &[u32],
    norms: &[u32],
    alpha: &mut [u32],
    beta: &mut [u32],
    summary: &mut [u32],
    nll: &mut [u32],
    sizes: Sizes,
    #[comptime] slots: usize,
    #[comptime] keep: bool,
) {
    let mut rows = Shared::<[u32]>::new_slice(comptime!(row_words(slots)));
    run(
        &mut rows,
        0usize,
        comptime!(slots).runtime(),
        plan,
        symbols,
        norms,
        alpha,
        beta,
        summary,
        nll,
        sizes,
        keep,
        false,
    );
}

/// Rows in global memory, `[directions, rows, row_words(slots)]`. Cubes: `[rows, directions]`.
#[cube(launch)]
#[allow(clippy::too_many_arguments)]
pub(super) fn sweep_global(
    plan: &[u32],
    symbols: &[u32],
    norms: &[u32],
    alpha: &mut [u32],
    beta: &mut [u32],
    summary: &mut [u32],
    nll: &mut [u32],
    rows: &mut [u32],
    sizes: Sizes,
    #[comptime] keep: bool,
) {
    let slots = sizes.max_labels as usize + 2;
    let cube = CUBE_POS_Y as usize * sizes.num_rows as usize + CUBE_POS_X as usize;
    run(
        rows,
        cube * 8 * slots,
        slots,
        plan,
        symbols,
        norms,
        alpha,
        beta,
        summary,
        nll,
        sizes,
        keep,
        true,
    );
}
