//! SiLU with dropout on a CPU: one pass, parallel over chunks, vectorised within them.

use asr_kernels::cpu::exponential::exp;
use multiversion::multiversion;
use rayon::prelude::*;

use super::Drop;

/// Elements of a task; the mask counts positions, so the result does not depend on it.
const CHUNK: usize = 1 << 14;

/// `dropout(silu(x))`.
pub fn forward(x: &[f32], drop: Drop) -> Vec<f32> {
    let mut y = vec![0.0_f32; x.len()];
    let keep = Keep::new(drop);
    y.par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK)).enumerate().for_each(|(chunk, (y, x))| {
        forward_chunk(y, x, keep, (chunk * CHUNK) as u32);
    });
    y
}

/// The mask alone, as factors.
pub fn factors(len: usize, drop: Drop) -> Vec<f32> {
    let keep = Keep::new(drop);
    (0..len).into_par_iter().with_min_len(CHUNK).map(|i| keep.factor(i as u32)).collect()
}

/// The gradient with respect to `x`, given the one with respect to the output.
pub fn backward(dy: &[f32], x: &[f32], drop: Drop) -> Vec<f32> {
    let mut dx = vec![0.0_f32; x.len()];
    let keep = Keep::new(drop);
    dx.par_chunks_mut(CHUNK)
        .zip(x.par_chunks(CHUNK).zip(dy.par_chunks(CHUNK)))
        .enumerate()
        .for_each(|(chunk, (dx, (x, dy)))| {
            backward_chunk(dx, x, dy, keep, (chunk * CHUNK) as u32);
        });
    dx
}

#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn forward_chunk(y: &mut [f32], x: &[f32], keep: Keep, start: u32) {
    for (i, (y, x)) in y.iter_mut().zip(x).enumerate() {
        *y = x * sigmoid(*x) * keep.factor(start.wrapping_add(i as u32));
    }
}

#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn backward_chunk(dx: &mut [f32], x: &[f32], dy: &[f32], keep: Keep, start: u32) {
    for (i, (dx, (x, dy))) in dx.iter_mut().zip(x.iter().zip(dy)).enumerate() {
        let s = sigmoid(*x);
        *dx = dy * keep.factor(start.wrapping_add(i as u32)) * (s + x * s * (1.0 - s));
    }
}

/// Without overflow for either sign.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    let e = exp(-x.abs());
    let positive = 1.0 / (1.0 + e);
    if x >= 0.0 { positive } else { e * positive }
}

/// The mask: an element stays where a hash of its position and the seed is at least `threshold`.
#[derive(Clone, Copy)]
struct Keep {
    seed: u32,
    threshold: u32,
    scale: f32,
}

impl Keep {
    fn new(drop: Drop) -> Self {
        let folded = (drop.seed ^ (drop.seed >> 32).wrapping_mul(0x9E37_79B9)) as u32;
        Self {
            seed: mix(folded.wrapping_add(0x6A09_E667)),
            threshold: (drop.rate * f64::from(u32::MAX)) as u32,
            scale: (1.0 / (1.0 - drop.rate)) as f32,
        }
    }

    #[inline(always)]
    fn factor(self, position: u32) -> f32 {
        if mix(position ^ self.seed) >= self.threshold { self.scale } else { 0.0 }
    }
}

/// A 32-bit finaliser with good avalanche (Mueller's "lowbias32" by Wellons, 2018).
#[inline(always)]
fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7FEB_352D);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846C_A68B);
    x ^ (x >> 16)
}
