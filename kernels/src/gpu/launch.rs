//! Checks, allocates and launches. Batches whose lattice outgrows one allocation go through
//! in groups of rows; nothing else about them changes.

use super::capacity::{Capacity, Class, LongTargets};
use super::error::CtcError;
use super::frames::{FrameClass, read_frames};
use super::gradient::{TILE, write_gradient};
use super::layout::{NORM_WORDS, ScratchWords, SizesLaunch, max_blocks};
use super::logits::LogitsType;
use super::plan::{pack, pack_runs, row_words as plan_row_words, runs_row_words};
use super::scaled::EXPONENT_RANGE;
use super::sweep::{SpanLaunch, Work, sweep};
use super::total::total;
use crate::Problem;
use cubecl::prelude::*;
use cubecl::server::Handle;
use std::cell::OnceCell;

/// The greatest index that the kernels' 32-bit addresses reach.
const MAX_WORDS: usize = u32::MAX as usize;

/// Units of the cube that sums a row's total.
const TOTAL_UNITS: usize = 256;

/// Frames from which the sweeps are set going before the host packs what the gradient needs: a client
/// keeps work in a queue until that fills, and setting it going waits some 50 us for its thread.
const WORTH_A_FLUSH: usize = 400;

/// What to make besides the losses.
#[derive(Clone, Copy, Debug)]
pub enum Gradient<'a> {
    /// Nothing.
    None,
    /// The losses' gradient.
    Plain,
    /// The losses' gradient, each row times its factor, of f32 `[B]`: what comes from upstream,
    /// where it is known by now.
    Times(&'a Handle),
}

/// Buffers that a launch fills.
#[derive(Debug)]
pub struct Outputs {
    /// `-ln p(labels | logits)` by row, f32 `[B]`; `+inf` for a row that cannot be spelt.
    pub nll: Handle,
    /// Its gradient with respect to the logits, `[B, T, C]` of their type, if wanted.
    pub grad: Option<Handle>,
}

/// A buffer of so many elements.
fn buffer(handle: &Handle, len: usize) -> BufferArg {
    // SAFETY: every caller passes the length that the buffer was allocated with.
    unsafe { BufferArg::from_raw_parts(handle.clone(), len) }
}

/// Loss, and gradient if wanted, of contiguous `logits` `[B, T, C]`. Queues the work and
/// returns; what the device later reports surfaces where the results are read.
///
/// A logit that is NaN or `+inf`, or a frame of nothing but `-inf`, makes its row's loss and
/// the gradient of its valid frames NaN. A symbol less likely in a frame than
/// `2^(-2^27 / T)`, such as a masked one, counts as impossible there.
///
/// # Errors
/// When the buffer is not of the problem's size, sizes exceed what the device takes, the device
/// has no such type, or a target is longer than the policy allows.
pub fn ctc(
    client: &Client,
    logits: &Handle,
    dtype: LogitsType,
    problem: &Problem,
    gradient: Gradient<'_>,
    capacity: &Capacity,
) -> Result<Outputs, CtcError> {
    let (batch_size, num_frames) = (problem.batch_size(), problem.num_frames());
    let num_logits = problem.num_logits();
    let wants_grad = !matches!(gradient, Gradient::None);
    let want = num_logits * dtype.bytes();
    if logits.size_in_used() < want as u64 {
        return Err(CtcError::LogitsSize { want, got: logits.size_in_used() });
    }
    check(client, dtype, problem, wants_grad, capacity)?;
    if num_logits == 0 {
        let losses: Vec<f32> =
            (0..batch_size.max(1))
                .map(|row| {
                    if row >= batch_size || problem.is_feasible(row) { 0.0 } else { f32::INFINITY }
                })
                .collect();
        let nll = client.create_from_slice(f32::as_bytes(&losses));
        return Ok(Outputs { nll, grad: wants_grad.then(|| client.empty(size_of::<f32>())) });
    }

    let class = capacity.class_for(problem.max_label_len());
    let limit = max_words(capacity);
    let group = (1..=batch_size.min(capacity.max_cubes.1 as usize))
        .rev()
        .find(|&rows| ScratchWords::of(problem, rows, wants_grad, class).greatest() <= limit)
        .unwrap_or(1);

    let sizes = ScratchWords::of(problem, group, wants_grad, class);
    let empty = |words: usize| client.empty(4 * words);
    let batch = Batch {
        client,
        dtype,
        problem,
        class,
        frames: FrameClass::of(capacity.lanes, capacity.max_units as usize),
        segment: segment_blocks(class, capacity),
        total_units: TOTAL_UNITS.min(1 << capacity.max_units.ilog2()),
        width: vector_width(dtype, problem.num_classes()),
        logits,
        gradient,
        plan: client.create_from_slice(u32::as_bytes(&pack(problem))),
        runs: OnceCell::new(),
        nll: empty(batch_size),
        grad: wants_grad.then(|| client.empty((num_logits * dtype.bytes()).next_multiple_of(4))),
        symbols: empty(sizes.symbols),
        norms: empty(sizes.norms),
        lattice: empty(sizes.lattice),
        biases: empty(sizes.biases),
        states: empty(sizes.states),
        columns: empty(sizes.columns),
        summary: empty(sizes.summary),
        sizes,
    };
    for first_row in (0..batch_size).step_by(group) {
        batch.launch(first_row, group.min(batch_size - first_row), num_frames);
    }
    Ok(Outputs { nll: batch.nll, grad: batch.grad })
}

