//! FastConformer with a CTC head, after Hugging Face's `ParakeetForCTC`; plain Conformers, and recurrent
//! layers in place of the blocks, for devices that cannot carry those.
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
mod layer_norm;
mod mask;
mod pass;
mod positions;
mod recurrent;
mod subsampling;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use block::Block;
use mask::Mask;
use recurrent::{Cell, Recurrent};
use subsampling::Subsampling;

pub use pass::Pass;

/// What lies between the subsampling and the CTC head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoder {
    /// Conformer blocks with relative positions.
    #[default]
    Conformer,
    /// Bidirectional LSTM layers.
    Lstm,
    /// Bidirectional GRU layers.
    Gru,
}

/// What normalises inside the convolution module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConvNorm {
    /// Batch norm over the valid frames.
    #[default]
    Batch,
    /// Layer norm: nothing depends on the batch in training either.
    Layer,
}

/// Sizes of the acoustic model; one config describes one network completely.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// `"conformer"`, or `"lstm"` or `"gru"`: layers that read the frames in both directions, half of the
    /// width each. Keys of heads, feed-forward modules, convolutions of blocks and attention are the
    /// Conformer's alone.
    pub encoder: Encoder,
    /// Width D of the encoder. A multiple of 8 keeps GPU matrix products on their fast paths.
    pub hidden_size: usize,
    /// Conformer blocks, or recurrent layers.
    pub num_layers: usize,
    /// Attention heads; must divide `hidden_size`.
    pub num_heads: usize,
    /// Inner width of the feed-forward modules as a multiple of `hidden_size`.
    pub feed_forward_expansion: usize,
    /// Taps of the convolution module (odd).
    pub conv_kernel: usize,
    /// `"batch"` or `"layer"`: the norm inside the convolution module. Parakeet's is `"batch"`.
    pub conv_norm: ConvNorm,
    /// Input frames per output frame: 2, 4 or 8.
    pub subsampling_factor: usize,
    /// Channels of the subsampling convolutions.
    pub subsampling_channels: usize,
    /// Dropout after the subsampling, inside the feed-forward modules and between recurrent layers.
    pub dropout: f64,
    /// Dropout of attention weights.
    pub attention_dropout: f64,
    /// Multiply the subsampled input by `sqrt(hidden_size)`, as Parakeet does.
    pub scale_input: bool,
    /// Biases in the linear layers of feed-forward and attention.
    pub linear_bias: bool,
    /// Biases in the convolutions of the blocks.
    pub conv_bias: bool,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            encoder: Encoder::Conformer,
            hidden_size: 176,
            num_layers: 16,
            num_heads: 4,
            feed_forward_expansion: 4,
            conv_kernel: 9,
            conv_norm: ConvNorm::Batch,
            subsampling_factor: 8,
            subsampling_channels: 256,
            dropout: 0.1,
            attention_dropout: 0.1,
            scale_input: true,
            linear_bias: true,
            conv_bias: true,
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
    /// Sine and cosine positions come in pairs, and so do directions.
    #[error(
        "model.hidden_size = {0} must be even: relative positions pair a sine with a cosine, and recurrent layers one direction with the other"
    )]
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
        let is_conformer = self.encoder == Encoder::Conformer;
        if is_conformer && !self.hidden_size.is_multiple_of(self.num_heads) {
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

    /// Mel bands that are left for the projection, of `num_mels`.
    pub fn output_bands(&self, num_mels: usize) -> usize {
        subsampling::output_bands(self.subsampling_factor, num_mels)
    }

    /// A freshly initialised network for `num_mels` features and `num_classes` outputs (the
    /// tokens and the blank).
    pub fn init(&self, num_mels: usize, num_classes: usize, device: &Device) -> AcousticModel {
        let (num_blocks, cell) = match self.encoder {
            Encoder::Conformer => (self.num_layers, None),
            Encoder::Lstm => (0, Some(Cell::Lstm)),
            Encoder::Gru => (0, Some(Cell::Gru)),
        };
        let recurrent = |cell| {
            let layer = |_| Recurrent::new(cell, self.hidden_size, device);
            (0..self.num_layers).map(layer).collect()
        };
        AcousticModel {
            subsampling: Subsampling::new(self, num_mels, device),
            dropout: self.dropout,
            layers: (0..num_blocks).map(|_| Block::new(self, device)).collect(),
            recurrent: cell.map(recurrent).unwrap_or_default(),
            ctc_head: LinearConfig::new(self.hidden_size, num_classes).init(device),
            subsampling_factor: self.subsampling_factor,
        }
    }
}

