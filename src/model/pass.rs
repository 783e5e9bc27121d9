//! One forward pass: where its randomness comes from, and what it found out on the way.
//!
//! Both are passed along rather than kept in globals or in the layers. What is dropped is a
//! function of the pass's seed, so a resumed run drops what an uninterrupted one would have; batch
//! statistics reach the model only when the step is accepted, so a bad step leaves no trace and
//! passes may run side by side.

use burn::tensor::Tensor;

use super::activation::Drop;

/// Mean and variance of each channel over the valid frames of a batch, `[D]`.
pub(super) struct BatchStatistics {
    pub mean: Tensor<1>,
    /// Unbiased.
    pub variance: Tensor<1>,
}

/// One forward pass.
pub struct Pass {
    /// `None` in inference.
    seed: Option<u64>,
    /// Of each batch norm, in the order of the layers.
    pub(super) statistics: Vec<BatchStatistics>,
}

impl Pass {
    /// Nothing is dropped, and running statistics normalise.
    pub fn inference() -> Self {
        Self { seed: None, statistics: Vec::new() }
    }

    /// Dropout by `seed`, and batch statistics.
    pub fn training(seed: u64) -> Self {
        Self { seed: Some(seed), statistics: Vec::new() }
    }

    /// Whether this is a training pass.
    pub(super) fn is_training(&self) -> bool {
        self.seed.is_some()
    }

    /// What the next use drops at `rate`.
    pub(super) fn draw(&mut self, rate: f64) -> Drop {
        let Some(seed) = self.seed.as_mut().filter(|_| rate > 0.0) else { return Drop::NONE };
        // SplitMix64 (Steele et al., 2014): consecutive states give unlike seeds.
        *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Drop { rate, seed: mixed ^ (mixed >> 31) }
    }
}
