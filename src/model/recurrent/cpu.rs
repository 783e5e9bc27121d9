//! The recurrence on a CPU: utterances in blocks, whose states stay in the caches from step to step.
//!
//! A block multiplies its rows by the weights together, in tiles that the compiler keeps in registers.
//! Every sum runs in one order whatever the block, so neither threads nor mates change a bit.

use asr_kernels::cpu::exponential::exp;
use multiversion::multiversion;
use rayon::prelude::*;

use super::Cell;
use crate::model::activation::cpu::sigmoid;

/// Utterances of a block.
const ROWS: usize = 4;
/// Columns of a tile: with four rows, eight registers of AVX-512.
const TILE: usize = 32;

/// Lengths of the axes, and the cell.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// T.
    pub frames: usize,
    /// H, of one direction.
    pub hidden: usize,
    /// What a step computes.
    pub cell: Cell,
    batch: usize,
}

impl Sizes {
    /// For an input `[B, T, 2, G H]`.
    pub fn of([batch, frames, _, width]: [usize; 4], cell: Cell) -> Self {
        Self { frames, hidden: width / cell.num_gates(), cell, batch }
    }

    fn gates(self) -> usize {
        self.cell.num_gates() * self.hidden
    }

    fn saved(self) -> usize {
        self.cell.num_saved() * self.hidden
    }

    /// Where the frame of a row begins in a tensor of `[.., T, 2, width]`.
    #[inline(always)]
    fn at(self, row: usize, frame: usize, direction: usize, width: usize) -> usize {
        ((row * self.frames + frame) * 2 + direction) * width
    }

    /// Elements of a block of `[B, T, .., width]`, where an empty one must not be zero long.
    fn block(self, width: usize) -> usize {
        (ROWS * self.frames * width).max(1)
    }
}

/// The states `[B, T, 2, H]` and what the gradient needs, see
/// [`RecurrentOps`](super::ops::RecurrentOps).
pub fn forward(
    x: &[f32],
    mask: &[f32],
    w: &[f32],
    bias: &[f32],
    sizes: Sizes,
) -> (Vec<f32>, Vec<f32>) {
    let frames = sizes.batch * sizes.frames;
    let mut y = vec![0.0_f32; frames * 2 * sizes.hidden];
    let mut saved = vec![0.0_f32; frames * 2 * sizes.saved()];
    y.par_chunks_mut(sizes.block(2 * sizes.hidden))
        .zip(saved.par_chunks_mut(sizes.block(2 * sizes.saved())))
        .zip(x.par_chunks(sizes.block(2 * sizes.gates())))
        .zip(mask.par_chunks(sizes.block(1)))
        .for_each(|(((y, saved), x), mask)| forward_block(y, saved, x, mask, w, bias, sizes));
    (y, saved)
}

/// The gradient with respect to the input `[B, T, 2, G H]`, given `dy` `[B, T, 2, H]`.
pub fn grad_input(
    dy: &[f32],
    y: &[f32],
    saved: &[f32],
    mask: &[f32],
    w: &[f32],
    sizes: Sizes,
) -> Vec<f32> {
    let mut dx = vec![0.0_f32; sizes.batch * sizes.frames * 2 * sizes.gates()];
    let mut transposed = vec![0.0_f32; w.len()];
    let (h, g) = (sizes.hidden, sizes.gates());
    for (of, w) in transposed.chunks_exact_mut(h * g).zip(w.chunks_exact(h * g)) {
        for (i, row) in w.chunks_exact(g).enumerate() {
            for (j, value) in row.iter().enumerate() {
                of[j * h + i] = *value;
            }
        }
    }
    dx.par_chunks_mut(sizes.block(2 * g))
        .zip(dy.par_chunks(sizes.block(2 * h)))
        .zip(y.par_chunks(sizes.block(2 * h)))
        .zip(saved.par_chunks(sizes.block(2 * sizes.saved())))
        .zip(mask.par_chunks(sizes.block(1)))
        .for_each(|((((dx, dy), y), saved), mask)| {
            backward_block(dx, dy, y, saved, mask, &transposed, sizes);
        });
    dx
}

