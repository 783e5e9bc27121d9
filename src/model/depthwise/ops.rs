//! The backend extension behind [`depthwise_conv`](super::depthwise_conv).
//!
//! Default bodies are composed of Burn's primitives and run on every backend; the CPU backend
//! overrides them with [`cpu`](super::cpu), and `Autodiff` joins the three into a gradient.

use burn::backend::autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::ops::ConvOptions;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Flex, TensorMetadata, backend_extension};
use burn::tensor::{Shape, Slice};

use super::{Geometry, cpu};
use crate::host::{contiguous, elements, tensor};

/// Depth-wise convolution and its adjoints over `[B, T, F, C]` primitives.
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "gpu"), Fusion: cfg(feature = "gpu"))]
pub trait DepthwiseOps: Backend {
    /// The convolution; `taps` is `[KT, KF, C]`.
    #[fusion(dtype = input, shape = geometry.output_shape(input))]
    fn depthwise_conv(
        input: FloatTensor<Self>,
        taps: FloatTensor<Self>,
        geometry: Geometry,
    ) -> FloatTensor<Self> {
        let channels = input.shape()[3];
        let [kt, kf] = geometry.kernel;
        let weight = Self::float_reshape(
            Self::float_permute(taps, &[2, 0, 1]),
            Shape::from([channels, 1, kt, kf]),
        );
        let options = ConvOptions::new(geometry.stride, geometry.padding, [1, 1], channels);
        let output = Self::conv2d(Self::float_permute(input, &[0, 3, 1, 2]), weight, None, options);
        Self::float_permute(output, &[0, 2, 3, 1])
    }

    /// The gradient with respect to the input, whose shape is `input_shape`.
    #[fusion(dtype = grad, shape = input_shape.clone())]
    fn depthwise_grad_input(
        grad: FloatTensor<Self>,
        taps: FloatTensor<Self>,
        input_shape: Shape,
        geometry: Geometry,
    ) -> FloatTensor<Self> {
        let channels = input_shape[3];
        let [kt, kf] = geometry.kernel;
        let weight = Self::float_reshape(
            Self::float_permute(taps, &[2, 0, 1]),
            Shape::from([channels, 1, kt, kf]),
        );
        let like = Self::float_empty(
            Shape::from([input_shape[0], channels, input_shape[1], input_shape[2]]),
            &grad.device(),
            grad.dtype().into(),
        );
        let options = ConvOptions::new(geometry.stride, geometry.padding, [1, 1], channels);
        let grad = Self::float_permute(grad, &[0, 3, 1, 2]);
        let grad = Self::conv2d_x_backward(like, weight, grad, options);
        Self::float_permute(grad, &[0, 2, 3, 1])
    }

    /// The gradient with respect to the taps, `[KT, KF, C]`.
    #[fusion(dtype = input, shape = Shape::from([geometry.kernel[0], geometry.kernel[1], input[3]]))]
    fn depthwise_grad_taps(
        input: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        geometry: Geometry,
    ) -> FloatTensor<Self> {
        let [b, t, f, c] = [0, 1, 2, 3].map(|i| input.shape()[i]);
        let [t_out, f_out] = [grad.shape()[1], grad.shape()[2]];
        let [[kt, kf], [st, sf], [pt, pf]] = [geometry.kernel, geometry.stride, geometry.padding];
        // Room for the furthest tap of the last output, whatever the stride.
        let (t_pad, f_pad) = ((t_out - 1) * st + kt, (f_out - 1) * sf + kf);
        let (t_room, f_room) = (t_pad.max(t + pt), f_pad.max(f + pf));
        let padded = Self::float_zeros(
            Shape::from([b, t_room, f_room, c]),
            &input.device(),
            input.dtype().into(),
        );
        let range = |start: usize, len: usize, step: usize| {
            Slice::new(start as isize, Some((start + len) as isize), step as isize)
        };
        let inside = [range(0, b, 1), range(pt, t, 1), range(pf, f, 1), range(0, c, 1)];
        let padded = Self::float_slice_assign(padded, &inside, input);
        let mut sums = Vec::with_capacity(kt * kf);
        for i in 0..kt {
            for j in 0..kf {
                let seen = [
                    range(0, b, 1),
                    range(i, (t_out - 1) * st + 1, st),
                    range(j, (f_out - 1) * sf + 1, sf),
                    range(0, c, 1),
                ];
                let product =
                    Self::float_mul(Self::float_slice(padded.clone(), &seen), grad.clone());
                let rows = Self::float_reshape(product, Shape::from([b * t_out * f_out, c]));
                sums.push(Self::float_sum_dim(rows, 0));
            }
        }
        Self::float_reshape(Self::float_cat(sums, 0), Shape::from([kt, kf, c]))
    }
}

