//! The macaron feed-forward module: Linear, SiLU, Dropout, Linear.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

use super::ModelConfig;
use super::activation::silu_dropout;
use super::pass::Pass;

#[derive(Module, Debug)]
pub(super) struct FeedForward {
    linear1: Linear,
    linear2: Linear,
    #[module(skip)]
    dropout: f64,
}

impl FeedForward {
    pub fn new(config: &ModelConfig, device: &Device) -> Self {
        let (outer, inner) =
            (config.hidden_size, config.hidden_size * config.feed_forward_expansion);
        Self {
            linear1: LinearConfig::new(outer, inner).with_bias(config.linear_bias).init(device),
            linear2: LinearConfig::new(inner, outer).with_bias(config.linear_bias).init(device),
            dropout: config.dropout,
        }
    }

    /// `[B, T, D]` to `[B, T, D]`.
    pub fn forward(&self, hidden: Tensor<3>, pass: &mut Pass) -> Tensor<3> {
        let inner = silu_dropout(self.linear1.forward(hidden), pass.draw(self.dropout));
        self.linear2.forward(inner)
    }
}