/// Words of the largest buffer that kernels can address and the device allocates.
fn max_words(capacity: &Capacity) -> usize {
    MAX_WORDS.min((capacity.max_buffer_bytes / 4) as usize)
}

/// Whether [`ctc`] would take a batch. Nothing is allocated or launched, so that a training
/// may ask at its start for the largest batches to come.
///
/// # Errors
/// Those of [`ctc`], but for logits of another size.
pub fn check(
    client: &Client,
    dtype: LogitsType,
    problem: &Problem,
    wants_grad: bool,
    capacity: &Capacity,
) -> Result<(), CtcError> {
    if !dtype.is_supported(client) {
        return Err(CtcError::UnsupportedType { dtype });
    }
    if problem.num_logits() == 0 {
        return Ok(());
    }
    let class = capacity.class_for(problem.max_label_len());
    let limit = max_words(capacity);
    let (rows, frames, classes) =
        (problem.batch_size(), problem.num_frames(), problem.num_classes());
    let labels = problem.max_label_len();
    let is_too_long = labels > capacity.max_shared_labels;
    if is_too_long && capacity.long_targets == LongTargets::Error {
        let row = (0..rows).find(|&row| problem.label_lens()[row] == labels).unwrap_or(0);
        let capacity = capacity.max_shared_labels;
        return Err(CtcError::LongTarget { row, labels, capacity });
    }
    // Kernels count logits, whatever their size, in 32 bits.
    let logits_words = (problem.num_logits() * dtype.bytes()).div_ceil(4);
    for (what, words, limit) in [
        ("the logits' gradient", logits_words, limit),
        ("the logits' gradient", problem.num_logits(), MAX_WORDS),
        ("the targets", rows * runs_row_words(labels), limit),
        ("one row's lattice", ScratchWords::of(problem, 1, wants_grad, class).greatest(), limit),
    ] {
        if words > limit {
            return Err(CtcError::TooLarge { what, words, limit });
        }
    }
    let frame_class = FrameClass::of(capacity.lanes, capacity.max_units as usize);
    if frames.div_ceil(frame_class.frames) > capacity.max_cubes.0 as usize
        || rows > capacity.max_cubes.0 as usize
    {
        let limit = capacity.max_cubes;
        return Err(CtcError::TooManyCubes { rows, frames, limit });
    }
    // One loop over a frame's classes, three over a tile's, and those over labels.
    let group = frame_class.group;
    let tiles = classes.div_ceil(TILE);
    let of_frame = 3 * classes.div_ceil(group)
        + tiles * (labels.div_ceil(group) + 4)
        + labels
        + 2 * labels.div_ceil(group)
        + 16;
    let of_total = (frames + labels).div_ceil(TOTAL_UNITS.min(capacity.max_units as usize)) + 16;
    let limit = capacity.max_iterations;
    if of_frame.max(of_total).max(block_iterations(class)) > limit {
        return Err(CtcError::FrameTooWide { classes, labels, limit });
    }
    Ok(())
}

/// Loop iterations of one block of a sweep.
fn block_iterations(class: Class) -> usize {
    class.block / (2 * class.ahead)
        + 4 * class.ahead
        + 2
        + if class.in_strips() { class.block } else { 0 }
}

/// Blocks that one launch of the sweep may take, so that no loop outgrows the device.
fn segment_blocks(class: Class, capacity: &Capacity) -> usize {
    (capacity.max_iterations / block_iterations(class)).max(1)
}

/// Logits that fit 16 bytes and divide a frame.
fn vector_width(dtype: LogitsType, num_classes: usize) -> usize {
    let mut width = 16 / dtype.bytes();
    while !num_classes.is_multiple_of(width) {
        width /= 2;
    }
    width
}

/// Everything a group of rows is launched with.
struct Batch<'a> {
    client: &'a Client,
    dtype: LogitsType,
    problem: &'a Problem,
    class: Class,
    frames: FrameClass,
    segment: usize,
    total_units: usize,
    width: usize,
    logits: &'a Handle,
    gradient: Gradient<'a>,
    plan: Handle,
    runs: OnceCell<Handle>,
    nll: Handle,
    grad: Option<Handle>,
    symbols: Handle,
    norms: Handle,
    lattice: Handle,
    biases: Handle,
    states: Handle,
    columns: Handle,
    summary: Handle,
    sizes: ScratchWords,
}