/// The encoder and its CTC head.
#[derive(Module, Debug)]
pub struct AcousticModel {
    subsampling: Subsampling,
    #[module(skip)]
    dropout: f64,
    layers: Vec<Block>,
    /// In place of `layers`, which are empty then.
    recurrent: Vec<Recurrent>,
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
        pass: &mut Pass,
    ) -> (Tensor<3>, Vec<usize>) {
        let (hidden, output_lens) = self.subsampling.forward(features, frame_lens);
        let [_, t, d] = hidden.dims();
        let mask = Mask::new(&output_lens, t, &hidden.device());
        let mut hidden = activation::dropout(hidden, pass.draw(self.dropout));
        if !self.layers.is_empty() {
            let positions = positions::relative(t, d, &hidden.device());
            for layer in &self.layers {
                hidden = layer.forward(hidden, &positions, &mask, pass);
            }
        }
        for (number, layer) in self.recurrent.iter().enumerate() {
            if number > 0 {
                hidden = activation::dropout(hidden, pass.draw(self.dropout));
            }
            hidden = layer.forward(hidden, &mask);
        }
        (self.ctc_head.forward(hidden), output_lens)
    }

    /// Moves the running statistics of the batch norms towards what training passes have seen,
    /// all of them with equal weight.
    pub fn absorb(&self, passes: &[Pass]) {
        for (layer, block) in self.layers.iter().enumerate() {
            let seen: Vec<_> =
                passes.iter().filter_map(|pass| pass.statistics.get(layer)).collect();
            block.absorb(&seen);
        }
    }

    /// Output frames for `num_frames` feature frames.
    pub fn output_len(&self, num_frames: usize) -> usize {
        subsampling::output_len(self.subsampling_factor, num_frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Distribution, Tolerance};

    fn config(subsampling_factor: usize) -> ModelConfig {
        ModelConfig {
            hidden_size: 16,
            num_layers: 2,
            num_heads: 2,
            conv_kernel: 5,
            subsampling_factor,
            subsampling_channels: 6,
            ..Default::default()
        }
    }

    /// Every encoder, and both norms.
    fn configs(subsampling_factor: usize) -> [ModelConfig; 4] {
        let config = config(subsampling_factor);
        [
            config.clone(),
            ModelConfig { conv_norm: ConvNorm::Layer, conv_kernel: 31, ..config.clone() },
            ModelConfig { encoder: Encoder::Lstm, ..config.clone() },
            ModelConfig { encoder: Encoder::Gru, num_layers: 3, ..config },
        ]
    }

    /// Batch norms of a network.
    fn num_batch_norms(config: &ModelConfig) -> usize {
        let has_them = config.encoder == Encoder::Conformer && config.conv_norm == ConvNorm::Batch;
        if has_them { config.num_layers } else { 0 }
    }

    fn features(num_frames: usize) -> Tensor<3> {
        Tensor::random([1, num_frames, 20], Distribution::Normal(0.0, 1.0), &Device::flex())
    }

    /// `features` with `padding` more frames of zeros, as the loader pads.
    fn padded(features: &Tensor<3>, padding: usize) -> Tensor<3> {
        Tensor::cat(vec![features.clone(), Tensor::zeros([1, padding, 20], &features.device())], 1)
    }

    #[test]
    fn an_utterance_has_the_same_logits_alone_padded_and_beside_any_mate() {
        for config in [2, 4, 8].into_iter().flat_map(configs) {
            let model = config.init(20, 7, &Device::flex());
            for num_frames in [9, 31, 32, 33, 50] {
                let (x, mate) = (features(num_frames), features(num_frames + 24));
                let (alone, lens) = model.forward(x.clone(), &[num_frames], &mut Pass::inference());
                let valid = lens[0];
                let (wide, _) =
                    model.forward(padded(&x, 40), &[num_frames], &mut Pass::inference());
                let pair = Tensor::cat(vec![mate, padded(&x, 24)], 0);
                let lens = [num_frames + 24, num_frames];
                let (beside, _) = model.forward(pair, &lens, &mut Pass::inference());
                let tolerance = Tolerance::<f32>::rel_abs(1e-4, 1e-4);
                let want = alone.narrow(1, 0, valid).to_data();
                wide.narrow(1, 0, valid).to_data().assert_approx_eq(&want, tolerance);
                let beside = beside.narrow(0, 1, 1).narrow(1, 0, valid);
                beside.to_data().assert_approx_eq(&want, tolerance);
            }
        }
    }

    #[test]
    fn in_training_padding_changes_neither_logits_nor_batch_statistics() {
        for config in configs(4) {
            padding_in_training(&ModelConfig { dropout: 0.0, attention_dropout: 0.0, ..config });
        }
    }

    fn padding_in_training(plain: &ModelConfig) {
        let model = plain.init(20, 7, &Device::flex().autodiff());
        let both = Tensor::cat(vec![features(50), padded(&features(31), 19)], 0);
        let train = |padding: usize| {
            let wide = Tensor::zeros([2, padding, 20], &Device::flex());
            let x = Tensor::cat(vec![both.clone(), wide], 1);
            let mut pass = Pass::training(1);
            let (logits, lens) = model.forward(Tensor::from_inner(x), &[50, 31], &mut pass);
            let rows = (0..2)
                .map(|row| logits.clone().narrow(0, row, 1).narrow(1, 0, lens[row]).to_data());
            let statistics = pass.statistics.iter();
            let statistics = statistics.flat_map(|seen| [&seen.mean, &seen.variance]);
            rows.chain(statistics.map(|x| x.to_data())).collect::<Vec<_>>()
        };
        let tolerance = Tolerance::<f32>::rel_abs(1e-4, 1e-4);
        let want = train(0);
        assert_eq!(want.len(), 2 + 2 * num_batch_norms(plain));
        for padding in [1, 8, 77] {
            for (got, want) in train(padding).iter().zip(&want) {
                got.assert_approx_eq(want, tolerance);
            }
        }
    }

    #[test]
    fn output_lengths_are_those_of_the_layers_for_every_length() {
        for config in [2, 4, 8].into_iter().flat_map(configs) {
            let model = config.init(20, 7, &Device::flex());
            for num_frames in 1..70 {
                let (logits, lens) =
                    model.forward(features(num_frames), &[num_frames], &mut Pass::inference());
                assert_eq!(logits.dims()[1], config.output_len(num_frames));
                assert_eq!(lens, [config.output_len(num_frames)]);
                assert_eq!(
                    config.output_len(num_frames),
                    num_frames.div_ceil(config.subsampling_factor)
                );
            }
        }
    }

    #[test]
    fn an_utterance_without_frames_is_finite_and_has_no_output() {
        for config in configs(4) {
            let model = config.init(20, 7, &Device::flex());
            let (logits, lens) =
                model.forward(padded(&features(8), 8), &[0], &mut Pass::inference());
            assert_eq!(lens, [0]);
            let values: Vec<f32> = logits.to_data().try_to_vec().unwrap();
            assert!(values.iter().all(|logit| logit.is_finite()));
        }
    }

    #[test]
    fn every_parameter_has_a_gradient() {
        let device = Device::flex().autodiff();
        for config in configs(8) {
            let model = crate::optim::with_stable_ids(config.init(20, 7, &device));
            let x = Tensor::<3>::random([2, 40, 20], Distribution::Normal(0.0, 1.0), &device);
            let (logits, _) = model.forward(x, &[40, 31], &mut Pass::training(1));
            let grads = logits.square().sum().backward();
            let grads = burn::optim::GradientsParams::from_grads(grads, &model);
            let mut missing = Missing { grads: &grads, ids: Vec::new() };
            model.visit(&mut missing);
            // Running means and variances of the batch norms are no parameters.
            assert_eq!(missing.ids.len(), 2 * num_batch_norms(&config));
        }
    }

    #[test]
    fn a_seed_gives_the_same_bits_in_logits_and_gradients() {
        let device = Device::flex().autodiff();
        for config in configs(4) {
            let model = crate::optim::with_stable_ids(config.init(20, 7, &device));
            let x = Tensor::cat(vec![features(60), padded(&features(41), 19)], 0);
            let bits = |seed: u64| {
                let input = Tensor::from_inner(x.clone()).require_grad();
                let (logits, _) =
                    model.forward(input.clone(), &[60, 41], &mut Pass::training(seed));
                let grads = logits.clone().square().sum().backward();
                [logits.inner(), input.grad(&grads).unwrap()]
                    .map(|x| -> Vec<f32> { x.into_data().try_to_vec().unwrap() })
            };
            assert_eq!(bits(3), bits(3), "{config:?}");
            assert_ne!(bits(3), bits(4), "{config:?}");
        }
    }

    struct Missing<'a> {
        grads: &'a burn::optim::GradientsParams,
        ids: Vec<burn::module::ParamId>,
    }

    impl burn::module::ModuleVisitor for Missing<'_> {
        fn visit_float<const D: usize>(&mut self, param: &burn::module::Param<Tensor<D>>) {
            if self.grads.get::<D>(param.id).is_none() {
                self.ids.push(param.id);
            }
        }
    }

    #[test]
    fn sizes_that_no_network_can_have_are_named() {
        type Change = fn(&mut ModelConfig);
        let cases: [(Change, &str); 6] = [
            (|c| c.num_layers = 0, "model.num_layers must be at least 1"),
            (|c| c.num_heads = 3, "model.num_heads = 3 must divide model.hidden_size = 16"),
            (|c| (c.hidden_size, c.num_heads) = (15, 3), "model.hidden_size = 15 must be even"),
            (|c| c.conv_kernel = 4, "model.conv_kernel = 4 must be odd"),
            (|c| c.subsampling_factor = 3, "model.subsampling_factor = 3 must be 2, 4 or 8"),
            (|c| c.dropout = 1.0, "model.dropout = 1 must be at least 0 and below 1"),
        ];
        for (change, message) in cases {
            let mut config = config(4);
            change(&mut config);
            let error = config.validate().unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
