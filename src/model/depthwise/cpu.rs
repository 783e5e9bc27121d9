//! The depth-wise convolution on a CPU: plain loops over contiguous channels.
//!
//! Channels are the innermost axis, so every inner loop is a multiply-add over slices that the
//! compiler vectorises. Work is split over output rows (forward), input rows (gradient of the
//! input) and utterances (gradient of the taps, whose partial sums are added in order), so the
//! result does not depend on the number of threads.

use rayon::prelude::*;

use super::Geometry;

/// `[B, T, F, C]` of the activations that a pass reads or writes.
pub type Dims = [usize; 4];

/// Output rows that a task computes at least, so that small inputs stay on one thread.
const MIN_ROWS: usize = 8;

/// `y[b, t, f, :] = sum over taps of w[kt, kf, :] * x[b, t * s + kt - p, f * s + kf - p, :]`.
pub fn forward(x: &[f32], x_dims: Dims, w: &[f32], g: Geometry) -> Vec<f32> {
    let [b, t, f, c] = x_dims;
    let (t_out, f_out) = (g.output_len(0, t), g.output_len(1, f));
    let mut y = vec![0.0_f32; b * t_out * f_out * c];
    if y.is_empty() {
        return y;
    }
    y.par_chunks_mut(f_out * c).with_min_len(MIN_ROWS).enumerate().for_each(|(row, y_row)| {
        let (bi, ti) = (row / t_out, row % t_out);
        for kt in 0..g.kernel[0] {
            let Some(ts) = source(ti, kt, 0, t, g) else { continue };
            let x_row = &x[(bi * t + ts) * f * c..][..f * c];
            for kf in 0..g.kernel[1] {
                let tap = &w[(kt * g.kernel[1] + kf) * c..][..c];
                for fi in 0..f_out {
                    let Some(fs) = source(fi, kf, 1, f, g) else { continue };
                    multiply_add(&mut y_row[fi * c..][..c], &x_row[fs * c..][..c], tap);
                }
            }
        }
    });
    y
}

/// The gradient with respect to `x`: the adjoint of [`forward`] in its first argument.
pub fn grad_input(dy: &[f32], x_dims: Dims, w: &[f32], g: Geometry) -> Vec<f32> {
    let [b, t, f, c] = x_dims;
    let (t_out, f_out) = (g.output_len(0, t), g.output_len(1, f));
    let mut dx = vec![0.0_f32; b * t * f * c];
    if dx.is_empty() {
        return dx;
    }
    dx.par_chunks_mut(f * c).with_min_len(MIN_ROWS).enumerate().for_each(|(row, dx_row)| {
        let (bi, ts) = (row / t, row % t);
        for kt in 0..g.kernel[0] {
            let Some(ti) = target(ts, kt, 0, t_out, g) else { continue };
            let dy_row = &dy[(bi * t_out + ti) * f_out * c..][..f_out * c];
            for kf in 0..g.kernel[1] {
                let tap = &w[(kt * g.kernel[1] + kf) * c..][..c];
                for fi in 0..f_out {
                    let Some(fs) = source(fi, kf, 1, f, g) else { continue };
                    multiply_add(&mut dx_row[fs * c..][..c], &dy_row[fi * c..][..c], tap);
                }
            }
        }
    });
    dx
}

/// The gradient with respect to the taps: the adjoint of [`forward`] in its second argument.
pub fn grad_taps(x: &[f32], x_dims: Dims, dy: &[f32], g: Geometry) -> Vec<f32> {
    let [b, t, f, c] = x_dims;
    let (t_out, f_out) = (g.output_len(0, t), g.output_len(1, f));
    let len = g.kernel[0] * g.kernel[1] * c;
    let partial: Vec<Vec<f32>> = (0..b)
        .into_par_iter()
        .map(|bi| {
            let mut dw = vec![0.0_f32; len];
            for ti in 0..t_out {
                let dy_row = &dy[(bi * t_out + ti) * f_out * c..][..f_out * c];
                for kt in 0..g.kernel[0] {
                    let Some(ts) = source(ti, kt, 0, t, g) else { continue };
                    let x_row = &x[(bi * t + ts) * f * c..][..f * c];
                    for kf in 0..g.kernel[1] {
                        let tap = &mut dw[(kt * g.kernel[1] + kf) * c..][..c];
                        for fi in 0..f_out {
                            let Some(fs) = source(fi, kf, 1, f, g) else { continue };
                            multiply_add(tap, &x_row[fs * c..][..c], &dy_row[fi * c..][..c]);
                        }
                    }
                }
            }
            dw
        })
        .collect();
    let mut dw = vec![0.0_f32; len];
    for part in &partial {
        dw.iter_mut().zip(part).for_each(|(sum, p)| *sum += p);
    }
    dw
}

fn multiply_add(sum: &mut [f32], a: &[f32], b: &[f32]) {
    for ((sum, a), b) in sum.iter_mut().zip(a).zip(b) {
        *sum += a * b;
    }
}

/// The input position that output `out` reads through tap `k`, unless it is padding.
fn source(out: usize, k: usize, axis: usize, len: usize, g: Geometry) -> Option<usize> {
    (out * g.stride[axis] + k).checked_sub(g.padding[axis]).filter(|at| *at < len)
}

/// The output position that reads input `at` through tap `k`, if there is one.
fn target(at: usize, k: usize, axis: usize, len_out: usize, g: Geometry) -> Option<usize> {
    let offset = (at + g.padding[axis]).checked_sub(k)?;
    (offset % g.stride[axis] == 0).then_some(offset / g.stride[axis]).filter(|out| *out < len_out)
}
