//! The backend extension behind [`ctc_loss`](super::ctc_loss).

use std::sync::Arc;

use asr_kernels::{Problem, cpu};
use burn::backend::autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{AutodiffBackend, Backend, Flex, TensorMetadata, backend_extension};
use burn::tensor::Shape;

use crate::host::{contiguous, elements, tensor};

/// CTC over logits `[B, T, C]` for a validated problem.
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "gpu"), Fusion: cfg(feature = "gpu"))]
pub trait CtcOps: Backend {
    /// The negative log-likelihood of each row, `[B]`.
    #[fusion(dtype = logits, shape = Shape::from([problem.batch_size()]))]
    fn ctc_nll(logits: FloatTensor<Self>, problem: Arc<Problem>) -> FloatTensor<Self>;

    /// The same and its gradient with respect to the logits, `[B, T, C]`.
    #[fusion(meta = |logits: &burn::backend::fusion::custom::TensorSpec, problem: &Arc<Problem>| {
        let mut nll = logits.clone();
        nll.shape = Shape::from([problem.batch_size()]);
        (nll, logits.clone())
    })]
    fn ctc_nll_and_grad(
        logits: FloatTensor<Self>,
        problem: Arc<Problem>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

impl CtcOps for Flex {
    fn ctc_nll(logits: FloatTensor<Self>, problem: Arc<Problem>) -> FloatTensor<Self> {
        let logits = contiguous(logits);
        let nll = cpu::nll(elements(&logits), &problem);
        tensor(nll, Shape::from([problem.batch_size()]))
    }

    fn ctc_nll_and_grad(
        logits: FloatTensor<Self>,
        problem: Arc<Problem>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let logits = contiguous(logits);
        let shape = logits.shape();
        let (nll, grad) = cpu::nll_and_grad(elements(&logits), &problem);
        (tensor(nll, Shape::from([problem.batch_size()])), tensor(grad, shape))
    }
}

#[cfg(feature = "gpu")]
mod cube {
    use std::sync::Arc;

    use asr_kernels::{Problem, gpu};
    use burn::backend::TensorMetadata;
    use burn::backend::tensor::FloatTensor;
    use burn::tensor::{DType, Shape};
    use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};

    use super::CtcOps;

    impl CtcOps for CubeBackend {
        fn ctc_nll(logits: FloatTensor<Self>, problem: Arc<Problem>) -> FloatTensor<Self> {
            launch(logits, &problem, false).0
        }

        fn ctc_nll_and_grad(
            logits: FloatTensor<Self>,
            problem: Arc<Problem>,
        ) -> (FloatTensor<Self>, FloatTensor<Self>) {
            let (nll, grad) = launch(logits, &problem, true);
            (nll, grad.expect("a gradient was asked for"))
        }
    }

    fn launch(
        logits: CubeTensor,
        problem: &Problem,
        want_grad: bool,
    ) -> (CubeTensor, Option<CubeTensor>) {
        assert_eq!(logits.dtype, DType::F32, "the CTC kernel reads f32 logits");
        let logits = into_contiguous(logits);
        let (client, device) = (logits.client.clone(), logits.device.clone());
        let capacity = gpu::Capacity::of(&client);
        let outputs = gpu::ctc(&client, &logits.handle, problem, want_grad, &capacity)
            .expect("a training batch is within what the device launches at once");
        let tensor = |shape, handle| {
            CubeTensor::new_contiguous(client.clone(), device.clone(), shape, handle, DType::F32)
        };
        let nll = tensor(Shape::from([problem.batch_size()]), outputs.nll);
        (nll, outputs.grad.map(|grad| tensor(logits.shape(), grad)))
    }
}

impl<B: CtcOps, S: CheckpointStrategy> CtcOps for Autodiff<B, S> {
    fn ctc_nll(logits: FloatTensor<Self>, problem: Arc<Problem>) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct CtcNll;

        impl<B: CtcOps> Backward<B, 1> for CtcNll {
            /// The gradient of each row's loss, and how many rows there are.
            type State = (FloatTensor<B>, usize);

            fn backward(
                self,
                ops: Ops<Self::State, 1>,
                grads: &mut Gradients,
                _checkpointer: &mut Checkpointer,
            ) {
                let [logits_node] = ops.parents;
                let (grad_of_row, batch_size) = ops.state;
                let upstream = grads.consume::<B>(&ops.node);
                if let Some(node) = logits_node {
                    let upstream = B::float_reshape(upstream, Shape::from([batch_size, 1, 1]));
                    grads.register::<B>(node.id, B::float_mul(grad_of_row, upstream));
                }
            }
        }

        let (logits, node) = logits.into_parts();
        match CtcNll.prepare::<S>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let batch_size = problem.batch_size();
                let (nll, grad) = B::ctc_nll_and_grad(logits, problem);
                prep.finish((grad, batch_size), nll)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::ctc_nll(logits, problem)),
        }
    }

    /// The gradient of a gradient is not offered: the pair is computed off the graph.
    fn ctc_nll_and_grad(
        logits: FloatTensor<Self>,
        problem: Arc<Problem>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (nll, grad) = B::ctc_nll_and_grad(logits.into_primitive(), problem);
        (Self::from_inner(nll), Self::from_inner(grad))
    }
}