#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn forward_block(
    y: &mut [f32],
    saved: &mut [f32],
    x: &[f32],
    mask: &[f32],
    w: &[f32],
    bias: &[f32],
    sizes: Sizes,
) {
    let (h, g, s) = (sizes.hidden, sizes.gates(), sizes.saved());
    let rows = mask.len() / sizes.frames;
    let end = end(mask, sizes.frames);
    let mut pre = vec![0.0_f32; rows * g];
    for direction in 0..2 {
        let mut state = vec![0.0_f32; rows * h];
        let mut memory = vec![0.0_f32; rows * h];
        for step in 0..end {
            let frame = if direction == 0 { step } else { end - 1 - step };
            for row in pre.chunks_exact_mut(g) {
                row.copy_from_slice(&bias[direction * g..][..g]);
            }
            add_product(&mut pre, &state, &w[direction * h * g..][..h * g], h, g);
            for row in 0..rows {
                let (state, memory) = (&mut state[row * h..][..h], &mut memory[row * h..][..h]);
                if mask[row * sizes.frames + frame] == 0.0 {
                    state.fill(0.0);
                    memory.fill(0.0);
                    continue;
                }
                let x = &x[sizes.at(row, frame, direction, g)..][..g];
                let saved = &mut saved[sizes.at(row, frame, direction, s)..][..s];
                let pre = &pre[row * g..][..g];
                match sizes.cell {
                    Cell::Lstm => lstm(state, memory, saved, x, pre, h),
                    Cell::Gru => gru(state, saved, x, pre, h),
                }
                y[sizes.at(row, frame, direction, h)..][..h].copy_from_slice(state);
            }
        }
    }
}

#[inline(always)]
fn lstm(
    state: &mut [f32],
    memory: &mut [f32],
    saved: &mut [f32],
    x: &[f32],
    pre: &[f32],
    h: usize,
) {
    let [xi, xf, xg, xo] = parts::<4>(x, h);
    let [pi, pf, pg, po] = parts::<4>(pre, h);
    let [i, f, g, o, c] = parts_mut::<5>(saved, h);
    for k in 0..h {
        i[k] = sigmoid(xi[k] + pi[k]);
        f[k] = sigmoid(xf[k] + pf[k]);
        g[k] = tanh(xg[k] + pg[k]);
        o[k] = sigmoid(xo[k] + po[k]);
        c[k] = f[k] * memory[k] + i[k] * g[k];
        memory[k] = c[k];
        state[k] = o[k] * tanh(c[k]);
    }
}

#[inline(always)]
fn gru(state: &mut [f32], saved: &mut [f32], x: &[f32], pre: &[f32], h: usize) {
    let [xr, xz, xn] = parts::<3>(x, h);
    let [pr, pz, pn] = parts::<3>(pre, h);
    let [r, z, n, p] = parts_mut::<4>(saved, h);
    for k in 0..h {
        r[k] = sigmoid(xr[k] + pr[k]);
        z[k] = sigmoid(xz[k] + pz[k]);
        p[k] = pn[k];
        n[k] = tanh(xn[k] + r[k] * p[k]);
        state[k] = n[k] + z[k] * (state[k] - n[k]);
    }
}

#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f"))]
fn backward_block(
    dx: &mut [f32],
    dy: &[f32],
    y: &[f32],
    saved: &[f32],
    mask: &[f32],
    transposed: &[f32],
    sizes: Sizes,
) {
    let (h, g, s) = (sizes.hidden, sizes.gates(), sizes.saved());
    let rows = mask.len() / sizes.frames;
    let end = end(mask, sizes.frames);
    let none = vec![0.0_f32; h];
    let mut d_pre = vec![0.0_f32; rows * g];
    for direction in 0..2 {
        let mut d_state = vec![0.0_f32; rows * h];
        let mut d_memory = vec![0.0_f32; rows * h];
        for step in (0..end).rev() {
            let frame = if direction == 0 { step } else { end - 1 - step };
            // The frame that the state came from.
            let before = match step.checked_sub(1) {
                None => None,
                Some(_) if direction == 0 => Some(frame - 1),
                Some(_) => Some(frame + 1),
            };
            for row in 0..rows {
                let d_state = &mut d_state[row * h..][..h];
                let d_memory = &mut d_memory[row * h..][..h];
                let d_pre = &mut d_pre[row * g..][..g];
                if mask[row * sizes.frames + frame] == 0.0 {
                    d_state.fill(0.0);
                    d_memory.fill(0.0);
                    d_pre.fill(0.0);
                    continue;
                }
                for (d, dy) in d_state.iter_mut().zip(&dy[sizes.at(row, frame, direction, h)..]) {
                    *d += dy;
                }
                let dx = &mut dx[sizes.at(row, frame, direction, g)..][..g];
                let kept = &saved[sizes.at(row, frame, direction, s)..][..s];
                let from = |width: usize| before.map(|at| sizes.at(row, at, direction, width));
                match sizes.cell {
                    Cell::Lstm => {
                        let memory = from(s).map_or(&none[..], |at| &saved[at + 4 * h..][..h]);
                        lstm_grad(d_state, d_memory, dx, kept, memory, h);
                        d_pre.copy_from_slice(dx);
                    }
                    Cell::Gru => {
                        let state = from(h).map_or(&none[..], |at| &y[at..][..h]);
                        gru_grad(d_state, dx, d_pre, kept, state, h);
                    }
                }
            }
            add_product(&mut d_state, &d_pre, &transposed[direction * h * g..][..h * g], g, h);
        }
    }
}

