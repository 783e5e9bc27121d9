//! Checks, allocates and launches. Batches whose lattice outgrows one allocation go through
//! in groups of rows; nothing else about them changes.

use super::capacity::{Capacity, Path};
use super::frames::{
    CUBE_FRAMES, FRAME_UNITS, NORM_WORDS, SUMMARY_WORDS, SizesLaunch, read_frames, write_gradient,
};
use super::plan::{pack, row_words as plan_row_words};
use super::sweep::{RECENT_FRAMES, row_words, sweep_global, sweep_shared};
use crate::Problem;
use cubecl::prelude::*;
use cubecl::server::Handle;

/// The greatest index that the kernels' 32-bit addresses reach.
const MAX_WORDS: usize = u32::MAX as usize;

/// Units of a sweep's cube.
const SWEEP_UNITS: u32 = 256;

/// Exponents of a path's probability stay within this.
const EXPONENT_RANGE: usize = 1 << 29;

/// Why a batch was not launched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CtcError {
    /// The logits are not the problem's.
    #[error(
        "logits of {want} f32 (batch x frames x classes) were promised but the buffer holds {got} bytes"
    )]
    LogitsSize {
        /// Elements of the problem's logits.
        want: usize,
        /// Bytes of the buffer.
        got: u64,
    },
    /// A tensor beyond the kernels' reach.
    #[error(
        "{what} needs {words} 32-bit words and this device takes {limit} at once: \
         use shorter utterances or a smaller batch"
    )]
    TooLarge {
        /// Which tensor.
        what: &'static str,
        /// Its words.
        words: usize,
        /// The most that one may have.
        limit: usize,
    },
    /// A frame whose classes or labels outgrow a loop.
    #[error(
        "{classes} classes and {labels} labels need more than the {limit} loop iterations \
         that one launch may make on this device"
    )]
    FrameTooWide {
        /// Classes of the logits.
        classes: usize,
        /// The longest target.
        labels: usize,
        /// Iterations of one unit.
        limit: usize,
    },
    /// More rows or frames than the device can be asked for at once.
    #[error(
        "a batch of {rows} rows x {frames} frames is beyond the {limit:?} cubes this device launches at once"
    )]
    TooManyCubes {
        /// Rows of the batch.
        rows: usize,
        /// Frames of the logits.
        frames: usize,
        /// Cubes along x and y.
        limit: (u32, u32),
    },
}

/// Buffers that a launch fills.
#[derive(Debug)]
pub struct Outputs {
    /// `-ln p(labels | logits)` by row, f32 `[B]`; `+inf` for a row that cannot be spelt.
    pub nll: Handle,
    /// Its gradient with respect to the logits, f32 `[B, T, C]`, if wanted.
    pub grad: Option<Handle>,
}

/// Buffers between the passes, for one group of rows.
struct Scratch {
    symbols: Handle,
    norms: Handle,
    alpha: Handle,
    beta: Handle,
    summary: Handle,
    rows: Handle,
}

/// Words of each buffer between the passes, for so many rows.
#[derive(Clone, Copy)]
struct ScratchWords {
    symbols: usize,
    norms: usize,
    lattice: usize,
    summary: usize,
    rows: usize,
}

impl ScratchWords {
    fn of(problem: &Problem, num_rows: usize, want_grad: bool, path: Path) -> Self {
        let frames = num_rows * problem.num_frames();
        let pairs = problem.max_label_len() + 1;
        let directions = 1 + usize::from(want_grad);
        Self {
            symbols: frames * pairs * 2,
            norms: frames * NORM_WORDS,
            // A buffer has an element, used or not.
            lattice: if want_grad { frames * pairs * 4 } else { 1 },
            summary: num_rows * SUMMARY_WORDS,
            rows: match path {
                Path::Shared { .. } => 1,
                Path::Global => directions * num_rows * row_words(pairs + 1),
            },
        }
    }

    fn greatest(&self) -> usize {
        self.symbols.max(self.norms).max(self.lattice).max(self.rows)
    }
}