impl DepthwiseOps for Flex {
    fn depthwise_conv(
        input: FloatTensor<Self>,
        taps: FloatTensor<Self>,
        geometry: Geometry,
    ) -> FloatTensor<Self> {
        let (input, taps) = (contiguous(input), contiguous(taps));
        let shape = input.shape();
        let output = cpu::forward(elements(&input), shape.dims(), elements(&taps), geometry);
        tensor(output, geometry.output_shape(&shape))
    }

    fn depthwise_grad_input(
        grad: FloatTensor<Self>,
        taps: FloatTensor<Self>,
        input_shape: Shape,
        geometry: Geometry,
    ) -> FloatTensor<Self> {
        let (grad, taps) = (contiguous(grad), contiguous(taps));
        let dims = input_shape.dims();
        let output = cpu::grad_input(elements(&grad), dims, elements(&taps), geometry);
        tensor(output, input_shape)
    }

    fn depthwise_grad_taps(
        input: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        geometry: Geometry,
    ) -> FloatTensor<Self> {
        let (input, grad) = (contiguous(input), contiguous(grad));
        let dims: [usize; 4] = input.shape().dims();
        let output = cpu::grad_taps(elements(&input), dims, elements(&grad), geometry);
        let [kt, kf] = geometry.kernel;
        tensor(output, Shape::from([kt, kf, dims[3]]))
    }
}

#[cfg(feature = "gpu")]
impl DepthwiseOps for burn_cubecl::CubeBackend {}

impl<B: DepthwiseOps, S: CheckpointStrategy> DepthwiseOps for Autodiff<B, S> {
    fn depthwise_conv(
        input: FloatTensor<Self>,
        taps: FloatTensor<Self>,
        geometry: Geometry,
    ) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct DepthwiseConv;

        impl<B: DepthwiseOps> Backward<B, 2> for DepthwiseConv {
            type State = (FloatTensor<B>, FloatTensor<B>, Geometry);

            fn backward(
                self,
                ops: Ops<Self::State, 2>,
                grads: &mut Gradients,
                _checkpointer: &mut Checkpointer,
            ) {
                let [input_node, taps_node] = ops.parents;
                let (input, taps, geometry) = ops.state;
                let grad = grads.consume::<B>(&ops.node);
                if let Some(node) = input_node {
                    let shape = input.shape();
                    let grad = B::depthwise_grad_input(grad.clone(), taps, shape, geometry);
                    grads.register::<B>(node.id, grad);
                }
                if let Some(node) = taps_node {
                    let grad = B::depthwise_grad_taps(input, grad, geometry);
                    grads.register::<B>(node.id, grad);
                }
            }
        }

        let (input, input_node) = input.into_parts();
        let (taps, taps_node) = taps.into_parts();
        let step = DepthwiseConv.prepare::<S>([input_node, taps_node]);
        match step.compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let output = B::depthwise_conv(input.clone(), taps.clone(), geometry);
                prep.finish((input, taps, geometry), output)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::depthwise_conv(input, taps, geometry)),
        }
    }
}
