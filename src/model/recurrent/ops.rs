//! The backend extension behind [`Recurrent`](super::Recurrent).
//!
//! Step by step on the autodiff graph, slicing frames would cost the square of their number: every slice's
//! gradient is as long as the utterance. So the whole recurrence is one node, which keeps its gates.

use burn::backend::autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{AutodiffBackend, Backend, Flex, TensorMetadata, backend_extension};
use burn::tensor::Shape;

use super::{Cell, composed, cpu};
use crate::host::{contiguous, elements, tensor};

/// A recurrence in both directions, and its gradients.
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "gpu"), Fusion: cfg(feature = "gpu"))]
pub trait RecurrentOps: Backend {
    /// The states `[B, T, 2, H]` and what the gradient needs of them, `[B, T, 2, S H]`, zero where
    /// `mask` `[B, T, 1]` is; `input` is `[B, T, 2, G H]`, `weight` `[2, H, G H]`, `bias` `[2, G H]`.
    #[fusion(default)]
    fn recurrence(
        input: FloatTensor<Self>,
        mask: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        cell: Cell,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        composed::forward::<Self>(input, mask, weight, bias, cell)
    }

    /// The gradients with respect to input, weight and bias.
    #[fusion(default)]
    fn recurrence_grads(
        grad: FloatTensor<Self>,
        output: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        mask: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        cell: Cell,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let d_input =
            composed::grad_input::<Self>(grad, output.clone(), saved.clone(), mask, weight, cell);
        let (d_weight, d_bias) =
            composed::grad_parameters::<Self>(d_input.clone(), output, saved, cell);
        (d_input, d_weight, d_bias)
    }
}

impl RecurrentOps for Flex {
    fn recurrence(
        input: FloatTensor<Self>,
        mask: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        cell: Cell,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let [input, mask, weight, bias] = [input, mask, weight, bias].map(contiguous);
        let sizes = cpu::Sizes::of(input.shape().dims(), cell);
        let (output, saved) = cpu::forward(
            elements(&input),
            elements(&mask),
            elements(&weight),
            elements(&bias),
            sizes,
        );
        let [b, t, _, _] = input.shape().dims();
        let like = |width| Shape::from([b, t, 2, width]);
        let h = sizes.hidden;
        (tensor(output, like(h)), tensor(saved, like(cell.num_saved() * h)))
    }

    fn recurrence_grads(
        grad: FloatTensor<Self>,
        output: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        mask: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        cell: Cell,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let [grad, output, saved, mask, weight] =
            [grad, output, saved, mask, weight].map(contiguous);
        let [b, t, _, h] = output.shape().dims();
        let sizes = cpu::Sizes::of([b, t, 2, cell.num_gates() * h], cell);
        let d_input = cpu::grad_input(
            elements(&grad),
            elements(&output),
            elements(&saved),
            elements(&mask),
            elements(&weight),
            sizes,
        );
        let d_input = tensor(d_input, Shape::from([b, t, 2, cell.num_gates() * h]));
        let (d_weight, d_bias) =
            composed::grad_parameters::<Self>(d_input.clone(), output, saved, cell);
        (d_input, d_weight, d_bias)
    }
}

#[cfg(feature = "gpu")]
impl RecurrentOps for burn_cubecl::CubeBackend {}

impl<B: RecurrentOps, S: CheckpointStrategy> RecurrentOps for Autodiff<B, S> {
    fn recurrence(
        input: FloatTensor<Self>,
        mask: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        cell: Cell,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        #[derive(Debug)]
        struct Recurrence;

        /// Output, what was saved, mask, weight and cell.
        type Kept<T> = (T, T, T, T, Cell);

        impl<B: RecurrentOps> Backward<B, 3> for Recurrence {
            type State = Kept<FloatTensor<B>>;

            fn backward(
                self,
                ops: Ops<Self::State, 3>,
                grads: &mut Gradients,
                _checkpointer: &mut Checkpointer,
            ) {
                let (output, saved, mask, weight, cell) = ops.state;
                let grad = grads.consume::<B>(&ops.node);
                let (d_input, d_weight, d_bias) =
                    B::recurrence_grads(grad, output, saved, mask, weight, cell);
                for (parent, grad) in ops.parents.into_iter().zip([d_input, d_weight, d_bias]) {
                    if let Some(node) = parent {
                        grads.register::<B>(node.id, grad);
                    }
                }
            }
        }

        let mask = mask.into_primitive();
        let ((input, input_node), (weight, weight_node), (bias, bias_node)) =
            (input.into_parts(), weight.into_parts(), bias.into_parts());
        let nodes = [input_node, weight_node, bias_node];
        match Recurrence.prepare::<S>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (output, saved) =
                    B::recurrence(input, mask.clone(), weight.clone(), bias, cell);
                let state = (output.clone(), saved.clone(), mask, weight, cell);
                (prep.finish(state, output), Self::from_inner(saved))
            }
            OpsKind::UnTracked(prep) => {
                let (output, saved) = B::recurrence(input, mask, weight, bias, cell);
                (prep.finish(output), Self::from_inner(saved))
            }
        }
    }

    /// The gradient of a gradient is not offered: these are computed off the graph.
    fn recurrence_grads(
        grad: FloatTensor<Self>,
        output: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        mask: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        cell: Cell,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (d_input, d_weight, d_bias) = B::recurrence_grads(
            grad.into_primitive(),
            output.into_primitive(),
            saved.into_primitive(),
            mask.into_primitive(),
            weight.into_primitive(),
            cell,
        );
        (Self::from_inner(d_input), Self::from_inner(d_weight), Self::from_inner(d_bias))
    }
}
