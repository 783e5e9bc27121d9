//! Recurrent layers that read the frames in both directions: LSTM and GRU with PyTorch's equations.
//!
//! Hochreiter and Schmidhuber (1997); Cho et al. (2014), with the reset gate behind the product as in
//! cuDNN. Each utterance's second direction begins at its own end, and states of padding are zero, as
//! with `pack_padded_sequence`. All frames meet the input's weights in one product beforehand.

mod composed;
pub mod cpu;
#[cfg(test)]
mod goldens;
mod ops;
#[cfg(test)]
mod twin;

use burn::backend::Dispatch;
use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

use super::convolution::fan_in_uniform;
use super::mask::Mask;

use ops::RecurrentOps;

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Gates in the order input, forget, candidate, output.
    Lstm,
    /// Gates in the order reset, update, candidate.
    Gru,
}

impl Cell {
    /// G: products of the input, each as wide as the state.
    pub const fn num_gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }

    /// S: values kept for the gradient, each as wide as the state. The gates behind their
    /// nonlinearities, and the cell's memory or what the state adds to the candidate.
    pub const fn num_saved(self) -> usize {
        match self {
            Self::Lstm => 5,
            Self::Gru => 4,
        }
    }
}

/// One layer; the parameters of the two directions lie side by side.
#[derive(Module, Debug)]
pub(super) struct Recurrent {
    /// D to `[2, G H]`.
    input: Linear,
    /// `[2, H, G H]`.
    state_weight: Param<Tensor<3>>,
    /// `[2, G H]`.
    state_bias: Param<Tensor<2>>,
    #[module(skip)]
    cell: Cell,
}

impl Recurrent {
    /// A layer that keeps the width `hidden_size`, half of it for each direction. All parameters are
    /// uniform within `1 / sqrt(H)`, as in PyTorch.
    pub fn new(cell: Cell, hidden_size: usize, device: &Device) -> Self {
        let h = hidden_size / 2;
        let width = cell.num_gates() * h;
        let uniform = fan_in_uniform(h);
        Self {
            input: LinearConfig::new(hidden_size, 2 * width)
                .with_initializer(uniform.clone())
                .init(device),
            state_weight: uniform.init([2, h, width], device),
            state_bias: uniform.init([2, width], device),
            cell,
        }
    }

    /// `[B, T, D]` to `[B, T, D]`, zero past each utterance's end.
    pub fn forward(&self, hidden: Tensor<3>, mask: &Mask) -> Tensor<3> {
        let [b, t, d] = hidden.dims();
        let [_, _, width] = self.state_weight.dims();
        let input = self.input.forward(hidden).reshape([b, t, 2, width]);
        let (states, _saved) = Dispatch::recurrence(
            input.into_dispatch(),
            mask.frames.clone().into_dispatch(),
            self.state_weight.val().into_dispatch(),
            self.state_bias.val().into_dispatch(),
            self.cell,
        );
        Tensor::<4>::from_dispatch(states).reshape([b, t, d])
    }
}
