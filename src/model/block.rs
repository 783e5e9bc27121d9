//! One Conformer block: half feed-forward, attention, convolution, half feed-forward, norm.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::ModelConfig;
use super::attention::Attention;
use super::convolution::ConvolutionModule;
use super::feed_forward::FeedForward;
use super::layer_norm::LayerNorm;
use super::mask::Mask;
use super::pass::{BatchStatistics, Pass};

#[derive(Module, Debug)]
pub(super) struct Block {
    norm_feed_forward1: LayerNorm,
    feed_forward1: FeedForward,
    norm_self_att: LayerNorm,
    self_attn: Attention,
    norm_conv: LayerNorm,
    conv: ConvolutionModule,
    norm_feed_forward2: LayerNorm,
    feed_forward2: FeedForward,
    norm_out: LayerNorm,
}

impl Block {
    pub fn new(config: &ModelConfig, device: &Device) -> Self {
        let norm = || LayerNorm::new(config.hidden_size, device);
        Self {
            norm_feed_forward1: norm(),
            feed_forward1: FeedForward::new(config, device),
            norm_self_att: norm(),
            self_attn: Attention::new(config, device),
            norm_conv: norm(),
            conv: ConvolutionModule::new(config, device),
            norm_feed_forward2: norm(),
            feed_forward2: FeedForward::new(config, device),
            norm_out: norm(),
        }
    }

    /// `[B, T, D]` to `[B, T, D]`; `positions` is `[2 T - 1, D]`.
    pub fn forward(
        &self,
        hidden: Tensor<3>,
        positions: &Tensor<2>,
        mask: &Mask,
        pass: &mut Pass,
    ) -> Tensor<3> {
        let x = hidden;
        let y = self.norm_feed_forward1.forward(x.clone());
        let x = x + self.feed_forward1.forward(y, pass) * 0.5;
        let y = self.norm_self_att.forward(x.clone());
        let x = x + self.self_attn.forward(y, positions, &mask.scores, pass);
        let y = self.norm_conv.forward(x.clone());
        let x = x + self.conv.forward(y, mask, pass);
        let y = self.norm_feed_forward2.forward(x.clone());
        let x = x + self.feed_forward2.forward(y, pass) * 0.5;
        self.norm_out.forward(x)
    }

    /// Moves the running statistics towards those of `batches`.
    pub fn absorb(&self, batches: &[&BatchStatistics]) {
        self.conv.absorb(batches);
    }
}