/// A `[u32]` or `[f32]` argument.
fn words(handle: &Handle, len: usize) -> BufferArg {
    // SAFETY: every caller passes the length that the buffer was allocated with, in words.
    unsafe { BufferArg::from_raw_parts(handle.clone(), len) }
}

/// Loss, and gradient if wanted, of contiguous f32 `logits` `[B, T, C]`. Queues the work and
/// returns; what the device later reports surfaces where the results are read.
///
/// A logit that is NaN or `+inf`, or a frame of nothing but `-inf`, makes its row's loss and
/// the gradient of its valid frames NaN. A symbol less likely in a frame than
/// `2^(-2^29 / T)`, such as a masked one, counts as impossible there.
///
/// # Errors
/// When the buffer is not of the problem's size, or sizes exceed what the device takes.
pub fn ctc(
    client: &Client,
    logits: &Handle,
    problem: &Problem,
    want_grad: bool,
    capacity: &Capacity,
) -> Result<Outputs, CtcError> {
    let (batch_size, num_frames) = (problem.batch_size(), problem.num_frames());
    let num_logits = problem.num_logits();
    if logits.size_in_used() < (num_logits * size_of::<f32>()) as u64 {
        return Err(CtcError::LogitsSize { want: num_logits, got: logits.size_in_used() });
    }
    if num_logits == 0 {
        let losses: Vec<f32> =
            (0..batch_size.max(1))
                .map(|row| {
                    if row >= batch_size || problem.is_feasible(row) { 0.0 } else { f32::INFINITY }
                })
                .collect();
        let nll = client.create_from_slice(f32::as_bytes(&losses));
        return Ok(Outputs { nll, grad: want_grad.then(|| client.empty(size_of::<f32>())) });
    }

    let limit = MAX_WORDS.min((capacity.max_buffer_bytes / 4) as usize);
    let segment = segment_frames(problem, capacity)?;
    // Only rows in global memory outlive a launch.
    let path = match capacity.path_for(problem.max_label_len()) {
        Path::Shared { .. } if segment < num_frames => Path::Global,
        path => path,
    };
    let plan_words = batch_size * plan_row_words(problem.max_label_len());
    for (what, words) in [
        ("the logits' gradient", num_logits),
        ("the targets", plan_words),
        ("one row's lattice", ScratchWords::of(problem, 1, want_grad, path).greatest()),
    ] {
        if words > limit {
            return Err(CtcError::TooLarge { what, words, limit });
        }
    }
    let frame_cubes = num_frames.div_ceil(CUBE_FRAMES);
    if frame_cubes > capacity.max_cubes.0 as usize {
        let limit = capacity.max_cubes;
        return Err(CtcError::TooManyCubes { rows: batch_size, frames: num_frames, limit });
    }
    let group = (1..=batch_size.min(capacity.max_cubes.1 as usize))
        .rev()
        .find(|&rows| ScratchWords::of(problem, rows, want_grad, path).greatest() <= limit)
        .unwrap_or(1);

    let plan = client.create_from_slice(u32::as_bytes(&pack(problem)));
    let nll = client.empty(batch_size * size_of::<f32>());
    let grad = want_grad.then(|| client.empty(num_logits * size_of::<f32>()));
    let sizes = ScratchWords::of(problem, group, want_grad, path);
    let scratch = Scratch {
        symbols: client.empty(4 * sizes.symbols),
        norms: client.empty(4 * sizes.norms),
        alpha: client.empty(4 * sizes.lattice),
        beta: client.empty(4 * sizes.lattice),
        summary: client.empty(4 * sizes.summary),
        rows: client.empty(4 * sizes.rows),
    };
    let batch = Batch {
        client,
        problem,
        path,
        segment,
        capacity,
        logits,
        plan,
        plan_words,
        nll,
        grad,
        scratch,
        sizes,
    };
    for first_row in (0..batch_size).step_by(group) {
        batch.launch(first_row, group.min(batch_size - first_row));
    }
    Ok(Outputs { nll: batch.nll, grad: batch.grad })
}

