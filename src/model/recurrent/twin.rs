//! The recurrence once more, slowly and in f64, and what the fast paths owe it.

use burn::backend::Flex;
use burn::backend::tensor::FloatTensor;
use burn::tensor::{Device, Shape, Tensor, TensorData};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::ops::RecurrentOps;
use super::{Cell, composed};
use crate::host::{contiguous, elements, tensor};

/// A random problem: input `[B, T, 2, G H]`, weight `[2, H, G H]`, bias `[2, G H]`, and the weights
/// `[B, T, 2, H]` of a sum of the states.
#[derive(Clone)]
struct Problem {
    cell: Cell,
    lens: Vec<usize>,
    frames: usize,
    hidden: usize,
    input: Vec<f64>,
    weight: Vec<f64>,
    bias: Vec<f64>,
    weights_of_states: Vec<f64>,
}

impl Problem {
    fn random(cell: Cell, lens: &[usize], frames: usize, hidden: usize, size: f64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64((frames * 1_000 + hidden) as u64);
        let mut values = |count: usize, size: f64| -> Vec<f64> {
            // Such as an f32 holds.
            (0..count).map(|_| f64::from(rng.random_range(-size..size) as f32)).collect()
        };
        let (b, width) = (lens.len(), cell.num_gates() * hidden);
        Self {
            cell,
            lens: lens.to_vec(),
            frames,
            hidden,
            input: values(b * frames * 2 * width, size),
            weight: values(2 * hidden * width, 2.0 / (hidden as f64).sqrt()),
            bias: values(2 * width, 0.5),
            weights_of_states: values(b * frames * 2 * hidden, 1.0),
        }
    }

    fn width(&self) -> usize {
        self.cell.num_gates() * self.hidden
    }

    /// The states `[B, T, 2, H]`, by the equations in PyTorch's documentation of `nn.LSTM` and `nn.GRU`.
    fn states(&self) -> Vec<f64> {
        let (h, width) = (self.hidden, self.width());
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let mut states = vec![0.0; self.lens.len() * self.frames * 2 * h];
        for (row, len) in self.lens.iter().enumerate() {
            for direction in 0..2 {
                let (mut state, mut memory) = (vec![0.0; h], vec![0.0; h]);
                for step in 0..*len {
                    let frame = if direction == 0 { step } else { len - 1 - step };
                    let at = (row * self.frames + frame) * 2 + direction;
                    let x = &self.input[at * width..][..width];
                    let from_state = |j: usize| -> f64 {
                        let weight =
                            |i: usize| self.weight[(direction * h + i) * width + j] * state[i];
                        self.bias[direction * width + j] + (0..h).map(weight).sum::<f64>()
                    };
                    let pre: Vec<f64> = (0..width).map(from_state).collect();
                    for k in 0..h {
                        let gate = |number: usize| x[number * h + k] + pre[number * h + k];
                        state[k] = match self.cell {
                            Cell::Lstm => {
                                memory[k] = sigmoid(gate(1)) * memory[k]
                                    + sigmoid(gate(0)) * gate(2).tanh();
                                sigmoid(gate(3)) * memory[k].tanh()
                            }
                            Cell::Gru => {
                                let (r, z) = (sigmoid(gate(0)), sigmoid(gate(1)));
                                let n = (x[2 * h + k] + r * pre[2 * h + k]).tanh();
                                (1.0 - z) * n + z * state[k]
                            }
                        };
                    }
                    states[at * h..][..h].copy_from_slice(&state);
                }
            }
        }
        states
    }

    /// The weighted sum of the states.
    fn sum(&self) -> f64 {
        self.states().iter().zip(&self.weights_of_states).map(|(a, b)| a * b).sum()
    }

