//! The backend extension behind [`LayerNorm`](super::LayerNorm).

use burn::backend::autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{AutodiffBackend, Backend, Flex, TensorMetadata, backend_extension};
use burn::tensor::Shape;

use super::{EPSILON, cpu};
use crate::host::{contiguous, elements, tensor};

/// Layer normalisation over the last dimension, and its gradients.
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "gpu"), Fusion: cfg(feature = "gpu"))]
pub trait LayerNormOps: Backend {
    /// The normalised input; `gamma` and `beta` are `[D]`.
    #[fusion(default)]
    fn layer_norm_tracked(
        input: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let (normal, _) = normalised::<Self>(input);
        let row = like_rows::<Self>(&normal);
        let scaled = Self::float_mul(normal, Self::float_reshape(gamma, row.clone()));
        Self::float_add(scaled, Self::float_reshape(beta, row))
    }

    /// The gradients with respect to input, `gamma` and `beta`.
    #[fusion(default)]
    fn layer_norm_grads(
        grad: FloatTensor<Self>,
        input: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (normal, inverse_std) = normalised::<Self>(input);
        let last = normal.shape().num_dims() - 1;
        let over_rows = |x: FloatTensor<Self>| {
            let d = x.shape()[last];
            let n = x.shape().num_elements() / d;
            let sum = Self::float_sum_dim(Self::float_reshape(x, Shape::from([n, d])), 0);
            Self::float_reshape(sum, Shape::from([d]))
        };
        let d_gamma = over_rows(Self::float_mul(grad.clone(), normal.clone()));
        let d_beta = over_rows(grad.clone());
        let slope = Self::float_mul(grad, Self::float_reshape(gamma, like_rows::<Self>(&normal)));
        let mean = Self::float_mean_dim(slope.clone(), last);
        let along = Self::float_mean_dim(Self::float_mul(slope.clone(), normal.clone()), last);
        let rest = Self::float_sub(Self::float_sub(slope, mean), Self::float_mul(normal, along));
        (Self::float_mul(rest, inverse_std), d_gamma, d_beta)
    }
}

/// `(x - mean) / std`, and `1 / std`.
fn normalised<B: Backend>(input: FloatTensor<B>) -> (FloatTensor<B>, FloatTensor<B>) {
    let last = input.shape().num_dims() - 1;
    let centred = B::float_sub(input.clone(), B::float_mean_dim(input, last));
    let variance = B::float_mean_dim(B::float_mul(centred.clone(), centred.clone()), last);
    let std = B::float_sqrt(B::float_add_scalar(variance, EPSILON.into()));
    let inverse_std = B::float_recip(std);
    (B::float_mul(centred, inverse_std.clone()), inverse_std)
}

/// `[1, .., 1, D]` for a tensor `[.., D]`.
fn like_rows<B: Backend>(of: &FloatTensor<B>) -> Shape {
    let shape = of.shape();
    let last = shape.num_dims() - 1;
    Shape::from((0..=last).map(|dim| if dim == last { shape[last] } else { 1 }).collect::<Vec<_>>())
}

impl LayerNormOps for Flex {
    fn layer_norm_tracked(
        input: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let (input, gamma, beta) = (contiguous(input), contiguous(gamma), contiguous(beta));
        let output = cpu::forward(elements(&input), elements(&gamma), elements(&beta), EPSILON);
        tensor(output, input.shape())
    }

    fn layer_norm_grads(
        grad: FloatTensor<Self>,
        input: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (grad, input, gamma) = (contiguous(grad), contiguous(input), contiguous(gamma));
        let (dx, d_gamma, d_beta) =
            cpu::backward(elements(&grad), elements(&input), elements(&gamma), EPSILON);
        let of_row = gamma.shape();
        (tensor(dx, input.shape()), tensor(d_gamma, of_row.clone()), tensor(d_beta, of_row))
    }
}

#[cfg(feature = "gpu")]
impl LayerNormOps for burn_cubecl::CubeBackend {}

impl<B: LayerNormOps, S: CheckpointStrategy> LayerNormOps for Autodiff<B, S> {
    fn layer_norm_tracked(
        input: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct LayerNorm;

        impl<B: LayerNormOps> Backward<B, 3> for LayerNorm {
            type State = (FloatTensor<B>, FloatTensor<B>);

            fn backward(
                self,
                ops: Ops<Self::State, 3>,
                grads: &mut Gradients,
                _checkpointer: &mut Checkpointer,
            ) {
                let (input, gamma) = ops.state;
                let grad = grads.consume::<B>(&ops.node);
                let (dx, d_gamma, d_beta) = B::layer_norm_grads(grad, input, gamma);
                for (parent, grad) in ops.parents.into_iter().zip([dx, d_gamma, d_beta]) {
                    if let Some(node) = parent {
                        grads.register::<B>(node.id, grad);
                    }
                }
            }
        }

        let ((input, input_node), (gamma, gamma_node), (beta, beta_node)) =
            (input.into_parts(), gamma.into_parts(), beta.into_parts());
        let nodes = [input_node, gamma_node, beta_node];
        match LayerNorm.prepare::<S>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let state = (input.clone(), gamma.clone());
                prep.finish(state, B::layer_norm_tracked(input, gamma, beta))
            }
            OpsKind::UnTracked(prep) => prep.finish(B::layer_norm_tracked(input, gamma, beta)),
        }
    }

    /// The gradient of a gradient is not offered: these are computed off the graph.
    fn layer_norm_grads(
        grad: FloatTensor<Self>,
        input: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (dx, d_gamma, d_beta) = B::layer_norm_grads(
            grad.into_primitive(),
            input.into_primitive(),
            gamma.into_primitive(),
        );
        (Self::from_inner(dx), Self::from_inner(d_gamma), Self::from_inner(d_beta))
    }
}
