//! Layer normalisation over the last dimension (Ba, Kiros and Hinton, 2016), with a gradient of its own.
//!
//! A Conformer block has five of them. Under autodiff Burn composes each of a dozen element-wise passes
//! and their gradients; here they are one pass each way on the CPU. On GPUs Burn's fusion does that.

pub mod cpu;
mod ops;

use burn::backend::Dispatch;
use burn::module::{Initializer, Module, Param};
use burn::tensor::{Device, Tensor};

use ops::LayerNormOps;

/// Added to the variance, as in PyTorch.
const EPSILON: f32 = 1e-5;

#[derive(Module, Debug)]
pub(super) struct LayerNorm {
    gamma: Param<Tensor<1>>,
    beta: Param<Tensor<1>>,
}

impl LayerNorm {
    pub fn new(num_features: usize, device: &Device) -> Self {
        Self {
            gamma: Initializer::Ones.init([num_features], device),
            beta: Initializer::Zeros.init([num_features], device),
        }
    }

    /// `(x - mean) / sqrt(var + epsilon) * gamma + beta` over the last dimension, of any shape.
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        Tensor::from_dispatch(Dispatch::layer_norm_tracked(
            input.into_dispatch(),
            self.gamma.val().into_dispatch(),
            self.beta.val().into_dispatch(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::nn::LayerNormConfig;
    use burn::tensor::{Distribution, Tolerance};

    #[test]
    fn output_and_all_gradients_are_those_of_burns_composition() {
        let device = Device::flex().autodiff();
        for [b, t, d] in [[1, 1, 2], [2, 3, 5], [3, 700, 16], [1, 40, 96]] {
            let normal = |mean, std| {
                Tensor::<3>::random([b, t, d], Distribution::Normal(mean, std), &device)
            };
            let (x, weights) = (normal(3.0, 2.0), normal(0.0, 1.0));
            let mut ours = LayerNorm::new(d, &device);
            let mut theirs = LayerNormConfig::new(d).init(&device);
            let scale = Tensor::<1>::random([d], Distribution::Uniform(0.5, 2.0), &device);
            let shift = Tensor::<1>::random([d], Distribution::Normal(0.0, 1.0), &device);
            ours.gamma = Param::from_tensor(scale.clone());
            ours.beta = Param::from_tensor(shift.clone());
            theirs.gamma = Param::from_tensor(scale);
            theirs.beta = Some(Param::from_tensor(shift));

            let (a, c) = (x.clone().detach().require_grad(), x.detach().require_grad());
            let (ya, yc) = (ours.forward(a.clone()), theirs.forward(c.clone()));
            let tolerance = Tolerance::<f32>::rel_abs(1e-3, 1e-4);
            ya.to_data().assert_approx_eq(&yc.to_data(), tolerance);
            let ga = (ya * weights.clone()).sum().backward();
            let gc = (yc * weights).sum().backward();
            let close = |ours: Option<Vec<f32>>, theirs: Option<Vec<f32>>| {
                let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
                for (ours, theirs) in ours.iter().zip(&theirs) {
                    let allowed = 1e-3 * (1.0 + theirs.abs());
                    assert!((ours - theirs).abs() < allowed, "{ours} {theirs}");
                }
            };
            let of = |x: Option<Tensor<3>>| x.map(|x| x.into_data().try_to_vec().unwrap());
            close(of(a.grad(&ga)), of(c.grad(&gc)));
            let of = |x: Option<Tensor<1>>| x.map(|x| x.into_data().try_to_vec().unwrap());
            close(of(ours.gamma.val().grad(&ga)), of(theirs.gamma.val().grad(&gc)));
            let beta = theirs.beta.unwrap();
            close(of(ours.beta.val().grad(&ga)), of(beta.val().grad(&gc)));
        }
    }

    #[test]
    fn a_constant_row_becomes_the_shift_and_large_offsets_cost_little() {
        let device = Device::flex();
        let norm = LayerNorm::new(4, &device);
        let x =
            Tensor::<2>::from_floats([[7.0; 4], [1e4, 1e4 + 1.0, 1e4 + 2.0, 1e4 + 3.0]], &device);
        let y: Vec<f32> = norm.forward(x).to_data().try_to_vec().unwrap();
        assert_eq!(y[..4], [0.0; 4]);
        for (got, want) in y[4..].iter().zip([-1.341_64, -0.447_21, 0.447_21, 1.341_64]) {
            assert!((got - want).abs() < 1e-4, "{got} {want}");
        }
    }
}
