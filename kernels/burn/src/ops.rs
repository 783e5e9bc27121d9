//! The backend extension behind [`ctc_loss`](super::ctc_loss).

use std::sync::Arc;

use asr_kernels::{Problem, cpu};
use burn::backend::autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{AutodiffBackend, Backend, Flex, TensorMetadata, backend_extension};
use burn::tensor::{FloatDType, Shape, TensorData};

/// CTC over logits `[B, T, C]` for a validated problem.
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "gpu"), Fusion: cfg(feature = "gpu"))]
pub trait CtcOps: Backend {
    /// The negative log-likelihood of each row, f32 `[B]`.
    #[fusion(dtype = burn::tensor::DType::F32, shape = Shape::from([problem.batch_size()]))]
    fn ctc_nll(logits: FloatTensor<Self>, problem: Arc<Problem>) -> FloatTensor<Self>;

    /// The same and its gradient with respect to the logits, `[B, T, C]` of their type.
    #[fusion(meta = |logits: &burn::backend::fusion::custom::TensorSpec, problem: &Arc<Problem>| {
        let mut nll = logits.clone();
        nll.shape = Shape::from([problem.batch_size()]);
        nll.dtype = burn::tensor::DType::F32;
        (nll, logits.clone())
    })]
    fn ctc_nll_and_grad(
        logits: FloatTensor<Self>,
        problem: Arc<Problem>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

impl CtcOps for Flex {
    fn ctc_nll(logits: FloatTensor<Self>, problem: Arc<Problem>) -> FloatTensor<Self> {
        on_host(cpu::nll(elements(&as_f32(logits)), &problem), Shape::from([problem.batch_size()]))
    }

    fn ctc_nll_and_grad(
        logits: FloatTensor<Self>,
        problem: Arc<Problem>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let dtype: FloatDType = logits.dtype().into();
        let logits = as_f32(logits);
        let (nll, grad) = cpu::nll_and_grad(elements(&logits), &problem);
        let grad = Flex::float_cast(on_host(grad, logits.shape()), dtype);
        (on_host(nll, Shape::from([problem.batch_size()])), grad)
    }
}

/// In row-major order, copied only if it is not so already.
fn as_f32(logits: FloatTensor<Flex>) -> FloatTensor<Flex> {
    Flex::float_cast(logits, FloatDType::F32).to_contiguous()
}

fn elements(logits: &FloatTensor<Flex>) -> &[f32] {
    logits.as_slice::<f32>().expect("as_f32 made it f32 and contiguous")
}

fn on_host(values: Vec<f32>, shape: Shape) -> FloatTensor<Flex> {
    Flex::float_from_data(TensorData::new(values, shape), &Default::default())
}

#[cfg(feature = "gpu")]
mod cube {
    use std::sync::Arc;

    use asr_kernels::Problem;
    use asr_kernels::gpu::{self, Gradient, LogitsType};
    use burn::backend::TensorMetadata;
    use burn::backend::tensor::FloatTensor;
    use burn::tensor::{DType, Shape};
    use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};

    use super::CtcOps;

    impl CtcOps for CubeBackend {
        fn ctc_nll(logits: FloatTensor<Self>, problem: Arc<Problem>) -> FloatTensor<Self> {
            launch(logits, &problem, Gradient::None).0
        }

        fn ctc_nll_and_grad(
            logits: FloatTensor<Self>,
            problem: Arc<Problem>,
        ) -> (FloatTensor<Self>, FloatTensor<Self>) {
            let (nll, grad) = launch(logits, &problem, Gradient::Plain);
            (nll, grad.expect("a gradient was asked for"))
        }
    }

    fn launch(
        logits: CubeTensor,
        problem: &Problem,
        gradient: Gradient<'_>,
    ) -> (CubeTensor, Option<CubeTensor>) {
        let dtype = logits.dtype;
        let logits_type = match dtype {
            DType::F32 => LogitsType::F32,
            DType::F16 => LogitsType::F16,
            DType::BF16 => LogitsType::Bf16,
            other => unreachable!("ctc_loss refuses logits of {other:?}"),
        };
        let logits = into_contiguous(logits);
        let (client, device) = (logits.client.clone(), logits.device.clone());
        let capacity = gpu::Capacity::of(&client);
        let outputs = gpu::ctc(&client, &logits.handle, logits_type, problem, gradient, &capacity)
            .unwrap_or_else(|error| panic!("CTC: {error}"));
        let tensor = |shape, handle, dtype| {
            CubeTensor::new_contiguous(client.clone(), device.clone(), shape, handle, dtype)
        };
        let nll = tensor(Shape::from([problem.batch_size()]), outputs.nll, DType::F32);
        (nll, outputs.grad.map(|grad| tensor(logits.shape(), grad, dtype)))
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
                    let upstream = B::float_cast(upstream, grad_of_row.dtype().into());
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
