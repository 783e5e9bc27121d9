//! The recurrence in a backend's own operations, for backends without loops of their own.
//!
//! Both directions take a step at once, as a batch of two matrix products. Nothing here is on the autodiff
//! graph, so that a frame's slice costs a frame.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{Shape, Slice};

use super::Cell;

/// States and what the gradient needs, see [`RecurrentOps`](super::ops::RecurrentOps).
pub fn forward<B: Backend>(
    input: FloatTensor<B>,
    mask: FloatTensor<B>,
    weight: FloatTensor<B>,
    bias: FloatTensor<B>,
    cell: Cell,
) -> (FloatTensor<B>, FloatTensor<B>) {
    let [b, t, _, width] = input.shape().dims();
    let h = width / cell.num_gates();
    let zeros = zeros_like::<B>(&input);
    let (input, mask) = (by_step::<B>(input), mask_by_step::<B>(mask));
    let bias = B::float_reshape(bias, Shape::from([2, 1, width]));
    let (mut state, mut memory) = (zeros(&[2, b, h]), zeros(&[2, b, h]));
    let (mut outputs, mut saved) = (Vec::with_capacity(t), Vec::with_capacity(t));
    for step in 0..t {
        let (x, valid) = (at::<B>(&input, step), at::<B>(&mask, step));
        let pre = B::float_add(B::float_matmul(state.clone(), weight.clone()), bias.clone());
        let kept = match cell {
            Cell::Lstm => {
                let gates = B::float_add(x, pre);
                let [i, f, o] = [0, 1, 3].map(|gate| B::sigmoid(part::<B>(&gates, gate, h)));
                let g = B::float_tanh(part::<B>(&gates, 2, h));
                let new = B::float_add(
                    B::float_mul(f.clone(), memory),
                    B::float_mul(i.clone(), g.clone()),
                );
                memory = B::float_mul(new, valid.clone());
                state = B::float_mul(o.clone(), B::float_tanh(memory.clone()));
                vec![i, f, g, o, memory.clone()]
            }
            Cell::Gru => {
                let gates = B::float_add(x.clone(), pre.clone());
                let [r, z] = [0, 1].map(|gate| B::sigmoid(part::<B>(&gates, gate, h)));
                let p = part::<B>(&pre, 2, h);
                let from_state = B::float_mul(r.clone(), p.clone());
                let n = B::float_tanh(B::float_add(part::<B>(&x, 2, h), from_state));
                // (1 - z) n + z h.
                let change = B::float_mul(z.clone(), B::float_sub(state, n.clone()));
                state = B::float_add(n.clone(), change);
                vec![r, z, n, p]
            }
        };
        state = B::float_mul(state, valid.clone());
        outputs.push(state.clone());
        saved.push(B::float_mul(B::float_cat(kept, 2), valid));
    }
    let saved_width = cell.num_saved() * h;
    (
        from_steps::<B>(outputs, zeros(&[t, 2, b, h])),
        from_steps::<B>(saved, zeros(&[t, 2, b, saved_width])),
    )
}

/// The gradient with respect to the input.
pub fn grad_input<B: Backend>(
    grad: FloatTensor<B>,
    output: FloatTensor<B>,
    saved: FloatTensor<B>,
    mask: FloatTensor<B>,
    weight: FloatTensor<B>,
    cell: Cell,
) -> FloatTensor<B> {
    let [b, t, _, h] = output.shape().dims();
    let zeros = zeros_like::<B>(&grad);
    let [grad, output, saved] = [grad, output, saved].map(by_step::<B>);
    let mask = mask_by_step::<B>(mask);
    let transposed = B::float_swap_dims(weight, 1, 2);
    let before = |x: &FloatTensor<B>, step: usize, gate: usize| match step.checked_sub(1) {
        Some(step) => part::<B>(&at::<B>(x, step), gate, h),
        None => zeros(&[2, b, h]),
    };
    let one_minus = |x: FloatTensor<B>| B::float_add_scalar(B::float_neg(x), 1.0.into());
    let of_sigmoid = |s: FloatTensor<B>| B::float_mul(s.clone(), one_minus(s));
    let of_tanh = |y: FloatTensor<B>| one_minus(B::float_mul(y.clone(), y));
    let product = |factors: Vec<FloatTensor<B>>| {
        let mut factors = factors.into_iter();
        let first = factors.next().expect("products here have factors");
        factors.fold(first, B::float_mul)
    };

    let (mut d_state, mut d_memory) = (zeros(&[2, b, h]), zeros(&[2, b, h]));
    let mut d_input = Vec::with_capacity(t);
    for step in (0..t).rev() {
        let valid = at::<B>(&mask, step);
        let d = B::float_mul(B::float_add(at::<B>(&grad, step), d_state), valid.clone());
        let kept = at::<B>(&saved, step);
        match cell {
            Cell::Lstm => {
                let [i, f, g, o, c] = [0, 1, 2, 3, 4].map(|gate| part::<B>(&kept, gate, h));
                let c = B::float_tanh(c);
                let d_o = product(vec![d.clone(), c.clone(), of_sigmoid(o.clone())]);
                let through = B::float_mul(d_memory, valid);
                let d_c = B::float_add(product(vec![d, o, of_tanh(c)]), through);
                let d_i = product(vec![d_c.clone(), g.clone(), of_sigmoid(i.clone())]);
                let old = before(&saved, step, 4);
                let d_f = product(vec![d_c.clone(), old, of_sigmoid(f.clone())]);
                let d_g = product(vec![d_c.clone(), i, of_tanh(g)]);
                d_memory = B::float_mul(d_c, f);
                let gates = B::float_cat(vec![d_i, d_f, d_g, d_o], 2);
                d_state = B::float_matmul(gates.clone(), transposed.clone());
                d_input.push(gates);
            }
            Cell::Gru => {
                let [r, z, n, p] = [0, 1, 2, 3].map(|gate| part::<B>(&kept, gate, h));
                let change = B::float_sub(before(&output, step, 0), n.clone());
                let d_z = product(vec![d.clone(), change, of_sigmoid(z.clone())]);
                let d_n = product(vec![d.clone(), one_minus(z.clone()), of_tanh(n)]);
                let d_r = product(vec![d_n.clone(), p, of_sigmoid(r.clone())]);
                let d_p = B::float_mul(d_n.clone(), r);
                let pre = B::float_cat(vec![d_r.clone(), d_z.clone(), d_p], 2);
                let through = B::float_matmul(pre, transposed.clone());
                d_state = B::float_add(through, B::float_mul(d, z));
                d_input.push(B::float_cat(vec![d_r, d_z, d_n], 2));
            }
        }
    }
    d_input.reverse();
    from_steps::<B>(d_input, zeros(&[t, 2, b, cell.num_gates() * h]))
}

