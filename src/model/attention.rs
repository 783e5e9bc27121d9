//! Multi-head self-attention with relative positions (Dai et al., 2019, section 3.3).
//!
//! Scores are `(q + u) k' + shift((q + v) r')`, scaled; `r` is shared by the whole batch.

use burn::module::{Initializer, Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor, activation::softmax};

use super::ModelConfig;
use super::activation::dropout;
use super::pass::Pass;

#[derive(Module, Debug)]
pub(super) struct Attention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    relative_k_proj: Linear,
    bias_u: Param<Tensor<2>>,
    bias_v: Param<Tensor<2>>,
    #[module(skip)]
    dropout: f64,
}

impl Attention {
    pub fn new(config: &ModelConfig, device: &Device) -> Self {
        let d = config.hidden_size;
        let head_shape = [config.num_heads, d / config.num_heads];
        let linear = LinearConfig::new(d, d).with_bias(config.linear_bias);
        Self {
            q_proj: linear.init(device),
            k_proj: linear.init(device),
            v_proj: linear.init(device),
            o_proj: linear.init(device),
            relative_k_proj: linear.clone().with_bias(false).init(device),
            bias_u: Initializer::Zeros.init(head_shape, device),
            bias_v: Initializer::Zeros.init(head_shape, device),
            dropout: config.attention_dropout,
        }
    }

    /// # Shapes
    ///
    /// - `hidden`: `[B, T, D]`
    /// - `positions`: `[2 T - 1, D]`
    /// - `masked_scores`: `[B, 1, 1, T]`, added to the scores of each key
    pub fn forward(
        &self,
        hidden: Tensor<3>,
        positions: &Tensor<2>,
        masked_scores: &Tensor<4>,
        pass: &mut Pass,
    ) -> Tensor<3> {
        let [b, t, d] = hidden.dims();
        let [num_heads, head_size] = self.bias_u.dims();
        // [B, T, D] to [B, H, T, D / H]
        let heads = |x: Tensor<3>| x.reshape([b, t, num_heads, head_size]).swap_dims(1, 2);
        let bias = |bias: &Param<Tensor<2>>| bias.val().reshape([1, num_heads, 1, head_size]);

        let query = heads(self.q_proj.forward(hidden.clone()));
        let key = heads(self.k_proj.forward(hidden.clone()));
        let value = heads(self.v_proj.forward(hidden));
        let relative_key = self
            .relative_k_proj
            .forward(positions.clone())
            .reshape([1, 2 * t - 1, num_heads, head_size])
            .permute([0, 2, 3, 1]);

        let by_content = (query.clone() + bias(&self.bias_u)).matmul(key.swap_dims(2, 3));
        let by_position = shift((query + bias(&self.bias_v)).matmul(relative_key));
        let scale = (head_size as f64).powf(-0.5);
        let scores = (by_content + by_position).mul_scalar(scale) + masked_scores.clone();
        let weights = dropout(softmax(scores, 3), pass.draw(self.dropout));
        let context = weights.matmul(value).swap_dims(1, 2).reshape([b, t, d]);
        self.o_proj.forward(context)
    }
}

/// Turns scores by relative distance, `[B, H, T, 2 T - 1]`, into scores by key, `[B, H, T, T]`:
/// row `i` starts at distance `i`. A zero column and a reshape move every row one further.
fn shift(scores: Tensor<4>) -> Tensor<4> {
    let [b, h, t, num_positions] = scores.dims();
    let zeros = Tensor::zeros([b, h, t, 1], &scores.device());
    Tensor::cat(vec![zeros, scores], 3)
        .reshape([b, h, num_positions + 1, t])
        .slice([0..b, 0..h, 1..num_positions + 1, 0..t])
        .reshape([b, h, t, num_positions])
        .slice([0..b, 0..h, 0..t, 0..t])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifted_scores_are_indexed_by_query_minus_key() {
        let t = 5;
        // The score of distance `T - 1 - column` is that distance.
        let row: Vec<f32> = (0..2 * t - 1).map(|p| t as f32 - 1.0 - p as f32).collect();
        let scores = Tensor::<1>::from_floats(row.as_slice(), &Device::flex())
            .reshape([1, 1, 1, 2 * t - 1])
            .expand([1, 1, t, 2 * t - 1]);
        let shifted: Vec<f32> = shift(scores).to_data().try_to_vec().unwrap();
        for query in 0..t {
            for key in 0..t {
                assert_eq!(shifted[query * t + key], query as f32 - key as f32);
            }
        }
    }
}
