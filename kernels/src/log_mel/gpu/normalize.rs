//! Each band to mean 0, and deviation 1 if wanted, over the frames of its utterance, in place. Sums
//! count from the band's first value, so that a constant band is exactly 0 in any precision, and run
//! in an order that depends on nothing but sizes.

use super::frames::{ROW_WORDS, Shape};
use cubecl::ir::ElemType;
use cubecl::prelude::*;

/// Bands of a cube, side by side in memory.
pub(super) const BANDS: usize = 32;
/// Keeps a constant band finite.
const EPSILON: f32 = 1e-5;

/// The sum of what the groups of a band bring. It begins behind a barrier and ends with one.
#[cube]
fn over_groups<F: Float>(
    value: F,
    sums: &mut [F],
    group: usize,
    lane: usize,
    #[comptime] groups: usize,
) -> F {
    let slot = group * BANDS + lane;
    sums[slot] = value;
    #[unroll]
    for level in 0..comptime!(groups.ilog2() as usize) {
        let half = comptime!(groups >> (level + 1));
        sync_cube();
        if group < half {
            let other = sums[slot + half * BANDS];
            sums[slot] += other;
        }
    }
    sync_cube();
    let sum = sums[lane];
    sync_cube();
    sum
}

/// Cubes: `[bands, rows]`, each of `groups` (a power of two) of [`BANDS`] units.
#[cube(launch_unchecked)]
pub(super) fn normalize<F: Float>(
    rows: &[u32],
    out: &mut [f32],
    shape: Shape,
    #[comptime] groups: usize,
    #[comptime] scales: bool,
    #[define(F)] _dtype: ElemType,
) {
    let lane = UNIT_POS_X as usize % BANDS;
    let group = UNIT_POS_X as usize / BANDS;
    let row = shape.first_row as usize + CUBE_POS_Y as usize;
    let num_mels = shape.num_mels as usize;
    let band = CUBE_POS_X as usize * BANDS + lane;
    let is_band = band < num_mels;
    let num_frames = rows[row * ROW_WORDS + 2] as usize;
    let end = select(is_band, num_frames, 0usize);
    let row_at = row * shape.num_frames as usize * num_mels + min(band, num_mels - 1);
    let count = F::cast_from(max(num_frames, 1usize) as u32);
    let mut sums = Shared::<[F]>::new_slice(comptime!(groups * BANDS));

    let pivot = F::cast_from(out[row_at]);
    let mut sum = F::new(0.0);
    let mut t = group;
    while t < end {
        sum += F::cast_from(out[row_at + t * num_mels]) - pivot;
        t += groups;
    }
    let mean = over_groups::<F>(sum, &mut sums, group, lane, groups) / count;

    let mut scale = F::new(1.0);
    if comptime!(scales) {
        let mut squares = F::new(0.0);
        let mut t = group;
        while t < end {
            let x = (F::cast_from(out[row_at + t * num_mels]) - pivot) - mean;
            squares += x * x;
            t += groups;
        }
        let squares = over_groups::<F>(squares, &mut sums, group, lane, groups);
        let variance = squares / max(count - F::new(1.0), F::new(1.0));
        scale = F::new(1.0) / F::cast_from(f32::cast_from(variance).sqrt() + EPSILON);
    }

    let mut t = group;
    while t < end {
        let at = row_at + t * num_mels;
        let x = (F::cast_from(out[at]) - pivot) - mean;
        out[at] = f32::cast_from(x * scale);
        t += groups;
    }
}