/// The gradients with respect to weight and bias, from the one with respect to the input: two products
/// over all frames.
pub fn grad_parameters<B: Backend>(
    d_input: FloatTensor<B>,
    output: FloatTensor<B>,
    saved: FloatTensor<B>,
    cell: Cell,
) -> (FloatTensor<B>, FloatTensor<B>) {
    let [b, t, _, h] = output.shape().dims();
    let width = cell.num_gates() * h;
    let zeros = zeros_like::<B>(&output);
    let d_pre = match cell {
        Cell::Lstm => d_input,
        // The reset gate lies between the candidate and what the state adds to it.
        Cell::Gru => {
            let reset = part::<B>(&saved, 0, h);
            let candidate = B::float_mul(part::<B>(&d_input, 2, h), reset);
            let gates = B::float_slice(d_input, &[ALL, ALL, ALL, Slice::from(0..2 * h)]);
            B::float_cat(vec![gates, candidate], 3)
        }
    };
    if t == 0 {
        return (
            zeros(&[2, h, width]),
            B::float_reshape(zeros(&[2, 1, width]), Shape::from([2, width])),
        );
    }
    let none = || zeros(&[b, 1, 1, h]);
    let direction = |number: usize, frames: std::ops::Range<usize>| {
        let of = Slice::from(number..number + 1);
        B::float_slice(output.clone(), &[ALL, Slice::from(frames), of, ALL])
    };
    let before = B::float_cat(vec![none(), direction(0, 0..t - 1)], 1);
    let after = B::float_cat(vec![direction(1, 1..t), none()], 1);
    let states = B::float_cat(vec![before, after], 2);
    let rows = |x: FloatTensor<B>, width: usize| {
        B::float_reshape(B::float_permute(x, &[2, 0, 1, 3]), Shape::from([2, b * t, width]))
    };
    let (states, d_pre) = (rows(states, h), rows(d_pre, width));
    let d_bias = B::float_reshape(B::float_sum_dim(d_pre.clone(), 1), Shape::from([2, width]));
    (B::float_matmul(B::float_swap_dims(states, 1, 2), d_pre), d_bias)
}

const ALL: Slice = Slice::full();

/// Zeros on the device and of the type of `x`.
fn zeros_like<B: Backend>(x: &FloatTensor<B>) -> impl Fn(&[usize]) -> FloatTensor<B> + use<B> {
    let (device, dtype) = (x.device(), x.dtype());
    move |shape| B::float_zeros(Shape::from(shape.to_vec()), &device, dtype.into())
}

/// `[B, T, 2, N]` as `[T, 2, B, N]`, where the second direction comes from its end.
fn by_step<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    turned::<B>(B::float_permute(x, &[1, 2, 0, 3]))
}

/// `[B, T, 1]` as `[T, 2, B, 1]`.
fn mask_by_step<B: Backend>(mask: FloatTensor<B>) -> FloatTensor<B> {
    let [b, t, _] = mask.shape().dims();
    let mask = B::float_reshape(mask, Shape::from([b, t, 1, 1]));
    by_step::<B>(B::float_cat(vec![mask.clone(), mask], 2))
}

/// Steps `[2, B, N]` as `[B, T, 2, N]`; `none` if there are no steps.
fn from_steps<B: Backend>(steps: Vec<FloatTensor<B>>, none: FloatTensor<B>) -> FloatTensor<B> {
    let whole = none.shape();
    let all = if steps.is_empty() { none } else { B::float_cat(steps, 0) };
    B::float_permute(turned::<B>(B::float_reshape(all, whole)), &[2, 0, 1, 3])
}

/// The second direction backwards, `[T, 2, B, N]`.
fn turned<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let direction = |number: usize| {
        let of = Slice::from(number..number + 1);
        B::float_slice(x.clone(), &[ALL, of, ALL, ALL])
    };
    B::float_cat(vec![direction(0), B::float_flip(direction(1), &[0])], 1)
}

/// One step of `[T, 2, B, N]`.
fn at<B: Backend>(x: &FloatTensor<B>, step: usize) -> FloatTensor<B> {
    let [_, two, b, n] = x.shape().dims();
    let of = Slice::from(step..step + 1);
    B::float_reshape(B::float_slice(x.clone(), &[of, ALL, ALL, ALL]), Shape::from([two, b, n]))
}

/// The columns of one gate, of the last dimension.
fn part<B: Backend>(x: &FloatTensor<B>, gate: usize, width: usize) -> FloatTensor<B> {
    let mut of = vec![ALL; x.shape().num_dims() - 1];
    of.push(Slice::from(gate * width..(gate + 1) * width));
    B::float_slice(x.clone(), &of)
}
