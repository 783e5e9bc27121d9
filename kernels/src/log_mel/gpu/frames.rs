//! From samples to the logarithms of mel bands, a frame to `fft_len / 8` units: nothing between the
//! samples and the result leaves the cube's shared memory.

use super::signal::{Reading, Row, sample};
use super::transform::{WINDOW_AT, num_passes, store_powers, transform};
use crate::gpu::ln;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

/// Samples that a unit brings to its frame.
pub(super) const SAMPLES_PER_UNIT: usize = 8;
/// Words of a row's plan: first sample, samples, frames.
pub(super) const ROW_WORDS: usize = 3;
/// Words of a band: first bin, bins, first weight.
pub(super) const BAND_WORDS: usize = 3;

/// What kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FrameClass {
    pub(super) fft_len: usize,
    /// Frames of a cube.
    pub(super) frames: usize,
    pub(super) reading: Reading,
    pub(super) remove_dc: bool,
    /// Whether the filter runs over each frame.
    pub(super) filters_frames: bool,
}

impl FrameClass {
    /// Complex points of a transform.
    pub(super) fn points(&self) -> usize {
        self.fft_len / 2
    }

    /// Units of a frame.
    pub(super) fn lanes(&self) -> usize {
        self.fft_len / SAMPLES_PER_UNIT
    }

    pub(super) fn units(&self) -> usize {
        self.frames * self.lanes()
    }

    /// Whether frames are worked on before the window.
    fn is_filtered(&self) -> bool {
        self.remove_dc || self.filters_frames
    }

    /// Whether spectra end in the second half of a frame's memory.
    fn ends_in_second(&self) -> bool {
        (num_passes(self.points()) + usize::from(self.is_filtered())) % 2 == 1
    }

    /// Shared memory of a cube, for numbers of so many bytes.
    pub(super) fn shared_bytes(&self, bytes: usize) -> usize {
        let sums = if self.remove_dc { self.units() } else { 1 };
        (4 * self.points() * self.frames + sums) * bytes + 4 * (self.points() + 1) * self.frames
    }
}

/// Sizes and constants that the kernels need.
#[derive(CubeLaunch, CubeType, Clone, Copy)]
pub(super) struct Shape {
    /// Rows before the first of this launch.
    pub(super) first_row: u32,
    /// Frames before the first of this launch.
    pub(super) first_frame: u32,
    /// Frames of the output.
    pub(super) num_frames: u32,
    /// Mel bands.
    pub(super) num_mels: u32,
    /// Samples of a window.
    pub(super) window_len: u32,
    /// Samples between two frames.
    pub(super) hop_len: u32,
    /// The sample that the first frame begins with.
    pub(super) first_sample: i32,
    pub(super) log_guard: f32,
    pub(super) log_floor: f32,
    pub(super) log_factor: f32,
}

