//! Batch normalisation over the valid frames of a padded batch.
//!
//! Ioffe and Szegedy (2015), with statistics that leave padding out: an utterance's neighbours
//! still matter in training, how much they are padded does not. Names and momentum follow
//! PyTorch's `BatchNorm1d`, whose running variance is the unbiased one.

use burn::module::{Initializer, Module, Param, RunningState};
use burn::tensor::{Device, Tensor};

use super::mask::Mask;
use super::pass::{BatchStatistics, Pass};

const EPSILON: f64 = 1e-5;
const MOMENTUM: f64 = 0.1;

#[derive(Module, Debug)]
pub(super) struct MaskedBatchNorm {
    gamma: Param<Tensor<1>>,
    beta: Param<Tensor<1>>,
    running_mean: RunningState<Tensor<1>>,
    running_var: RunningState<Tensor<1>>,
}

impl MaskedBatchNorm {
    pub fn new(num_channels: usize, device: &Device) -> Self {
        Self {
            gamma: Initializer::Ones.init([num_channels], device),
            beta: Initializer::Zeros.init([num_channels], device),
            running_mean: RunningState::new(Tensor::zeros([num_channels], device)),
            running_var: RunningState::new(Tensor::ones([num_channels], device)),
        }
    }

    /// `[B, T, D]` to `[B, T, D]`; batch statistics in training, running ones otherwise.
    pub fn forward(&self, hidden: Tensor<3>, mask: &Mask, pass: &mut Pass) -> Tensor<3> {
        let (centred, variance) = if pass.is_training() {
            centre(hidden, mask, pass)
        } else {
            let mean = self.running_mean.value().unsqueeze::<3>();
            (hidden - mean, self.running_var.value().unsqueeze::<3>())
        };
        let scale = (variance + EPSILON).sqrt().recip() * self.gamma.val().unsqueeze::<3>();
        centred * scale + self.beta.val().unsqueeze::<3>()
    }

    /// Moves the running statistics towards the mean of those of `batches`.
    pub fn absorb(&self, batches: &[&BatchStatistics]) {
        let share = MOMENTUM / batches.len().max(1) as f64;
        let blend = |running: &RunningState<Tensor<1>>, of: fn(&BatchStatistics) -> &Tensor<1>| {
            let old = running.value_sync().inner();
            let kept = old * if batches.is_empty() { 1.0 } else { 1.0 - MOMENTUM };
            let new = batches.iter().fold(kept, |sum, batch| sum + of(batch).clone() * share);
            running.update(Tensor::from_inner(new));
            running.value_sync();
        };
        blend(&self.running_mean, |batch| &batch.mean);
        blend(&self.running_var, |batch| &batch.variance);
    }
}

/// `hidden` minus its mean over valid frames, and its biased variance `[1, 1, D]`; tells `pass`.
fn centre(hidden: Tensor<3>, mask: &Mask, pass: &mut Pass) -> (Tensor<3>, Tensor<3>) {
    let [_, _, d] = hidden.dims();
    let count = mask.num_valid.max(1) as f64;
    let sum = |x: Tensor<3>| (x * mask.frames.clone()).sum_dim(1).sum_dim(0);
    let mean = sum(hidden.clone()) / count;
    let centred = hidden - mean.clone();
    let variance = sum(centred.clone().square()) / count;
    let unbias = count / (count - 1.0).max(1.0);
    pass.statistics.push(BatchStatistics {
        mean: mean.inner().reshape([d]),
        variance: variance.clone().inner().reshape([d]) * unbias,
    });
    (centred, variance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Distribution, Tolerance};

    #[test]
    fn padding_changes_neither_outputs_nor_running_statistics() {
        let device = Device::flex().autodiff();
        let (b, t, d) = (3, 6, 4);
        let x = Tensor::<3>::random([b, t, d], Distribution::Normal(2.0, 3.0), &device);
        let padding = Tensor::<3>::random([b, 5, d], Distribution::Normal(9.0, 9.0), &device);
        let padded = Tensor::cat(vec![x.clone(), padding], 1);
        let lens = vec![t; b];

        let norm = MaskedBatchNorm::new(d, &device);
        let (mut plain, mut other) = (Pass::training(1), Pass::training(1));
        let want = norm.forward(x, &Mask::new(&lens, t, &device), &mut plain);
        let got = norm.forward(padded, &Mask::new(&lens, t + 5, &device), &mut other);
        let tolerance = Tolerance::<f32>::rel_abs(1e-5, 1e-5);
        got.narrow(1, 0, t).to_data().assert_approx_eq(&want.to_data(), tolerance);
        let (a, b) = (&plain.statistics[0], &other.statistics[0]);
        a.mean.to_data().assert_approx_eq(&b.mean.to_data(), tolerance);
        a.variance.to_data().assert_approx_eq(&b.variance.to_data(), tolerance);
    }

    #[test]
    fn a_batch_is_normalised_and_evaluation_uses_what_training_saw() {
        let device = Device::flex().autodiff();
        let x = Tensor::<3>::random([4, 50, 3], Distribution::Normal(5.0, 2.0), &device);
        let mask = Mask::new(&[50; 4], 50, &device);
        let norm = MaskedBatchNorm::new(3, &device);
        for _ in 0..200 {
            let mut pass = Pass::training(1);
            let y = norm.forward(x.clone(), &mask, &mut pass);
            norm.absorb(&[&pass.statistics[0]]);
            let mean: f32 = y.clone().mean().into_scalar();
            let var: f32 = y.square().mean().into_scalar();
            assert!(mean.abs() < 1e-4 && (var - 1.0).abs() < 1e-3, "{mean} {var}");
        }
        let mask = Mask::new(&[50; 4], 50, &Device::flex());
        let y = norm.valid().forward(x.inner(), &mask, &mut Pass::inference());
        let mean: f32 = y.clone().mean().into_scalar();
        let var: f32 = y.square().mean().into_scalar();
        assert!(mean.abs() < 1e-2 && (var - 1.0).abs() < 2e-2, "{mean} {var}");
    }
}
