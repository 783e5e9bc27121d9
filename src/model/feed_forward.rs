//! The macaron feed-forward module: Linear, SiLU, Dropout, Linear.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::{Device, Tensor, activation::silu};

use super::ModelConfig;

#[derive(Module, Debug)]
pub(super) struct FeedForward {
    linear1: Linear,
    linear2: Linear,
    dropout: Dropout,
}

impl FeedForward {
    pub fn new(config: &ModelConfig, device: &Device) -> Self {
        let (outer, inner) = (
            config.hidden_size,
            config.hidden_size * config.feed_forward_expansion,
        );
        Self {
            linear1: LinearConfig::new(outer, inner).init(device),
            linear2: LinearConfig::new(inner, outer).init(device),
            dropout: DropoutConfig::new(config.dropout).init(),
        }
    }

    /// `[B, T, D]` to `[B, T, D]`.
    pub fn forward(&self, hidden: Tensor<3>) -> Tensor<3> {
        let inner = self.dropout.forward(silu(self.linear1.forward(hidden)));
        self.linear2.forward(inner)
    }
}
