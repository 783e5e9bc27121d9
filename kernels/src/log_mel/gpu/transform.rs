//! The Fourier transform of `N` real samples as one of `N / 2` complex points (even samples real, odd
//! ones imaginary), in shared memory: Stockham's passes by four (and one by two), which leave the
//! points in order, from one half of the memory to the other. A unit makes one butterfly a pass.
//!
//! Tables hold the filter's coefficient, the window, and cosine and negative sine of every `N`th turn.

use cubecl::prelude::*;

/// A complex number.
#[derive(CubeType, Clone, Copy)]
struct Point<F: Float> {
    re: F,
    im: F,
}

/// Where the window begins in the tables.
pub(super) const WINDOW_AT: usize = 1;

#[cube]
fn get<F: Float>(work: &[F], at: usize, #[comptime] points: usize) -> Point<F> {
    Point::<F> { re: work[at], im: work[at + points] }
}

#[cube]
fn put<F: Float>(work: &mut [F], at: usize, re: F, im: F, #[comptime] points: usize) {
    work[at] = re;
    work[at + points] = im;
}

/// `e^(-2 pi i turn / N)`, `N` being twice the points.
#[cube]
fn twiddle<F: Float>(tables: &[F], turn: usize, #[comptime] points: usize) -> Point<F> {
    let at = turn + comptime!(WINDOW_AT + 2 * points);
    Point::<F> { re: tables[at], im: tables[at + comptime!(2 * points)] }
}

/// One pass by four from `from` to `to`: butterfly `k` of transforms of `points / stride`.
#[cube]
fn by_four<F: Float>(
    work: &mut [F],
    tables: &[F],
    from: usize,
    to: usize,
    k: usize,
    #[comptime] stride: usize,
    #[comptime] points: usize,
) {
    let quarter = comptime!(points / 4);
    let a = get::<F>(&*work, from + k, points);
    let b = get::<F>(&*work, from + k + quarter, points);
    let c = get::<F>(&*work, from + k + comptime!(2 * quarter), points);
    let d = get::<F>(&*work, from + k + comptime!(3 * quarter), points);
    let (even_re, even_im) = (a.re + c.re, a.im + c.im);
    let (odd_re, odd_im) = (b.re + d.re, b.im + d.im);
    let (left_re, left_im) = (a.re - c.re, a.im - c.im);
    let (right_re, right_im) = (b.re - d.re, b.im - d.im);
    let (one_re, one_im) = (left_re + right_im, left_im - right_re);
    let (two_re, two_im) = (even_re - odd_re, even_im - odd_im);
    let (three_re, three_im) = (left_re - right_im, left_im + right_re);
    let p = k / stride;
    let at = to + k % stride + p * comptime!(4 * stride);
    put::<F>(work, at, even_re + odd_re, even_im + odd_im, points);
    if comptime!(4 * stride == points) {
        put::<F>(work, at + stride, one_re, one_im, points);
        put::<F>(work, at + comptime!(2 * stride), two_re, two_im, points);
        put::<F>(work, at + comptime!(3 * stride), three_re, three_im, points);
    } else {
        let turn = p * comptime!(2 * stride);
        turned::<F>(work, tables, at + stride, one_re, one_im, turn, points);
        turned::<F>(work, tables, at + comptime!(2 * stride), two_re, two_im, 2 * turn, points);
        turned::<F>(work, tables, at + comptime!(3 * stride), three_re, three_im, 3 * turn, points);
    }
}

/// Puts a point times a twiddle.
#[cube]
fn turned<F: Float>(
    work: &mut [F],
    tables: &[F],
    at: usize,
    re: F,
    im: F,
    turn: usize,
    #[comptime] points: usize,
) {
    let w = twiddle::<F>(tables, turn, points);
    put::<F>(work, at, re * w.re - im * w.im, re * w.im + im * w.re, points);
}

/// The last pass of an odd power of two: butterfly `k` of transforms of two points.
#[cube]
fn by_two<F: Float>(work: &mut [F], from: usize, to: usize, k: usize, #[comptime] points: usize) {
    let half = comptime!(points / 2);
    let a = get::<F>(&*work, from + k, points);
    let b = get::<F>(&*work, from + k + half, points);
    put::<F>(work, to + k, a.re + b.re, a.im + b.im, points);
    put::<F>(work, to + k + half, a.re - b.re, a.im - b.im, points);
}

/// Passes of a transform.
pub(super) const fn num_passes(points: usize) -> usize {
    (points.ilog2() as usize).div_ceil(2)
}

/// Transforms `points` complex points of a frame whose memory begins at `base`, from its first half,
/// or its second if `is_second`; as many halves on as there are passes, they end. Each lane of
/// `points / 4` must come along, after a barrier; the last pass is followed by one.
#[cube]
pub(super) fn transform<F: Float>(
    work: &mut [F],
    tables: &[F],
    base: usize,
    lane: usize,
    #[comptime] points: usize,
    #[comptime] is_second: bool,
) {
    #[unroll]
    for pass in 0..comptime!(num_passes(points)) {
        let stride = comptime!(1usize << (2 * pass));
        let from_second = comptime!((pass + is_second as usize) % 2);
        let from = base + comptime!(from_second * 2 * points);
        let to = base + comptime!((1 - from_second) * 2 * points);
        if comptime!(2 * stride == points) {
            by_two::<F>(work, from, to, lane, points);
            by_two::<F>(work, from, to, lane + comptime!(points / 4), points);
        } else {
            by_four::<F>(work, tables, from, to, lane, stride, points);
        }
        sync_cube();
    }
}

/// The powers of bins `k` and `points - k` of the real signal, from the complex transform `z` at
/// `from`: with `u = z[k]` and `v` the conjugate of `z[-k]`, the even samples' spectrum is
/// `(u + v) / 2`, the odd ones' `(u - v) / 2i`, and the odd ones lag by a sample.
#[cube]
pub(super) fn store_powers<F: Float>(
    work: &[F],
    tables: &[F],
    powers: &mut [f32],
    from: usize,
    powers_at: usize,
    k: usize,
    #[comptime] points: usize,
) {
    let half = F::new(0.5);
    let u = get::<F>(work, from + k, points);
    let v = get::<F>(work, from + (comptime!(points) - k) % points, points);
    let (even_re, even_im) = (half * (u.re + v.re), half * (u.im - v.im));
    let (odd_re, odd_im) = (half * (u.im + v.im), half * (v.re - u.re));
    let w = twiddle::<F>(tables, k, points);
    let lag_re = odd_re * w.re - odd_im * w.im;
    let lag_im = odd_re * w.im + odd_im * w.re;
    powers[powers_at + k] = power::<F>(even_re + lag_re, even_im + lag_im);
    powers[powers_at + points - k] = power::<F>(even_re - lag_re, even_im - lag_im);
}

/// A squared magnitude, cut where sums of it would leave an f32.
#[cube]
fn power<F: Float>(re: F, im: F) -> f32 {
    f32::cast_from(min(re * re + im * im, F::new(1.0e30)))
}