/// Frames that one launch of the sweep may take, so that no loop outgrows the device.
fn segment_frames(problem: &Problem, capacity: &Capacity) -> Result<usize, CtcError> {
    let (labels, limit) = (problem.max_label_len(), capacity.max_iterations);
    // Three loops over a frame's classes and two over its states in each frame pass.
    let of_frame = 3 * problem.num_classes().div_ceil(FRAME_UNITS) + 2 * labels + 16;
    let of_step = labels.div_ceil(capacity.max_units.min(SWEEP_UNITS) as usize) + 3;
    let segment = limit / of_step;
    if of_frame > limit || segment < RECENT_FRAMES {
        let (classes, labels) = (problem.num_classes(), labels);
        return Err(CtcError::FrameTooWide { classes, labels, limit });
    }
    Ok(if segment >= problem.num_frames() {
        problem.num_frames()
    } else {
        segment / RECENT_FRAMES * RECENT_FRAMES
    })
}

/// Everything a group of rows is launched with.
struct Batch<'a> {
    client: &'a Client,
    problem: &'a Problem,
    path: Path,
    segment: usize,
    capacity: &'a Capacity,
    logits: &'a Handle,
    plan: Handle,
    plan_words: usize,
    nll: Handle,
    grad: Option<Handle>,
    scratch: Scratch,
    sizes: ScratchWords,
}

impl Batch<'_> {
    fn launch(&self, first_row: usize, num_rows: usize) {
        let (problem, scratch, sizes) = (self.problem, &self.scratch, &self.sizes);
        let num_logits = problem.num_logits();
        let (num_frames, segment) = (problem.num_frames(), self.segment);
        let kernel_sizes = |first_step: usize| {
            SizesLaunch::new(
                problem.num_frames() as u32,
                problem.num_classes() as u32,
                problem.max_label_len() as u32,
                problem.blank(),
                first_row as u32,
                num_rows as u32,
                first_step as u32,
                segment as u32,
                -((EXPONENT_RANGE / problem.num_frames()) as i32),
            )
        };
        let logits = || words(self.logits, num_logits);
        let plan = || words(&self.plan, self.plan_words);
        let norms = || words(&scratch.norms, sizes.norms);
        let symbols = || words(&scratch.symbols, sizes.symbols);
        let alpha = || words(&scratch.alpha, sizes.lattice);
        let beta = || words(&scratch.beta, sizes.lattice);
        let summary = || words(&scratch.summary, sizes.summary);
        let nll = || words(&self.nll, problem.batch_size());
        let frame_cubes = problem.num_frames().div_ceil(CUBE_FRAMES) as u32;
        let frame_count = || CubeCount::Static(frame_cubes, num_rows as u32, 1);
        let frame_dim = CubeDim::new_2d(FRAME_UNITS as u32, CUBE_FRAMES as u32);

        let client = self.client;
        read_frames::launch(
            client,
            frame_count(),
            frame_dim,
            logits(),
            plan(),
            symbols(),
            norms(),
            kernel_sizes(0),
        );
        let keep = self.grad.is_some();
        let directions = 1 + u32::from(keep);
        let count = || CubeCount::Static(num_rows as u32, directions, 1);
        let most_units = SWEEP_UNITS.min(self.capacity.max_units);
        match self.path {
            Path::Shared { slots } => sweep_shared::launch(
                client,
                count(),
                CubeDim::new_1d(most_units.min(slots as u32)),
                plan(),
                symbols(),
                norms(),
                alpha(),
                beta(),
                summary(),
                nll(),
                kernel_sizes(0),
                slots,
                keep,
            ),
            Path::Global => {
                for first_step in (0..num_frames).step_by(segment) {
                    sweep_global::launch(
                        client,
                        count(),
                        CubeDim::new_1d(most_units),
                        plan(),
                        symbols(),
                        norms(),
                        alpha(),
                        beta(),
                        summary(),
                        nll(),
                        words(&scratch.rows, sizes.rows),
                        kernel_sizes(first_step),
                        keep,
                    );
                }
            }
        }
        if let Some(grad) = &self.grad {
            write_gradient::launch(
                client,
                frame_count(),
                frame_dim,
                logits(),
                plan(),
                norms(),
                alpha(),
                beta(),
                summary(),
                words(grad, num_logits),
                kernel_sizes(0),
            );
        }
    }
}
