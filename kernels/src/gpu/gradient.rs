//! The last pass: softmax minus occupancy, for all frames at once, one read of the logits and
//! one write of the gradient. A tile of classes at a time, a frame's occupancies are summed by
//! class in shared memory, each class by one lane over rising positions.

use super::exchange::group_sum;
use super::frames::{FrameClass, is_finite, scratch_words};
use super::layout::{IMPOSSIBLE, MARGIN_FRAMES, SOUND, SUMMARY_WORDS, Sizes};
use super::plan::RUNS_HEADER;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

/// Classes whose occupancies are gathered before they are written.
pub(super) const TILE: usize = 512;

/// An occupancy, without what the sweep leaves of a zero.
#[cube]
fn perceptible(x: f32) -> f32 {
    select(x > 1.0e-30f32, x, 0.0f32)
}

/// `x` as near as bf16 comes to it, ties to even: some runtimes cut digits off instead.
#[cube]
fn rounded(x: f32, #[comptime] is_bf16: bool) -> f32 {
    if comptime!(is_bf16) {
        let bits = u32::reinterpret(x);
        let up = 0x7fffu32 + ((bits >> 16u32) & 1u32);
        f32::reinterpret((bits + up) & 0xffff_0000u32)
    } else {
        x
    }
}

/// Cubes: `[frames, rows]`. `N` logits are read and written at once; `N` divides `TILE`.
/// `factors` `[B]` multiply the rows' gradients if `is_scaled`.
#[cube(launch_unchecked)]
#[allow(clippy::too_many_arguments)]
pub(super) fn write_gradient<F: Float, N: Size>(
    logits: &[Vector<F, N>],
    runs: &[u32],
    norms: &[Vector<u32, Const<4>>],
    lattice: &[f32],
    summary: &[u32],
    factors: &[f32],
    grad: &mut [Vector<F, N>],
    sizes: Sizes,
    #[comptime] class: FrameClass,
    #[comptime] is_scaled: bool,
    #[comptime] is_bf16: bool,
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
    let runs_at = row * (RUNS_HEADER + 3 * max_labels + 1);
    let num_labels = runs[runs_at + 1] as usize;
    let num_runs = runs[runs_at + 2] as usize;
    let classes_at = runs_at + RUNS_HEADER;
    let positions_at = classes_at + max_labels;
    let starts_at = positions_at + max_labels;
    let verdict = summary[local_row * SUMMARY_WORDS];
    let is_valid = t < runs[runs_at] as usize;
    let is_sound = is_valid && verdict == SOUND;
    let first = (row * num_frames + t) * (num_classes / width);
    let frame = local_row * num_frames + min(t, num_frames - 1);
    let blanks_at = 2 * (frame + MARGIN_FRAMES) * (max_labels + 1);
    let labels_at = blanks_at + max_labels + 1;

    let mut greatest = 0.0f32;
    let mut inverse_sum = 0.0f32;
    let mut inverse_total = 0.0f32;
    if is_sound {
        inverse_total = f32::reinterpret(summary[local_row * SUMMARY_WORDS + 1]);
        let norm = norms[frame];
        greatest = f32::reinterpret(norm.extract(0usize));
        inverse_sum = f32::reinterpret(norm.extract(1usize));
    }
    let mut factor = 1.0f32;
    if comptime!(is_scaled) {
        factor = factors[row];
    }
    let mut elsewhere = 0.0f32;
    if is_valid && verdict > IMPOSSIBLE {
        elsewhere = f32::reinterpret(verdict);
    }

    let mut blanks = 0.0f32;
    if is_sound {
        let mut j = lane;
        while j < num_labels + 1 {
            blanks += lattice[blanks_at + j];
            j += class.group;
        }
    }
    let mut scratch = Shared::<[f32]>::new_slice(comptime!(if class.lanes.is_shared() {
        scratch_words(class)
    } else {
        1
    }));
    let slot = UNIT_POS_X as usize;
    let blanks = group_sum(blanks, &mut scratch, slot, class.group, class.lanes);
    let blanks = perceptible(blanks * inverse_total);

    let mut occupied = Shared::<[f32]>::new_slice(comptime!(TILE * class.frames));
    let occupied_at = which * TILE;
    let mut tile = 0usize;
    while tile < num_classes {
        let tile_end = min(tile + TILE, num_classes);
        let mut c = lane;
        while c < tile_end - tile {
            occupied[occupied_at + c] = 0.0f32;
            c += class.group;
        }
        sync_cube();
        if is_sound {
            let blank = sizes.blank as usize;
            if lane == 0 && blank >= tile && blank < tile_end {
                occupied[occupied_at + blank - tile] = blanks;
            }
            let mut run = lane;
            while run < num_runs {
                let class_of = runs[classes_at + run] as usize;
                if class_of >= tile && class_of < tile_end {
                    let start = runs[starts_at + run] as usize;
                    let end = runs[starts_at + run + 1] as usize;
                    let mut sum = 0.0f32;
                    for i in start..end {
                        sum += lattice[labels_at + runs[positions_at + i] as usize];
                    }
                    occupied[occupied_at + class_of - tile] = perceptible(sum * inverse_total);
                }
                run += class.group;
            }
        }
        sync_cube();
        if t < num_frames {
            let mut i = tile / width + lane;
            while i < tile_end / width {
                let mut out = Vector::<F, N>::empty();
                if is_sound {
                    let vector = logits[first + i];
                    #[unroll]
                    for k in 0..width {
                        let x = f32::cast_from(vector.extract(k));
                        let mut p = 0.0f32;
                        if is_finite(x) {
                            p = (x - greatest).exp() * inverse_sum;
                        }
                        let value = p - occupied[occupied_at + i * width + k - tile];
                        out.insert(k, F::cast_from(rounded(value * factor, is_bf16)));
                    }
                } else {
                    #[unroll]
                    for k in 0..width {
                        out.insert(k, F::cast_from(elsewhere));
                    }
                }
                grad[first + i] = out;
                i += class.group;
            }
        }
        sync_cube();
        tile += TILE;
    }
}
