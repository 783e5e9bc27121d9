//! The forward and backward sweeps over one utterance's lattice.
//!
//! A probability is a pair `(m, e)` meaning `m 2^e`: a f64 in `[1, 2)` and an integer held
//! in a f64, `-inf` for an exact zero. Adding and multiplying such pairs needs shifts where
//! logarithms would need `exp` and `log`, keeps full relative precision at any length, and
//! never underflows. States go in pairs, blank `j` before label `j`, so that a step is the
//! same straight line of arithmetic for every pair and vectorises.
//!
//! Only blocks that hold live states are visited. What is left over from earlier frames
//! outside them can flow only into dead states, whose probability in the other sweep is
//! exactly zero: a live state's reachable predecessors are live.

use super::exponential::{ROUND_F64, exp2_split};
use super::frame::Norm;
use super::{LANES, Target};
use multiversion::multiversion;
use std::ops::Range;

const MANTISSA: u64 = (1 << 52) - 1;
type Lanes<T> = [T; LANES];

/// Probabilities of one frame's states, as `(m, e)`. A block of zeros lies before and after.
struct Row {
    blank_m: Vec<f64>,
    blank_e: Vec<f64>,
    label_m: Vec<f64>,
    label_e: Vec<f64>,
}

/// Where pair `j` is stored in a [`Row`].
const fn at(j: usize) -> usize {
    j + LANES
}

impl Row {
    fn zeros(width: usize) -> Self {
        let (m, e) = (vec![1.0; width + 2 * LANES], vec![f64::NEG_INFINITY; width + 2 * LANES]);
        Self { blank_m: m.clone(), blank_e: e.clone(), label_m: m, label_e: e }
    }

    /// Certainty of being in blank `j`: what comes before the first frame or after the last.
    fn only_blank(width: usize, j: usize) -> Self {
        let mut row = Self::zeros(width);
        row.blank_e[at(j)] = 0.0;
        row
    }
}

/// One sweep's probabilities at every frame, short enough to be kept: `[T, width / LANES]`.
/// Exponents are kept modulo `2^32`; those of an occupancy differ by less.
#[derive(Default)]
pub(super) struct Lattice {
    pub(super) cells: Vec<Cell>,
}

/// One block of pairs, as f32 mantissa (0 for a zero) and exponent.
#[derive(Clone, Copy, Default)]
pub(super) struct Cell {
    blank_m: Lanes<f32>,
    blank_e: Lanes<i32>,
    label_m: Lanes<f32>,
    label_e: Lanes<i32>,
}

/// A probability `m 2^e`.
#[derive(Clone, Copy)]
pub(super) struct Scaled {
    m: f64,
    e: f64,
}

impl Scaled {
    /// `-ln` of the probability.
    pub(super) fn nll(self) -> f64 {
        -(self.e + self.m.log2()) * std::f64::consts::LN_2
    }

    pub(super) fn is_zero(self) -> bool {
        self.e == f64::NEG_INFINITY
    }
}

/// `2^d` for an integer `d <= 0`; 0 where that is no normal f64 or where `d` is the
/// difference of two zeros' exponents (NaN).
#[inline(always)]
fn pow2(d: f64) -> f64 {
    let d = if d > -1023.0 { d } else { -1023.0 };
    f64::from_bits((d + (ROUND_F64 + 1023.0)).to_bits() << 52)
}

#[inline(always)]
fn greater(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// Moves the exponent of `m > 0` into `e`.
#[inline(always)]
fn normalized(m: f64, e: f64) -> (f64, f64) {
    const TWO_52: f64 = 4_503_599_627_370_496.0;
    let bits = m.to_bits();
    let exponent = f64::from_bits((bits >> 52) | TWO_52.to_bits()) - (TWO_52 + 1023.0);
    (f64::from_bits((bits & MANTISSA) | 1.0_f64.to_bits()), e + exponent)
}

/// `(a + b) p`.
#[inline(always)]
fn sum2(a: (f64, f64), b: (f64, f64), p: (f64, f64)) -> (f64, f64) {
    let e = greater(a.1, b.1);
    let m = a.0 * pow2(a.1 - e) + b.0 * pow2(b.1 - e);
    normalized(m * p.0, e + p.1)
}

/// `(a + b + c) p`.
#[inline(always)]
fn sum3(a: (f64, f64), b: (f64, f64), c: (f64, f64), p: (f64, f64)) -> (f64, f64) {
    let e = greater(greater(a.1, b.1), c.1);
    let m = a.0 * pow2(a.1 - e) + b.0 * pow2(b.1 - e) + c.0 * pow2(c.1 - e);
    normalized(m * p.0, e + p.1)
}

/// Rounds a probability for keeping.
#[inline(always)]
fn kept((m, e): (f64, f64)) -> (f32, i32) {
    let m = if e > f64::NEG_INFINITY { m as f32 } else { 0.0 };
    (m, (e + ROUND_F64).to_bits() as i32)
}

#[inline(always)]
fn load(row: &[f64], start: usize) -> Lanes<f64> {
    row[start..start + LANES].try_into().expect("a row has a spare block at both ends")
}

/// One utterance as the sweeps see it.
#[derive(Clone, Copy)]
pub(super) struct Utterance<'a> {
    pub(super) target: &'a Target<'a>,
    pub(super) norms: &'a [Norm],
    /// Logits of the target's symbols, `[T, width]`.
    pub(super) gathered: &'a [f32],
    /// Blocks of pairs with live states, a frame each.
    pub(super) live: &'a [Range<usize>],
}