impl Batch<'_> {
    fn launch(&self, first_row: usize, num_rows: usize, num_frames: usize) {
        let kernel_sizes = || {
            SizesLaunch::new(
                num_frames as u32,
                self.problem.num_classes() as u32,
                self.problem.max_label_len() as u32,
                self.problem.blank(),
                first_row as u32,
                num_rows as u32,
                -((EXPONENT_RANGE / num_frames) as i32),
            )
        };
        let frame_count =
            CubeCount::Static(num_frames.div_ceil(self.frames.frames) as u32, num_rows as u32, 1);
        let frame_dim = CubeDim::new_1d((self.frames.group * self.frames.frames) as u32);
        let num_vectors = self.problem.num_logits() / self.width;
        // SAFETY: for this and the launches below, every index that a kernel forms is within the
        // buffers that `ScratchWords` and the checks of `ctc` sized, by `layout`'s shapes.
        unsafe {
            read_frames::launch_unchecked(
                self.client,
                frame_count.clone(),
                frame_dim,
                self.width,
                buffer(self.logits, num_vectors),
                self.plan(),
                buffer(&self.symbols, self.sizes.symbols / 2),
                buffer(&self.norms, self.sizes.norms / NORM_WORDS),
                buffer(&self.columns, self.sizes.columns),
                kernel_sizes(),
                self.num_strips() as u32,
                self.frames,
                self.class.in_waves(),
                self.dtype.elem(),
            );
        }
        let to_middle = if self.grad.is_some() { Work::Keep } else { Work::Pass };
        self.sweep(num_rows, to_middle, &kernel_sizes);
        unsafe {
            total::launch_unchecked(
                self.client,
                CubeCount::Static(num_rows as u32, 1, 1),
                CubeDim::new_1d(self.total_units as u32),
                self.plan(),
                buffer(&self.norms, self.sizes.norms / NORM_WORDS),
                buffer(&self.states, self.sizes.states),
                buffer(&self.summary, self.sizes.summary),
                buffer(&self.nll, self.problem.batch_size()),
                kernel_sizes(),
                self.total_units,
            );
        }
        let Some(grad) = &self.grad else { return };
        self.sweep(num_rows, Work::Meet, &kernel_sizes);
        let (factors, is_scaled) = match self.gradient {
            Gradient::Times(factors) => (factors, true),
            // Any buffer will do for an argument that is not read.
            Gradient::None | Gradient::Plain => (&self.norms, false),
        };
        unsafe {
            write_gradient::launch_unchecked(
                self.client,
                frame_count,
                frame_dim,
                self.width,
                buffer(self.logits, num_vectors),
                self.runs(),
                buffer(&self.norms, self.sizes.norms / NORM_WORDS),
                buffer(&self.lattice, self.sizes.lattice),
                buffer(&self.summary, self.sizes.summary),
                buffer(factors, if is_scaled { self.problem.batch_size() } else { 1 }),
                buffer(grad, num_vectors),
                kernel_sizes(),
                self.frames,
                is_scaled,
                self.dtype == LogitsType::Bf16,
                self.dtype.elem(),
            );
        }
    }

    fn plan(&self) -> BufferArg {
        let words = self.problem.batch_size() * plan_row_words(self.problem.max_label_len());
        buffer(&self.plan, words)
    }

    /// Asked for when the sweeps are queued, so that the device has work while the host sorts.
    fn runs(&self) -> BufferArg {
        let packed = || {
            if self.problem.num_frames() >= WORTH_A_FLUSH {
                // An error stays with the buffers and surfaces where they are read.
                let _ = self.client.flush();
            }
            self.client.create_from_slice(u32::as_bytes(&pack_runs(self.problem)))
        };
        let rows = self.problem.batch_size();
        buffer(self.runs.get_or_init(packed), rows * runs_row_words(self.problem.max_label_len()))
    }

    fn num_strips(&self) -> usize {
        (self.problem.max_label_len() + 1).div_ceil(self.class.pairs())
    }

    /// Sweeps all strips: side by side, or each through all its blocks, so that it finds its left border whole.
    fn sweep(&self, num_rows: usize, work: Work, sizes: &impl Fn() -> SizesLaunch) {
        let strips = self.num_strips();
        let at_once = if self.class.in_waves() { strips } else { 1 };
        let blocks = max_blocks(self.problem, self.class);
        for first_strip in (0..strips).step_by(at_once) {
            for first_block in (0..blocks).step_by(self.segment) {
                unsafe {
                    sweep::launch_unchecked(
                        self.client,
                        CubeCount::Static(num_rows as u32, 2, at_once as u32),
                        CubeDim::new_1d(self.class.units() as u32),
                        self.plan(),
                        buffer(&self.symbols, self.sizes.symbols / 2),
                        buffer(&self.summary, self.sizes.summary),
                        buffer(&self.lattice, self.sizes.lattice),
                        buffer(&self.biases, self.sizes.biases),
                        buffer(&self.states, self.sizes.states),
                        buffer(&self.columns, self.sizes.columns),
                        sizes(),
                        SpanLaunch::new(
                            first_strip as u32,
                            first_block as u32,
                            self.segment.min(blocks) as u32,
                            blocks as u32,
                        ),
                        self.class,
                        work,
                    );
                }
            }
        }
    }
}
