//! Host access to CPU tensors, for operators with hand-written CPU loops.
//!
//! Burn's CPU backend keeps a tensor in one buffer with strides; the loops want a slice.

use burn::backend::{Flex, ops::FloatTensorOps, tensor::FloatTensor};
use burn::tensor::{Shape, TensorData};

/// The tensor in row-major order, copied only if it is not so already.
pub(crate) fn contiguous(tensor: FloatTensor<Flex>) -> FloatTensor<Flex> {
    tensor.to_contiguous()
}

/// The elements of a tensor made by [`contiguous`].
pub(crate) fn elements(tensor: &FloatTensor<Flex>) -> &[f32] {
    tensor
        .as_slice::<f32>()
        .expect("a CPU model computes in f32, and the caller made the tensor contiguous")
}

/// A CPU tensor that takes over `values`.
pub(crate) fn tensor(values: Vec<f32>, shape: Shape) -> FloatTensor<Flex> {
    Flex::float_from_data(TensorData::new(values, shape), &Default::default())
}
