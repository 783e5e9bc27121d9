//! What happens to one frame of logits: its log-sum-exp, the logits of the target's
//! symbols gathered for the lattice, and its gradient.

use super::exponential::exp;
use super::{LANES, Target};
use multiversion::multiversion;
use std::f64::consts::LOG2_E;

/// Lanes of the sums over classes, fixed so that the order of adding is too.
const CLASS_LANES: usize = 16;

/// What a frame's softmax needs, and the blank's logit for the lattice.
#[derive(Clone, Copy, Default)]
pub(super) struct Norm {
    /// The greatest logit.
    pub(super) max: f32,
    /// `1 / sum(e^(x - max))`.
    pub(super) inverse_sum: f32,
    /// `log2 sum(e^(x - max))`; NaN when the frame has no softmax.
    pub(super) log2_sum: f64,
    /// The logit of the blank.
    pub(super) blank: f32,
}

impl Norm {
    /// `log2` of the probability of a class with logit `x`.
    #[inline(always)]
    pub(super) fn log2_prob(&self, x: f32) -> f64 {
        (f64::from(x) - f64::from(self.max)) * LOG2_E - self.log2_sum
    }
}

#[inline(always)]
fn greatest(row: &[f32]) -> f32 {
    let (chunks, rest) = row.as_chunks::<CLASS_LANES>();
    let mut max = [f32::NEG_INFINITY; CLASS_LANES];
    for chunk in chunks {
        for (m, &x) in max.iter_mut().zip(chunk) {
            *m = if x > *m { x } else { *m };
        }
    }
    max.iter().chain(rest).fold(f32::NEG_INFINITY, |m, &x| if x > m { x } else { m })
}

/// Accumulates in f64: a confident frame's sum is 1 and little more, and that little is
/// the loss.
#[inline(always)]
fn sum_of_exp(row: &[f32], max: f32) -> f64 {
    let (chunks, rest) = row.as_chunks::<CLASS_LANES>();
    let mut sum = [0.0_f64; CLASS_LANES];
    for chunk in chunks {
        for (s, &x) in sum.iter_mut().zip(chunk) {
            *s += f64::from(exp(x - max));
        }
    }
    for (s, &x) in sum.iter_mut().zip(rest) {
        *s += f64::from(exp(x - max));
    }
    sum.iter().sum()
}

/// Reads frames `[K, C]` into their norms and the logits of the target, `[K, width]`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
pub(super) fn read(logits: &[f32], target: &Target, norms: &mut [Norm], gathered: &mut [f32]) {
    let frames = logits.chunks_exact(target.num_classes);
    for ((row, norm), symbols) in frames.zip(norms).zip(gathered.chunks_exact_mut(target.width)) {
        let max = greatest(row);
        let sum = sum_of_exp(row, max);
        *norm = Norm {
            max,
            inverse_sum: (1.0 / sum) as f32,
            log2_sum: sum.log2(),
            blank: row[target.blank],
        };
        for (symbol, &label) in symbols.iter_mut().zip(target.labels) {
            *symbol = row[label as usize];
        }
        symbols[target.labels.len()..].fill(f32::NEG_INFINITY);
    }
}

/// Softmax minus occupancy: `grad` is `[C]`, `occupancy` holds the target's symbols.
#[inline(always)]
pub(super) fn write_gradient(
    grad: &mut [f32],
    logits: &[f32],
    norm: &Norm,
    target: &Target,
    blank_occupancy: f32,
    occupancy: &[[f32; LANES]],
) {
    for (g, &x) in grad.iter_mut().zip(logits) {
        *g = exp(x - norm.max) * norm.inverse_sum;
    }
    grad[target.blank] -= blank_occupancy;
    for (&label, occupied) in target.labels.iter().zip(occupancy.as_flattened()) {
        grad[label as usize] -= occupied;
    }
}
