//! CTC on a CPU: vectorised over states and classes, parallel over utterances and, when
//! those are fewer than the threads, over frames and directions within one.
//!
//! The same bits for any number of threads and any instruction set. A NaN among a row's
//! logits makes its loss and the gradient of its valid frames NaN, and touches no other row.

pub mod exponential;
mod frame;
mod sweep;

use crate::Problem;
use crate::lattice::live_states;
use frame::Norm;
use multiversion::multiversion;
use rayon::prelude::*;
use std::ops::Range;
use sweep::{Cell, Lattice, Scaled, Utterance};

/// Pairs of states in a block: one 512-bit vector of f64, or two of 256 bits.
const LANES: usize = 8;

/// Logits in a task, so that a task outweighs its scheduling.
const TASK_LOGITS: usize = 1 << 14;

/// One row's target, laid out for the sweeps.
struct Target<'a> {
    labels: &'a [u32],
    blank: usize,
    num_classes: usize,
    /// Pairs of states, `S + 1`, rounded up to blocks.
    width: usize,
    /// By pair: 0 where label `j` may follow label `j - 1` at once, `-inf` elsewhere.
    skip: Vec<f64>,
}

impl<'a> Target<'a> {
    fn new(problem: &'a Problem, row: usize) -> Self {
        let labels = problem.labels(row);
        let width = (labels.len() + 1).next_multiple_of(LANES);
        let mut skip = vec![f64::NEG_INFINITY; width + LANES];
        for (j, pair) in labels.windows(2).enumerate() {
            if pair[0] != pair[1] {
                skip[j + 1] = 0.0;
            }
        }
        let (blank, num_classes) = (problem.blank() as usize, problem.num_classes());
        Self { labels, blank, num_classes, width, skip }
    }

    /// By frame, the blocks that hold live states.
    fn live_blocks(&self, num_frames: usize) -> Vec<Range<usize>> {
        live_states(self.labels, num_frames)
            .into_iter()
            .map(|live| live.start / 2 / LANES..live.end.div_ceil(2).div_ceil(LANES))
            .collect()
    }
}

/// `-ln p(labels | logits)` of each row, in nats: `+inf` for an infeasible one.
///
/// # Shapes
/// `logits`: `[B, T, C]`, row-major. Result: `[B]`.
///
/// # Panics
/// When `logits` are not of the problem's size.
pub fn nll(logits: &[f32], problem: &Problem) -> Vec<f32> {
    assert_eq!(logits.len(), problem.num_logits(), "logits must be [B, T, C] of the problem");
    let stride = problem.num_frames() * problem.num_classes();
    (0..problem.batch_size())
        .into_par_iter()
        .map(|row| one_utterance(&logits[row * stride..][..stride], None, problem, row))
        .collect()
}

/// As [`nll`], and the gradient of each row's loss with respect to the logits.
/// Exactly 0 in padding and for infeasible rows.
///
/// # Shapes
/// `logits`: `[B, T, C]`, row-major. Results: `[B]` and `[B, T, C]`.
///
/// # Panics
/// When `logits` are not of the problem's size.
pub fn nll_and_grad(logits: &[f32], problem: &Problem) -> (Vec<f32>, Vec<f32>) {
    assert_eq!(logits.len(), problem.num_logits(), "logits must be [B, T, C] of the problem");
    let mut grad = vec![0.0; logits.len()];
    let stride = problem.num_frames() * problem.num_classes();
    if stride == 0 {
        return (nll(logits, problem), grad);
    }
    let losses = grad
        .par_chunks_mut(stride)
        .enumerate()
        .map(|(row, grad)| {
            one_utterance(&logits[row * stride..][..stride], Some(grad), problem, row)
        })
        .collect();
    (losses, grad)
}

/// `logits` and `grad` are one row's, padding included; `grad` arrives as zeros.
fn one_utterance(logits: &[f32], grad: Option<&mut [f32]>, problem: &Problem, row: usize) -> f32 {
    if !problem.is_feasible(row) {
        return f32::INFINITY;
    }
    let num_frames = problem.frame_lens()[row];
    if num_frames == 0 {
        return 0.0;
    }
    let target = Target::new(problem, row);
    let classes = target.num_classes;
    let logits = &logits[..num_frames * classes];
    let task_frames = TASK_LOGITS.div_ceil(classes);

    let mut norms = vec![Norm::default(); num_frames];
    let mut gathered = vec![0.0; num_frames * target.width];
    logits
        .par_chunks(task_frames * classes)
        .zip(norms.par_chunks_mut(task_frames))
        .zip(gathered.par_chunks_mut(task_frames * target.width))
        .for_each(|((logits, norms), gathered)| frame::read(logits, &target, norms, gathered));

    let grad = grad.map(|grad| &mut grad[..num_frames * classes]);
    if norms.iter().any(|norm| norm.log2_sum.is_nan()) {
        if let Some(grad) = grad {
            grad.fill(f32::NAN);
        }
        return f32::NAN;
    }

    let live = target.live_blocks(num_frames);
    let utterance = Utterance { target: &target, norms: &norms, gathered: &gathered, live: &live };
    let Some(grad) = grad else {
        return sweep::forward(&utterance, &mut Lattice::default()).nll() as f32;
    };
    let cells = num_frames * target.width / LANES;
    let mut alpha = Lattice { cells: vec![Cell::default(); cells] };
    let mut beta = Lattice { cells: vec![Cell::default(); cells] };
    let (total, ()) = rayon::join(
        || sweep::forward(&utterance, &mut alpha),
        || sweep::backward(&utterance, &mut beta),
    );
    if !total.is_zero() {
        grad.par_chunks_mut(task_frames * classes).enumerate().for_each(|(task, grad)| {
            gradient(grad, logits, task * task_frames, &utterance, &alpha, &beta, total);
        });
    }
    total.nll() as f32
}

/// The gradient of the frames from `first` on that `grad` has room for.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn gradient(
    grad: &mut [f32],
    logits: &[f32],
    first: usize,
    utterance: &Utterance,
    alpha: &Lattice,
    beta: &Lattice,
    total: Scaled,
) {
    let Utterance { target, norms, live, .. } = *utterance;
    let (classes, blocks) = (target.num_classes, target.width / LANES);
    let (inverse_m, total_e) = total.inverse();
    let mut labels = vec![[0.0; LANES]; blocks];
    for (i, grad) in grad.chunks_exact_mut(classes).enumerate() {
        let t = first + i;
        let mut blanks = [0.0; LANES];
        labels.fill([0.0; LANES]);
        for block in live[t].clone() {
            let cell = t * blocks + block;
            let (alpha, beta) = (&alpha.cells[cell], &beta.cells[cell]);
            sweep::occupancy(alpha, beta, inverse_m, total_e, &mut blanks, &mut labels[block]);
        }
        let frame = &logits[t * classes..][..classes];
        frame::write_gradient(grad, frame, &norms[t], target, blanks.iter().sum(), &labels);
    }
}