/// Leaves in `d_state` what does not go through the weights: nothing.
#[inline(always)]
fn lstm_grad(
    d_state: &mut [f32],
    d_memory: &mut [f32],
    dx: &mut [f32],
    kept: &[f32],
    memory: &[f32],
    h: usize,
) {
    let [i, f, g, o, c] = parts::<5>(kept, h);
    let [di, df, dg, d_o] = parts_mut::<4>(dx, h);
    for k in 0..h {
        let squashed = tanh(c[k]);
        let dc = d_memory[k] + d_state[k] * o[k] * (1.0 - squashed * squashed);
        d_o[k] = d_state[k] * squashed * o[k] * (1.0 - o[k]);
        di[k] = dc * g[k] * i[k] * (1.0 - i[k]);
        df[k] = dc * memory[k] * f[k] * (1.0 - f[k]);
        dg[k] = dc * i[k] * (1.0 - g[k] * g[k]);
        d_memory[k] = dc * f[k];
        d_state[k] = 0.0;
    }
}

/// Leaves in `d_state` what does not go through the weights: the update gate's share.
#[inline(always)]
fn gru_grad(
    d_state: &mut [f32],
    dx: &mut [f32],
    d_pre: &mut [f32],
    kept: &[f32],
    state: &[f32],
    h: usize,
) {
    let [r, z, n, p] = parts::<4>(kept, h);
    let [dr, dz, dn] = parts_mut::<3>(dx, h);
    for k in 0..h {
        dz[k] = d_state[k] * (state[k] - n[k]) * z[k] * (1.0 - z[k]);
        dn[k] = d_state[k] * (1.0 - z[k]) * (1.0 - n[k] * n[k]);
        dr[k] = dn[k] * p[k] * r[k] * (1.0 - r[k]);
        d_state[k] *= z[k];
    }
    let [pr, pz, pn] = parts_mut::<3>(d_pre, h);
    pr.copy_from_slice(dr);
    pz.copy_from_slice(dz);
    for k in 0..h {
        pn[k] = dn[k] * r[k];
    }
}

/// Frames up to the last that any row has.
#[inline(always)]
fn end(mask: &[f32], frames: usize) -> usize {
    let last = mask
        .chunks_exact(frames)
        .map(|row| row.iter().rposition(|valid| *valid != 0.0).map_or(0, |frame| frame + 1));
    last.max().unwrap_or(0)
}

/// `out[r, j] += sum over i of a[r, i] * w[i, j]`; `a` has `n` columns, `w` and `out` have `m`.
#[inline(always)]
fn add_product(out: &mut [f32], a: &[f32], w: &[f32], n: usize, m: usize) {
    let rows = out.len() / m;
    let whole = m / TILE * TILE;
    for first in (0..whole).step_by(TILE) {
        let mut row = 0;
        while row + ROWS <= rows {
            tile::<ROWS>(&mut out[row * m..], &a[row * n..], w, n, m, first);
            row += ROWS;
        }
        while row < rows {
            tile::<1>(&mut out[row * m..], &a[row * n..], w, n, m, first);
            row += 1;
        }
    }
    for (out, a) in out.chunks_exact_mut(m).zip(a.chunks_exact(n)) {
        for (a, w) in a.iter().zip(w.chunks_exact(m)) {
            for (out, w) in out[whole..].iter_mut().zip(&w[whole..]) {
                *out += a * w;
            }
        }
    }
}

#[inline(always)]
fn tile<const R: usize>(out: &mut [f32], a: &[f32], w: &[f32], n: usize, m: usize, first: usize) {
    let mut sums = [[0.0_f32; TILE]; R];
    for (r, sums) in sums.iter_mut().enumerate() {
        sums.copy_from_slice(&out[r * m + first..][..TILE]);
    }
    for i in 0..n {
        let w = &w[i * m + first..][..TILE];
        for (r, sums) in sums.iter_mut().enumerate() {
            let a = a[r * n + i];
            for (sum, w) in sums.iter_mut().zip(w) {
                *sum += a * w;
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        out[r * m + first..][..TILE].copy_from_slice(sums);
    }
}

/// The gates of a row, each of `h` values.
#[inline(always)]
fn parts<const N: usize>(row: &[f32], h: usize) -> [&[f32]; N] {
    std::array::from_fn(|part| &row[part * h..][..h])
}

#[inline(always)]
fn parts_mut<const N: usize>(row: &mut [f32], h: usize) -> [&mut [f32]; N] {
    let mut rest = row;
    std::array::from_fn(|_| {
        let (part, others) = std::mem::take(&mut rest).split_at_mut(h);
        rest = others;
        part
    })
}

/// Without overflow for either sign.
#[inline(always)]
fn tanh(x: f32) -> f32 {
    let e = exp(-2.0 * x.abs());
    ((1.0 - e) / (1.0 + e)).copysign(x)
}