/// Cubes: `[frames, rows]`. What `out` `[B, T, F]` holds past a row's frames becomes 0.
#[cube(launch_unchecked)]
#[allow(clippy::too_many_arguments)]
pub(super) fn log_mels<F: Float>(
    samples: &[f32],
    rows: &[u32],
    tables: &[F],
    bands: &[u32],
    weights: &[f32],
    out: &mut [f32],
    shape: Shape,
    #[comptime] class: FrameClass,
    #[define(F)] _dtype: ElemType,
) {
    let points = comptime!(class.points());
    let lanes = comptime!(class.lanes());
    let lane = UNIT_POS_X as usize % lanes;
    let which = UNIT_POS_X as usize / lanes;
    let t = shape.first_frame as usize + CUBE_POS_X as usize * class.frames + which;
    let row = shape.first_row as usize + CUBE_POS_Y as usize;
    let plan_at = row * ROW_WORDS;
    let signal = Row { start: rows[plan_at] as usize, len: i32::cast_from(rows[plan_at + 1]) };
    let is_valid = t < rows[plan_at + 2] as usize;
    let window_len = select(is_valid, shape.window_len as usize, 0usize);
    let first = i32::cast_from(t) * i32::cast_from(shape.hop_len) + shape.first_sample;
    let c = tables[0];

    let mut work = Shared::<[F]>::new_slice(comptime!(4 * points * class.frames));
    let base = which * comptime!(4 * points);
    let mut sum = F::new(0.0);
    #[unroll]
    for step in 0..SAMPLES_PER_UNIT {
        let i = lane + comptime!(step * lanes);
        let mut x = F::new(0.0);
        if i < window_len {
            x = sample::<F>(samples, &signal, first + i32::cast_from(i), c, class.reading);
            if comptime!(!class.is_filtered()) {
                x *= tables[i + WINDOW_AT];
            }
        }
        if comptime!(class.remove_dc) {
            sum += x;
        }
        work[base + (i % 2) * points + i / 2] = x;
    }
    if comptime!(class.is_filtered()) {
        let mean = mean_of_frame::<F>(sum, which, lane, shape.window_len, class);
        #[unroll]
        for step in 0..SAMPLES_PER_UNIT {
            let i = lane + comptime!(step * lanes);
            let mut x = F::new(0.0);
            if i < window_len {
                x = work[base + (i % 2) * points + i / 2] - mean;
                if comptime!(class.filters_frames) {
                    let before = max(i, 1usize) - 1;
                    x -= c * (work[base + (before % 2) * points + before / 2] - mean);
                }
                x *= tables[i + WINDOW_AT];
            }
            work[base + comptime!(2 * points) + (i % 2) * points + i / 2] = x;
        }
    }
    sync_cube();
    transform::<F>(&mut work, tables, base, lane, points, comptime!(class.is_filtered()));

    let mut powers = Shared::<[f32]>::new_slice(comptime!((points + 1) * class.frames));
    let powers_at = which * comptime!(points + 1);
    let spectrum_at = base + comptime!(if class.ends_in_second() { 2 * points } else { 0 });
    // Bins up to the middle bring those beyond it.
    #[unroll]
    for step in 0..3usize {
        let k = lane + comptime!(step * lanes);
        if k <= comptime!(points / 2) {
            store_powers::<F>(&work, tables, &mut powers, spectrum_at, powers_at, k, points);
        }
    }
    sync_cube();

    let num_mels = shape.num_mels as usize;
    let mut band = lane;
    while band < num_mels {
        let first_bin = bands[band * BAND_WORDS] as usize;
        let num_bins = bands[band * BAND_WORDS + 1] as usize;
        let weights_at = bands[band * BAND_WORDS + 2] as usize;
        let mut energy = 0.0f32;
        for i in 0..num_bins {
            energy += weights[weights_at + i] * powers[powers_at + first_bin + i];
        }
        let least = max(shape.log_floor, f32::new(f32::MIN_POSITIVE));
        let value = ln(max(energy + shape.log_guard, least)) * shape.log_factor;
        if t < shape.num_frames as usize {
            let at = (row * shape.num_frames as usize + t) * num_mels + band;
            out[at] = select(is_valid, value, 0.0f32);
        }
        band += lanes;
    }
}

/// The mean of the frame to which each lane brings a sum, in an order that depends on nothing but
/// sizes; without it, 0. It ends behind a barrier.
#[cube]
fn mean_of_frame<F: Float>(
    sum: F,
    which: usize,
    lane: usize,
    window_len: u32,
    #[comptime] class: FrameClass,
) -> F {
    let lanes = comptime!(class.lanes());
    let mut mean = F::new(0.0);
    if comptime!(class.remove_dc) {
        let mut sums = Shared::<[F]>::new_slice(comptime!(class.units()));
        let slot = which * lanes + lane;
        sums[slot] = sum;
        #[unroll]
        for level in 0..comptime!(lanes.ilog2() as usize) {
            let half = comptime!(lanes >> (level + 1));
            sync_cube();
            if lane < half {
                let other = sums[slot + half];
                sums[slot] += other;
            }
        }
        sync_cube();
        mean = sums[which * lanes] / F::cast_from(window_len);
    } else {
        sync_cube();
    }
    mean
}
