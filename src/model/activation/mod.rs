//! Dropout, and SiLU followed by dropout as one operator.
//!
//! Most element-wise work of a Conformer is this pair, four times as wide as the encoder. Apart,
//! they are a dozen passes over memory and a random number per element; here they are one pass
//! each way, and the mask is a hash of seed and position that the backward pass computes again.
//! SiLU: Elfwing et al. (2018); dropout: Srivastava et al. (2014).

pub mod cpu;
mod ops;

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use ops::ActivationOps;

/// What is dropped: a share of the elements, by a seed of its own for every use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drop {
    /// Probability of an element to become 0; the others are scaled by `1 / (1 - rate)`.
    pub rate: f64,
    /// Of this use alone.
    pub seed: u64,
}

impl Drop {
    /// Nothing is dropped.
    pub const NONE: Self = Self { rate: 0.0, seed: 0 };
}

/// Sets a share of the elements to 0 and scales the others, of any shape.
pub fn dropout<const D: usize>(input: Tensor<D>, drop: Drop) -> Tensor<D> {
    if drop.rate == 0.0 {
        return input;
    }
    let factors = Dispatch::dropout_factors(input.clone().into_dispatch(), drop);
    input * Tensor::from_dispatch(factors)
}

/// `dropout(x * sigmoid(x))`, of any shape.
pub fn silu_dropout<const D: usize>(input: Tensor<D>, drop: Drop) -> Tensor<D> {
    let (output, _factors) = Dispatch::silu_dropout(input.into_dispatch(), drop);
    Tensor::from_dispatch(output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::activation::silu;
    use burn::tensor::{Device, Distribution, Tolerance};

    #[test]
    fn without_dropout_it_is_silu_and_so_is_its_gradient() {
        let device = Device::flex().autodiff();
        let x = Tensor::<2>::random([37, 61], Distribution::Normal(0.0, 8.0), &device);
        let weights = Tensor::<2>::random([37, 61], Distribution::Normal(0.0, 1.0), &device);
        let (a, b) = (x.clone().detach().require_grad(), x.detach().require_grad());
        let (ya, yb) = (silu_dropout(a.clone(), Drop::NONE), silu(b.clone()));
        let tolerance = Tolerance::<f32>::rel_abs(1e-5, 1e-6);
        ya.to_data().assert_approx_eq(&yb.to_data(), tolerance);
        let ga = (ya * weights.clone()).sum().backward();
        let gb = (yb * weights).sum().backward();
        let (ga, gb) = (a.grad(&ga).unwrap(), b.grad(&gb).unwrap());
        ga.to_data().assert_approx_eq(&gb.to_data(), tolerance);
    }

    #[test]
    fn both_kinds_of_dropout_share_the_mask_of_a_seed() {
        let drop = Drop { rate: 0.4, seed: 3 };
        let x = Tensor::<2>::random([70, 900], Distribution::Uniform(1.0, 2.0), &Device::flex());
        let plain: Vec<f32> = dropout(silu(x.clone()), drop).to_data().try_to_vec().unwrap();
        let fused: Vec<f32> = silu_dropout(x, drop).to_data().try_to_vec().unwrap();
        assert!(plain.iter().zip(&fused).all(|(a, b)| (a - b).abs() < 1e-5));
    }

    #[test]
    fn extreme_inputs_stay_finite_and_exact() {
        let x = Tensor::<1>::from_floats([-1e30, -300.0, -0.0, 0.0, 300.0, 1e30], &Device::flex());
        let y: Vec<f32> = silu_dropout(x, Drop::NONE).to_data().try_to_vec().unwrap();
        assert_eq!(y, [0.0, 0.0, 0.0, 0.0, 300.0, 1e30]);
    }

    #[test]
    fn dropped_elements_are_dropped_both_ways_and_the_mean_is_kept() {
        let device = Device::flex().autodiff();
        let drop = Drop { rate: 0.25, seed: 7 };
        let x = Tensor::<1>::full([100_000], 3.0, &device).require_grad();
        let y = silu_dropout(x.clone(), drop);
        let grads = y.clone().sum().backward();
        let grad: Vec<f32> = x.grad(&grads).unwrap().to_data().try_to_vec().unwrap();
        let y: Vec<f32> = y.to_data().try_to_vec().unwrap();
        let dropped = y.iter().filter(|y| **y == 0.0).count();
        assert!((dropped as f64 / 1e5 - 0.25).abs() < 0.005, "{dropped}");
        assert!(y.iter().zip(&grad).all(|(y, g)| (*y == 0.0) == (*g == 0.0)));
        let mean = y.iter().map(|y| f64::from(*y)).sum::<f64>() / 1e5;
        let silu = 3.0 / (1.0 + (-3.0_f64).exp());
        assert!((mean / silu - 1.0).abs() < 0.01, "{mean} {silu}");
    }

    #[test]
    fn a_seed_decides_the_mask_and_neighbouring_seeds_are_unlike() {
        let mask = |seed| -> Vec<f32> {
            let x = Tensor::<1>::ones([10_000], &Device::flex());
            silu_dropout(x, Drop { rate: 0.5, seed }).to_data().try_to_vec().unwrap()
        };
        assert_eq!(mask(1), mask(1));
        for (a, b) in [(1, 2), (1, 1 << 32), (0, u64::MAX)] {
            let same = mask(a).iter().zip(&mask(b)).filter(|(a, b)| a == b).count();
            assert!((4_700..5_300).contains(&same), "{same} of 10000 agree");
        }
    }
}
