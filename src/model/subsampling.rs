//! Depth-wise striding subsampling (Rekesh et al., 2023, section 3.1).
//!
//! A 3x3 convolution of stride 2, then per further halving a depth-wise 3x3 of stride 2 and a
//! pointwise layer, then a projection of channels x bands to the encoder's width. The first
//! convolution has one input channel: its nine taps are gathered and multiplied as a matrix.

use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Slice, Tensor, activation::relu};

use super::ModelConfig;
use super::convolution::fan_in_uniform;
use super::depthwise::{Geometry, depthwise_conv};
use super::mask;

const KERNEL: usize = 3;

/// Output frames of `factor`-fold subsampling, by the geometry that the layers use.
pub(super) fn output_len(factor: usize, num_frames: usize) -> usize {
    let geometry = Geometry::halving(KERNEL);
    (0..factor.ilog2()).fold(num_frames, |len, _| geometry.output_len(0, len))
}

/// Bands that `factor`-fold subsampling leaves, by the same geometry.
pub(super) fn output_bands(factor: usize, num_mels: usize) -> usize {
    let geometry = Geometry::halving(KERNEL);
    (0..factor.ilog2()).fold(num_mels, |len, _| geometry.output_len(1, len))
}

#[derive(Module, Debug)]
pub(super) struct Subsampling {
    first: Linear,
    halvings: Vec<Halving>,
    projection: Linear,
    #[module(skip)]
    scale: f64,
}

#[derive(Module, Debug)]
struct Halving {
    taps: Param<Tensor<3>>,
    bias: Param<Tensor<1>>,
    pointwise: Linear,
}

impl Subsampling {
    pub fn new(config: &ModelConfig, num_mels: usize, device: &Device) -> Self {
        let channels = config.subsampling_channels;
        let num_halvings = config.subsampling_factor.ilog2();
        let bands = output_bands(config.subsampling_factor, num_mels);
        let uniform = fan_in_uniform(KERNEL * KERNEL);
        let halving = || Halving {
            taps: uniform.init([KERNEL, KERNEL, channels], device),
            bias: uniform.init([channels], device),
            pointwise: LinearConfig::new(channels, channels).init(device),
        };
        Self {
            first: LinearConfig::new(KERNEL * KERNEL, channels).init(device),
            halvings: (1..num_halvings).map(|_| halving()).collect(),
            projection: LinearConfig::new(channels * bands, config.hidden_size).init(device),
            scale: if config.scale_input { (config.hidden_size as f64).sqrt() } else { 1.0 },
        }
    }

    /// `[B, T, F]` and lengths to `[B, T', D]` and lengths.
    pub fn forward(&self, features: Tensor<3>, frame_lens: &[usize]) -> (Tensor<3>, Vec<usize>) {
        let geometry = Geometry::halving(KERNEL);
        let halve = |lens: &[usize]| -> Vec<usize> {
            lens.iter().map(|len| geometry.output_len(0, *len)).collect()
        };
        let mut lens = halve(frame_lens);
        let mut hidden = masked(relu(self.first.forward(gather_taps(features))), &lens);
        for halving in &self.halvings {
            lens = halve(&lens);
            let mixed = depthwise_conv(hidden, halving.taps.val(), geometry)
                + halving.bias.val().unsqueeze::<4>();
            hidden = masked(relu(halving.pointwise.forward(mixed)), &lens);
        }
        let [b, t, bands, channels] = hidden.dims();
        // Channels before bands: the order in which Parakeet flattens them.
        let flat = hidden.swap_dims(2, 3).reshape([b, t, channels * bands]);
        (self.projection.forward(flat).mul_scalar(self.scale), lens)
    }
}

/// The 3x3 neighbourhoods that a stride-2 convolution reads: `[B, T, F]` to `[B, T', F', 9]`.
fn gather_taps(features: Tensor<3>) -> Tensor<4> {
    let [b, t, f] = features.dims();
    let geometry = Geometry::halving(KERNEL);
    let (t_out, f_out) = (geometry.output_len(0, t), geometry.output_len(1, f));
    let padded = features.pad([(1, 1), (1, 1)], burn::tensor::ops::PadMode::Constant(0.0));
    let every_second = |start: usize, count: usize| {
        Slice::new(start as isize, Some((start + 2 * count - 1) as isize), 2)
    };
    let mut taps = Vec::with_capacity(KERNEL * KERNEL);
    for i in 0..KERNEL {
        for j in 0..KERNEL {
            let batch = Slice::new(0, Some(b as isize), 1);
            taps.push(padded.clone().slice([
                batch,
                every_second(i, t_out),
                every_second(j, f_out),
            ]));
        }
    }
    Tensor::stack(taps, 3)
}

/// Zeroes frames past each length, `[B, T, F, C]`, since biases have filled them.
fn masked(hidden: Tensor<4>, lens: &[usize]) -> Tensor<4> {
    let t = hidden.dims()[1];
    if lens.iter().all(|len| *len == t) {
        return hidden;
    }
    let mask = mask::frames(lens, t, &hidden.device());
    hidden * mask.unsqueeze_dim::<4>(3)
}