    /// Its derivatives by central differences, whose error in f64 is near 1e-9.
    fn gradients(&self) -> [Vec<f64>; 3] {
        const STEP: f64 = 1e-5;
        let of = |field: fn(&mut Self) -> &mut Vec<f64>| {
            let mut other = self.clone();
            let count = field(&mut other).len();
            let derivative = |at: usize| {
                let mut moved = |step: f64| {
                    let old = field(&mut other)[at];
                    field(&mut other)[at] = old + step;
                    let sum = other.sum();
                    field(&mut other)[at] = old;
                    sum
                };
                (moved(STEP) - moved(-STEP)) / (2.0 * STEP)
            };
            (0..count).map(derivative).collect()
        };
        [of(|p| &mut p.input), of(|p| &mut p.weight), of(|p| &mut p.bias)]
    }

    fn mask(&self) -> Vec<f64> {
        let frames =
            |len: &usize| (0..self.frames).map(|t| if t < *len { 1.0 } else { 0.0 }).collect();
        self.lens.iter().flat_map(|len| -> Vec<f64> { frames(len) }).collect()
    }

    /// Input, mask, weight, bias and weights of the states, with their shapes.
    fn tensors(&self) -> [(Vec<f32>, Vec<usize>); 5] {
        let (b, t, h, width) = (self.lens.len(), self.frames, self.hidden, self.width());
        let narrow = |values: &[f64]| values.iter().map(|value| *value as f32).collect();
        [
            (narrow(&self.input), vec![b, t, 2, width]),
            (narrow(&self.mask()), vec![b, t, 1]),
            (narrow(&self.weight), vec![2, h, width]),
            (narrow(&self.bias), vec![2, width]),
            (narrow(&self.weights_of_states), vec![b, t, 2, h]),
        ]
    }
}

fn problems() -> Vec<Problem> {
    let mut problems = Vec::new();
    for cell in [Cell::Lstm, Cell::Gru] {
        for (lens, frames, hidden, size) in [
            (&[1][..], 1, 1, 2.0),
            (&[0], 3, 2, 2.0),
            (&[5, 0, 1, 9, 8, 9], 9, 3, 2.0),
            (&[4, 7], 12, 11, 30.0),
            (&[6, 2, 6, 1, 6], 6, 9, 1.0),
        ] {
            problems.push(Problem::random(cell, lens, frames, hidden, size));
        }
    }
    problems
}

/// Too large for finite differences: some that are large, and random shapes.
fn large_problems() -> Vec<Problem> {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut problems = Vec::new();
    for cell in [Cell::Lstm, Cell::Gru] {
        for (lens, frames, hidden, size) in
            [(&[70, 31, 70, 1, 0][..], 77, 40, 2.0), (&[200], 200, 64, 1e3), (&[3; 9], 3, 24, 2.0)]
        {
            problems.push(Problem::random(cell, lens, frames, hidden, size));
        }
        for _ in 0..20 {
            let (b, frames) = (rng.random_range(1..12), rng.random_range(1..30));
            let lens: Vec<usize> = (0..b).map(|_| rng.random_range(0..=frames)).collect();
            problems.push(Problem::random(cell, &lens, frames, rng.random_range(1..50), 3.0));
        }
    }
    problems
}

fn assert_close(got: &[f32], want: &[f64], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let allowed = 2e-5 * (1.0 + want.abs());
        assert!((f64::from(*got) - want).abs() < allowed, "{what} {at}: {got} {want}");
    }
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap()
}

/// States and the gradients of their weighted sum, through autodiff.
fn fast(problem: &Problem) -> (Vec<f32>, [Vec<f32>; 3]) {
    use burn::backend::Dispatch;
    let device = Device::flex().autodiff();
    let [input, mask, weight, bias, of_states] =
        problem.tensors().map(|(values, shape)| TensorData::new(values, shape));
    let input = Tensor::<4>::from_data(input, &device).require_grad();
    let weight = Tensor::<3>::from_data(weight, &device).require_grad();
    let bias = Tensor::<2>::from_data(bias, &device).require_grad();
    let (states, _) = Dispatch::recurrence(
        input.clone().into_dispatch(),
        Tensor::<3>::from_data(mask, &device).into_dispatch(),
        weight.clone().into_dispatch(),
        bias.clone().into_dispatch(),
        problem.cell,
    );
    let states = Tensor::<4>::from_dispatch(states);
    let grads = (states.clone() * Tensor::from_data(of_states, &device)).sum().backward();
    let of = |tensor: Option<Vec<f32>>| tensor.unwrap();
    let gradients = [
        of(input.grad(&grads).map(values)),
        of(weight.grad(&grads).map(values)),
        of(bias.grad(&grads).map(values)),
    ];
    (values(states), gradients)
}

