//! The convolution module of a Conformer: pointwise, GLU, depth-wise, norm, SiLU, pointwise.

use burn::module::{Initializer, Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor, activation::sigmoid};

use super::activation::{Drop, silu_dropout};
use super::batch_norm::MaskedBatchNorm;
use super::depthwise::{Geometry, depthwise_conv};
use super::layer_norm::LayerNorm;
use super::mask::Mask;
use super::pass::{BatchStatistics, Pass};
use super::{ConvNorm, ModelConfig};

#[derive(Module, Debug)]
pub(super) struct ConvolutionModule {
    pointwise_conv1: Linear,
    depthwise_taps: Param<Tensor<3>>,
    depthwise_bias: Option<Param<Tensor<1>>>,
    /// One of the two. Apart, since a tensor's name says which it is.
    norm: Option<MaskedBatchNorm>,
    layer_norm: Option<LayerNorm>,
    pointwise_conv2: Linear,
}

impl ConvolutionModule {
    pub fn new(config: &ModelConfig, device: &Device) -> Self {
        let d = config.hidden_size;
        let uniform = fan_in_uniform(config.conv_kernel);
        let pointwise =
            |outputs| LinearConfig::new(d, outputs).with_bias(config.conv_bias).init(device);
        Self {
            pointwise_conv1: pointwise(2 * d),
            depthwise_taps: uniform.init([config.conv_kernel, 1, d], device),
            depthwise_bias: config.conv_bias.then(|| uniform.init([d], device)),
            norm: (config.conv_norm == ConvNorm::Batch).then(|| MaskedBatchNorm::new(d, device)),
            layer_norm: (config.conv_norm == ConvNorm::Layer).then(|| LayerNorm::new(d, device)),
            pointwise_conv2: pointwise(d),
        }
    }

    /// `[B, T, D]` to `[B, T, D]`. Padded frames are zeroed before the convolution over time,
    /// so they look to it like the zeros beyond an unpadded utterance.
    pub fn forward(&self, hidden: Tensor<3>, mask: &Mask, pass: &mut Pass) -> Tensor<3> {
        let [b, t, d] = hidden.dims();
        let [kernel, _, _] = self.depthwise_taps.dims();
        let gated = self.pointwise_conv1.forward(hidden);
        let [value, gate] = [0, 1].map(|half| gated.clone().narrow(2, half * d, d));
        let valid = value * sigmoid(gate) * mask.frames.clone();
        let mut mixed = depthwise_conv(
            valid.reshape([b, t, 1, d]),
            self.depthwise_taps.val(),
            Geometry::along_time(kernel),
        )
        .reshape([b, t, d]);
        if let Some(bias) = &self.depthwise_bias {
            mixed = mixed + bias.val().unsqueeze::<3>();
        }
        if let Some(norm) = &self.norm {
            mixed = norm.forward(mixed, mask, pass);
        }
        if let Some(norm) = &self.layer_norm {
            mixed = norm.forward(mixed);
        }
        self.pointwise_conv2.forward(silu_dropout(mixed, Drop::NONE))
    }

    /// Moves the running statistics towards those of `batches`.
    pub fn absorb(&self, batches: &[&BatchStatistics]) {
        if let Some(norm) = &self.norm {
            norm.absorb(batches);
        }
    }
}

/// PyTorch's default initialisation of a convolution: uniform within `1 / sqrt(fan_in)`.
pub(super) fn fan_in_uniform(fan_in: usize) -> Initializer {
    let bound = (fan_in as f64).powf(-0.5);
    Initializer::Uniform { min: -bound, max: bound }
}