/// `p(labels)`, and every frame's `alpha` (its own frame included) if `lattice` has room.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
pub(super) fn forward(utterance: &Utterance, lattice: &mut Lattice) -> Scaled {
    let Utterance { target, norms, gathered, live } = *utterance;
    let (width, blocks) = (target.width, target.width / LANES);
    let mut before = Row::only_blank(width, 0);
    let mut after = Row::zeros(width);
    for (t, norm) in norms.iter().enumerate() {
        let blank = exp2_split(norm.log2_prob(norm.blank));
        for block in live[t].clone() {
            let start = block * LANES;
            let (own, left) = (at(start), at(start) - 1);
            let (bm, be) = (load(&before.blank_m, own), load(&before.blank_e, own));
            let (lm, le) = (load(&before.label_m, own), load(&before.label_e, own));
            let (pm, pe) = (load(&before.label_m, left), load(&before.label_e, left));
            let skip = load(&target.skip, start);
            let symbols = &gathered[t * width + start..][..LANES];
            let mut out = [[0.0; LANES]; 4];
            let mut cell = Cell::default();
            for k in 0..LANES {
                let label = exp2_split(norm.log2_prob(symbols[k]));
                let b = sum2((bm[k], be[k]), (pm[k], pe[k]), blank);
                let l = sum3((lm[k], le[k]), (bm[k], be[k]), (pm[k], pe[k] + skip[k]), label);
                (out[0][k], out[1][k]) = b;
                (out[2][k], out[3][k]) = l;
                (cell.blank_m[k], cell.blank_e[k]) = kept(b);
                (cell.label_m[k], cell.label_e[k]) = kept(l);
            }
            after.blank_m[own..own + LANES].copy_from_slice(&out[0]);
            after.blank_e[own..own + LANES].copy_from_slice(&out[1]);
            after.label_m[own..own + LANES].copy_from_slice(&out[2]);
            after.label_e[own..own + LANES].copy_from_slice(&out[3]);
            if !lattice.cells.is_empty() {
                lattice.cells[t * blocks + block] = cell;
            }
        }
        std::mem::swap(&mut before, &mut after);
    }
    let end = at(target.labels.len());
    let (m, e) = sum2(
        (before.blank_m[end], before.blank_e[end]),
        (before.label_m[end - 1], before.label_e[end - 1]),
        (1.0, 0.0),
    );
    Scaled { m, e }
}

/// Every frame's `beta` (its own frame excluded).
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
pub(super) fn backward(utterance: &Utterance, lattice: &mut Lattice) {
    let Utterance { target, norms, gathered, live } = *utterance;
    let (width, blocks) = (target.width, target.width / LANES);
    let one = (1.0, 0.0);
    let mut after = Row::only_blank(width, target.labels.len());
    let mut before = Row::zeros(width);
    for (t, norm) in norms.iter().enumerate().rev() {
        let blank = exp2_split(norm.log2_prob(norm.blank));
        for block in live[t].clone() {
            let start = block * LANES;
            let (own, right) = (at(start), at(start) + 1);
            let (bm, be) = (load(&after.blank_m, own), load(&after.blank_e, own));
            let (lm, le) = (load(&after.label_m, own), load(&after.label_e, own));
            let (nbm, nbe) = (load(&after.blank_m, right), load(&after.blank_e, right));
            let (nlm, nle) = (load(&after.label_m, right), load(&after.label_e, right));
            let skip = load(&target.skip, start + 1);
            let symbols = &gathered[t * width + start..][..LANES];
            let mut out = [[0.0; LANES]; 4];
            let mut cell = Cell::default();
            for k in 0..LANES {
                let label = exp2_split(norm.log2_prob(symbols[k]));
                let b = sum2((bm[k], be[k]), (lm[k], le[k]), one);
                let next = (nlm[k], nle[k] + skip[k]);
                let l = sum3((lm[k], le[k]), (nbm[k], nbe[k]), next, one);
                (out[0][k], out[1][k]) = normalized(b.0 * blank.0, b.1 + blank.1);
                (out[2][k], out[3][k]) = normalized(l.0 * label.0, l.1 + label.1);
                (cell.blank_m[k], cell.blank_e[k]) = kept(b);
                (cell.label_m[k], cell.label_e[k]) = kept(l);
            }
            before.blank_m[own..own + LANES].copy_from_slice(&out[0]);
            before.blank_e[own..own + LANES].copy_from_slice(&out[1]);
            before.label_m[own..own + LANES].copy_from_slice(&out[2]);
            before.label_e[own..own + LANES].copy_from_slice(&out[3]);
            lattice.cells[t * blocks + block] = cell;
        }
        std::mem::swap(&mut before, &mut after);
    }
}

/// `alpha beta / p` for one block: the blanks' sum, lane by lane, and each label's.
#[inline(always)]
pub(super) fn occupancy(
    alpha: &Cell,
    beta: &Cell,
    inverse_m: f32,
    total_e: i32,
    blanks: &mut Lanes<f32>,
    labels: &mut Lanes<f32>,
) {
    let share = |am: f32, ae: i32, bm: f32, be: i32| {
        let exponent = ae.wrapping_add(be).wrapping_sub(total_e).clamp(-127, 2);
        am * bm * inverse_m * f32::from_bits(((exponent + 127) as u32) << 23)
    };
    for k in 0..LANES {
        blanks[k] += share(alpha.blank_m[k], alpha.blank_e[k], beta.blank_m[k], beta.blank_e[k]);
        labels[k] = share(alpha.label_m[k], alpha.label_e[k], beta.label_m[k], beta.label_e[k]);
    }
}

impl Scaled {
    /// `1 / m`, and the exponent as lattices keep it.
    pub(super) fn inverse(self) -> (f32, i32) {
        ((1.0 / self.m) as f32, kept((self.m, self.e)).1)
    }
}
