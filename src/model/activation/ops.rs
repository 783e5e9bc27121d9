//! The backend extension behind [`silu_dropout`](super::silu_dropout).
//!
//! The default bodies are Burn's own primitives. There the mask comes from the device's generator
//! (seeded at every step), so it differs from the CPU's; its statistics do not.

use burn::backend::autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{AutodiffBackend, Backend, Flex, TensorMetadata, backend_extension};
use burn::tensor::Distribution;

use super::{Drop, cpu};
use crate::host::{contiguous, elements, tensor};

/// SiLU with dropout, and its gradient.
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "gpu"), Fusion: cfg(feature = "gpu"))]
pub trait ActivationOps: Backend {
    /// A tensor like `input` of 0 for what is dropped and `1 / (1 - rate)` for what stays.
    #[fusion(default)]
    fn dropout_factors(input: FloatTensor<Self>, drop: Drop) -> FloatTensor<Self> {
        let (shape, device, dtype) = (input.shape(), input.device(), input.dtype().into());
        let kept = Distribution::Bernoulli(1.0 - drop.rate);
        let kept = Self::float_random(shape, kept, &device, dtype);
        Self::float_mul_scalar(kept, (1.0 / (1.0 - drop.rate)).into())
    }

    /// `dropout(silu(x))` and the mask's factors for the gradient; the second is an unused copy
    /// of the input where nothing is dropped or a mask need not be kept.
    #[fusion(default)]
    fn silu_dropout(
        input: FloatTensor<Self>,
        drop: Drop,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let output = Self::float_mul(input.clone(), Self::sigmoid(input.clone()));
        if drop.rate == 0.0 {
            return (output, input);
        }
        let factors = Self::dropout_factors(input, drop);
        (Self::float_mul(output, factors.clone()), factors)
    }

    /// The gradient with respect to the input.
    #[fusion(default)]
    fn silu_dropout_grad(
        grad: FloatTensor<Self>,
        input: FloatTensor<Self>,
        factors: FloatTensor<Self>,
        drop: Drop,
    ) -> FloatTensor<Self> {
        let s = Self::sigmoid(input.clone());
        let one_minus = Self::float_add_scalar(Self::float_neg(s.clone()), 1.0.into());
        let slope =
            Self::float_add(s.clone(), Self::float_mul(Self::float_mul(input, s), one_minus));
        let grad = if drop.rate == 0.0 { grad } else { Self::float_mul(grad, factors) };
        Self::float_mul(grad, slope)
    }
}

impl ActivationOps for Flex {
    fn dropout_factors(input: FloatTensor<Self>, drop: Drop) -> FloatTensor<Self> {
        let shape = input.shape();
        tensor(cpu::factors(shape.num_elements(), drop), shape)
    }

    fn silu_dropout(
        input: FloatTensor<Self>,
        drop: Drop,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let input = contiguous(input);
        let output = cpu::forward(elements(&input), drop);
        (tensor(output, input.shape()), input)
    }

    fn silu_dropout_grad(
        grad: FloatTensor<Self>,
        input: FloatTensor<Self>,
        _factors: FloatTensor<Self>,
        drop: Drop,
    ) -> FloatTensor<Self> {
        let (grad, input) = (contiguous(grad), contiguous(input));
        tensor(cpu::backward(elements(&grad), elements(&input), drop), input.shape())
    }
}

#[cfg(feature = "gpu")]
impl ActivationOps for burn_cubecl::CubeBackend {}

impl<B: ActivationOps, S: CheckpointStrategy> ActivationOps for Autodiff<B, S> {
    fn dropout_factors(input: FloatTensor<Self>, drop: Drop) -> FloatTensor<Self> {
        Self::from_inner(B::dropout_factors(input.into_primitive(), drop))
    }

    fn silu_dropout(
        input: FloatTensor<Self>,
        drop: Drop,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        #[derive(Debug)]
        struct SiluDropout;

        impl<B: ActivationOps> Backward<B, 1> for SiluDropout {
            type State = (FloatTensor<B>, FloatTensor<B>, Drop);

            fn backward(
                self,
                ops: Ops<Self::State, 1>,
                grads: &mut Gradients,
                _checkpointer: &mut Checkpointer,
            ) {
                let [input_node] = ops.parents;
                let (input, factors, drop) = ops.state;
                let grad = grads.consume::<B>(&ops.node);
                if let Some(node) = input_node {
                    let grad = B::silu_dropout_grad(grad, input, factors, drop);
                    grads.register::<B>(node.id, grad);
                }
            }
        }

        let (input, node) = input.into_parts();
        match SiluDropout.prepare::<S>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (output, factors) = B::silu_dropout(input.clone(), drop);
                let state = (input, factors.clone(), drop);
                (prep.finish(state, output), Self::from_inner(factors))
            }
            OpsKind::UnTracked(prep) => {
                let (output, factors) = B::silu_dropout(input, drop);
                (prep.finish(output), Self::from_inner(factors))
            }
        }
    }
}