#[test]
fn states_are_those_of_the_equations_in_f64() {
    for problem in problems().into_iter().chain(large_problems()) {
        let (states, _) = fast(&problem);
        assert_close(&states, &problem.states(), &format!("{:?} {:?}", problem.cell, problem.lens));
    }
}

#[test]
fn gradients_are_those_of_finite_differences_in_f64() {
    for problem in problems() {
        let (_, got) = fast(&problem);
        for ((got, want), name) in
            got.iter().zip(problem.gradients()).zip(["input", "weight", "bias"])
        {
            assert_close(got, &want, &format!("{:?} {:?} {name}", problem.cell, problem.lens));
        }
    }
}

#[test]
fn the_composition_for_other_backends_gives_the_same_states_and_gradients() {
    let plain = |x: FloatTensor<Flex>| elements(&contiguous(x)).to_vec();
    for problem in problems().into_iter().chain(large_problems()) {
        let what = format!("{:?} {:?}", problem.cell, problem.lens);
        let close = |got: Vec<f32>, want: Vec<f32>, name: &str| {
            let want: Vec<f64> = want.into_iter().map(f64::from).collect();
            // Sums in another order, over as many frames.
            let size = want.iter().fold(1.0_f64, |most, value| most.max(value.abs())) as f32;
            let scaled: Vec<f64> = want.iter().map(|value| value / f64::from(size)).collect();
            let got: Vec<f32> = got.iter().map(|value| value / size).collect();
            assert_close(&got, &scaled, &format!("{what} {name}"));
        };
        let make = |(values, shape): (Vec<f32>, Vec<usize>)| tensor(values, Shape::from(shape));
        let [input, mask, weight, bias, grad] = problem.tensors().map(make);
        let cell = problem.cell;
        let (a, b) = (input.clone(), mask.clone());
        let (output, saved) = Flex::recurrence(a, b, weight.clone(), bias.clone(), cell);
        let (other, kept) =
            composed::forward::<Flex>(input, mask.clone(), weight.clone(), bias, cell);
        close(plain(other), plain(output.clone()), "states");
        close(plain(kept), plain(saved.clone()), "kept");
        let (d_input, _, _) = Flex::recurrence_grads(
            grad.clone(),
            output.clone(),
            saved.clone(),
            mask.clone(),
            weight.clone(),
            cell,
        );
        let other = composed::grad_input::<Flex>(grad, output, saved, mask, weight, cell);
        close(plain(other), plain(d_input), "gradient");
    }
}

#[test]
fn an_utterance_has_the_same_bits_alone_padded_and_beside_any_mates() {
    for cell in [Cell::Lstm, Cell::Gru] {
        let problem = Problem::random(cell, &[5, 17, 9, 17, 1, 12], 21, 20, 2.0);
        let (together, (frames, h, width)) =
            (fast(&problem).0, (problem.frames, problem.hidden, problem.width()));
        for (row, len) in problem.lens.iter().enumerate() {
            let mut alone = Problem { lens: vec![*len], frames: *len, ..problem.clone() };
            alone.input = problem.input[row * frames * 2 * width..][..len * 2 * width].to_vec();
            alone.weights_of_states.truncate(len * 2 * h);
            let states = fast(&alone).0;
            assert_eq!(states, together[row * frames * 2 * h..][..len * 2 * h], "{cell:?} {row}");
        }
    }
}
