//! FastConformer with a CTC head, after Hugging Face's `ParakeetForCTC`.
//!
//! Rekesh et al., "Fast Conformer with Linearly Scalable Attention" (2023), on Gulati et al.,
//! "Conformer" (2020). Activations are channels-last, `[B, T, D]`, everywhere; padding is masked
//! wherever frames meet (convolutions, attention, batch statistics), so an utterance's logits do
//! not depend on its batch mates. Output lengths come from the convolutions' own geometry.

mod activation;
mod attention;
mod batch_norm;
mod block;
mod convolution;
pub mod depthwise;
mod feed_forward;
mod mask;
mod noise;
mod positions;
mod subsampling;

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use block::Block;
use mask::Mask;
use subsampling::Subsampling;

pub use noise::Noise;

/// Sizes of the acoustic model; one config describes one network completely.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// Width D of the encoder. A multiple of 8 keeps GPU matrix products on their fast paths.
    pub hidden_size: usize,
    /// Conformer blocks.
    pub num_layers: usize,
    /// Attention heads; must divide `hidden_size`.
    pub num_heads: usize,
    /// Inner width of the feed-forward modules as a multiple of `hidden_size`.
    pub feed_forward_expansion: usize,
    /// Taps of the convolution module (odd).
    pub conv_kernel: usize,
    /// Input frames per output frame: 2, 4 or 8.
    pub subsampling_factor: usize,
    /// Channels of the subsampling convolutions.
    pub subsampling_channels: usize,
    /// Dropout after the subsampling and inside the feed-forward modules.
    pub dropout: f64,
    /// Dropout of attention weights.
    pub attention_dropout: f64,
    /// Multiply the subsampled input by `sqrt(hidden_size)`, as Parakeet does.
    pub scale_input: bool,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            hidden_size: 176,
            num_layers: 16,
            num_heads: 4,
            feed_forward_expansion: 4,
            conv_kernel: 9,
            subsampling_factor: 8,
            subsampling_channels: 256,
            dropout: 0.1,
            attention_dropout: 0.1,
            scale_input: true,
        }
    }
}

/// A size that no network can have.
#[derive(Debug, Error, PartialEq)]
pub enum ModelConfigError {
    /// A count that must be positive is zero.
    #[error("model.{key} must be at least 1, not 0")]
    Zero {
        /// The key below `[model]`.
        key: &'static str,
    },
    /// The heads do not share the width evenly.
    #[error("model.num_heads = {num_heads} must divide model.hidden_size = {hidden_size}")]
    Heads {
        /// The heads asked for.
        num_heads: usize,
        /// The width asked for.
        hidden_size: usize,
    },
    /// Sine and cosine positions come in pairs.
    #[error("model.hidden_size = {0} must be even: relative positions pair a sine with a cosine")]
    OddWidth(usize),
    /// An even kernel has no middle tap.
    #[error("model.conv_kernel = {0} must be odd, so that the convolution keeps the length")]
    EvenKernel(usize),
    /// Only halvings are implemented.
    #[error("model.subsampling_factor = {0} must be 2, 4 or 8")]
    Subsampling(usize),
    /// Not a probability below one.
    #[error("model.{key} = {value} must be at least 0 and below 1")]
    Dropout {
        /// The key below `[model]`.
        key: &'static str,
        /// The value given.
        value: f64,
    },
}

impl ModelConfig {
    /// Refuses sizes that no network can have.
    ///
    /// # Errors
    ///
    /// The first [`ModelConfigError`] found, naming key and value.
    pub fn validate(&self) -> Result<(), ModelConfigError> {
        let counts = [
            ("hidden_size", self.hidden_size),
            ("num_layers", self.num_layers),
            ("num_heads", self.num_heads),
            ("feed_forward_expansion", self.feed_forward_expansion),
            ("conv_kernel", self.conv_kernel),
            ("subsampling_channels", self.subsampling_channels),
        ];
        if let Some((key, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(ModelConfigError::Zero { key });
        }
        if !self.hidden_size.is_multiple_of(self.num_heads) {
            return Err(ModelConfigError::Heads {
                num_heads: self.num_heads,
                hidden_size: self.hidden_size,
            });
        }
        if self.hidden_size % 2 == 1 {
            return Err(ModelConfigError::OddWidth(self.hidden_size));
        }
        if self.conv_kernel.is_multiple_of(2) {
            return Err(ModelConfigError::EvenKernel(self.conv_kernel));
        }
        if ![2, 4, 8].contains(&self.subsampling_factor) {
            return Err(ModelConfigError::Subsampling(self.subsampling_factor));
        }
        let rates = [("dropout", self.dropout), ("attention_dropout", self.attention_dropout)];
        for (key, value) in rates {
            if !(0.0..1.0).contains(&value) {
                return Err(ModelConfigError::Dropout { key, value });
            }
        }
        Ok(())
    }

    /// Output frames for `num_frames` feature frames, by the convolutions' own arithmetic.
    pub fn output_len(&self, num_frames: usize) -> usize {
        subsampling::output_len(self.subsampling_factor, num_frames)
    }

    /// A freshly initialised network for `num_mels` features and `num_classes` outputs (the
    /// tokens and the blank).
    pub fn init(&self, num_mels: usize, num_classes: usize, device: &Device) -> AcousticModel {
        AcousticModel {
            subsampling: Subsampling::new(self, num_mels, device),
            dropout: DropoutConfig::new(self.dropout).init(),
            layers: (0..self.num_layers).map(|_| Block::new(self, device)).collect(),
            ctc_head: LinearConfig::new(self.hidden_size, num_classes).init(device),
            subsampling_factor: self.subsampling_factor,
        }
    }
}

/// The encoder and its CTC head.
#[derive(Module, Debug)]
pub struct AcousticModel {
    subsampling: Subsampling,
    dropout: Dropout,
    layers: Vec<Block>,
    ctc_head: Linear,
    #[module(skip)]
    subsampling_factor: usize,
}

impl AcousticModel {
    /// Frame logits and their lengths.
    ///
    /// # Shapes
    ///
    /// - `features`: `[B, T, F]`, zero past each utterance's length
    /// - `frame_lens`: `[B]`, at most T
    /// - returns `[B, T', C]` and `[B]`, `T'` by [`ModelConfig::output_len`]; logits past an
    ///   utterance's length are finite and meaningless
    pub fn forward(
        &self,
        features: Tensor<3>,
        frame_lens: &[usize],
        noise: &Noise,
    ) -> (Tensor<3>, Vec<usize>) {
        let (hidden, output_lens) = self.subsampling.forward(features, frame_lens);
        let [_, t, d] = hidden.dims();
        let mask = Mask::new(&output_lens, t, &hidden.device());
        let positions = positions::relative(t, d, &hidden.device());
        let mut hidden = self.dropout.forward(hidden);
        for layer in &self.layers {
            hidden = layer.forward(hidden, &positions, &mask, noise);
        }
        (self.ctc_head.forward(hidden), output_lens)
    }

    /// Output frames for `num_frames` feature frames.
    pub fn output_len(&self, num_frames: usize) -> usize {
        subsampling::output_len(self.subsampling_factor, num_frames)
    }
}
