//! Layer normalisation on a CPU: one pass over the rows each way, parallel and vectorised.

use multiversion::multiversion;
use rayon::prelude::*;

/// Rows of a task. Sums over rows go task by task, so results do not depend on the threads.
const ROWS: usize = 64;

/// `[N, D]` to `[N, D]`.
pub fn forward(x: &[f32], gamma: &[f32], beta: &[f32], epsilon: f32) -> Vec<f32> {
    let task = (ROWS * gamma.len()).max(1);
    let mut y = vec![0.0_f32; x.len()];
    y.par_chunks_mut(task)
        .zip(x.par_chunks(task))
        .for_each(|(y, x)| forward_rows(y, x, gamma, beta, epsilon));
    y
}

/// The gradients with respect to `x` `[N, D]`, `gamma` and `beta` `[D]`, given `dy` `[N, D]`.
pub fn backward(
    dy: &[f32],
    x: &[f32],
    gamma: &[f32],
    epsilon: f32,
) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let d = gamma.len();
    let task = (ROWS * d).max(1);
    let mut dx = vec![0.0_f32; x.len()];
    let sums: Vec<(Vec<f32>, Vec<f32>)> = dx
        .par_chunks_mut(task)
        .zip(x.par_chunks(task).zip(dy.par_chunks(task)))
        .map(|(dx, (x, dy))| {
            let mut sums = (vec![0.0_f32; d], vec![0.0_f32; d]);
            backward_rows(dx, x, dy, gamma, epsilon, &mut sums.0, &mut sums.1);
            sums
        })
        .collect();
    let (mut d_gamma, mut d_beta) = (vec![0.0_f32; d], vec![0.0_f32; d]);
    for (of_gamma, of_beta) in sums {
        d_gamma.iter_mut().zip(of_gamma).for_each(|(sum, part)| *sum += part);
        d_beta.iter_mut().zip(of_beta).for_each(|(sum, part)| *sum += part);
    }
    (dx, d_gamma, d_beta)
}

#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn forward_rows(y: &mut [f32], x: &[f32], gamma: &[f32], beta: &[f32], epsilon: f32) {
    let d = gamma.len();
    for (y, x) in y.chunks_exact_mut(d).zip(x.chunks_exact(d)) {
        let (mean, inverse_std) = statistics(x, epsilon);
        for ((y, x), (gamma, beta)) in y.iter_mut().zip(x).zip(gamma.iter().zip(beta)) {
            *y = (x - mean) * inverse_std * gamma + beta;
        }
    }
}

#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn backward_rows(
    dx: &mut [f32],
    x: &[f32],
    dy: &[f32],
    gamma: &[f32],
    epsilon: f32,
    d_gamma: &mut [f32],
    d_beta: &mut [f32],
) {
    let d = gamma.len();
    let rows = dx.chunks_exact_mut(d).zip(x.chunks_exact(d).zip(dy.chunks_exact(d)));
    for (dx, (x, dy)) in rows {
        let (mean, inverse_std) = statistics(x, epsilon);
        // First the normalised values, for two uses.
        for (normal, x) in dx.iter_mut().zip(x) {
            *normal = (x - mean) * inverse_std;
        }
        for ((d_gamma, d_beta), (dy, normal)) in
            d_gamma.iter_mut().zip(d_beta.iter_mut()).zip(dy.iter().zip(dx.iter()))
        {
            *d_gamma += dy * normal;
            *d_beta += dy;
        }
        let slope = |(dy, gamma): (&f32, &f32)| dy * gamma;
        let sum = lane_sum(d, |i| slope((&dy[i], &gamma[i]))) / d as f32;
        let along = lane_sum(d, |i| slope((&dy[i], &gamma[i])) * dx[i]) / d as f32;
        for (dx, (dy, gamma)) in dx.iter_mut().zip(dy.iter().zip(gamma)) {
            *dx = inverse_std * (dy * gamma - sum - *dx * along);
        }
    }
}

/// Mean and `1 / sqrt(variance + epsilon)`, the variance from the differences: two passes over
/// a row that is in the first-level cache cost less than the digits the short formula loses.
#[inline(always)]
fn statistics(x: &[f32], epsilon: f32) -> (f32, f32) {
    let mean = lane_sum(x.len(), |i| x[i]) / x.len() as f32;
    let variance = lane_sum(x.len(), |i| (x[i] - mean) * (x[i] - mean)) / x.len() as f32;
    (mean, (variance + epsilon).sqrt().recip())
}

/// A sum in 16 lanes, which the compiler keeps in vector registers.
#[inline(always)]
fn lane_sum(len: usize, value: impl Fn(usize) -> f32) -> f32 {
    const LANES: usize = 16;
    let mut lanes = [0.0_f32; LANES];
    let whole = len / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += value(start + lane);
        }
    }
    (whole..len).fold(lanes.iter().sum(), |sum, i| sum + value(i))
}
