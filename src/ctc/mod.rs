//! The CTC loss as a differentiable Burn operator.
//!
//! Graves et al., "Connectionist Temporal Classification" (2006). The arithmetic lives in
//! `asr-kernels`, which knows nothing of Burn: CPU loops and CubeCL kernels. Here it joins the
//! autodiff graph: the forward pass computes the gradient with respect to the logits along with
//! the loss, so the backward pass is one multiplication.

mod ops;
pub mod self_test;

use std::sync::Arc;

use asr_kernels::Problem;
use burn::backend::Dispatch;
use burn::tensor::Tensor;

use ops::CtcOps;

/// `-ln p(labels | logits)` of each utterance, in nats.
///
/// # Shapes
///
/// - `logits`: `[B, T, C]`, unnormalised
/// - output: `[B]`; `+inf` with a gradient of exactly 0 where the labels do not fit the frames
///
/// # Panics
///
/// If `logits` has another shape than `problem` was validated for.
pub fn ctc_loss(logits: Tensor<3>, problem: Arc<Problem>) -> Tensor<1> {
    assert_eq!(
        logits.dims(),
        [problem.batch_size(), problem.num_frames(), problem.num_classes()],
        "the logits must have the shape that the CTC problem was validated for"
    );
    Tensor::from_dispatch(Dispatch::ctc_nll(logits.into_dispatch(), problem))
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution, Tolerance};

    fn problem(num_frames: usize) -> Arc<Problem> {
        let labels = [vec![0, 1, 1], vec![], vec![2, 0], vec![3, 3, 3]];
        let frame_lens = vec![num_frames, num_frames - 2, 3, 4];
        Arc::new(Problem::new(num_frames, 5, 4, frame_lens, &labels).unwrap())
    }

    #[test]
    fn loss_and_gradient_equal_the_reference_under_autodiff() {
        let (device, problem) = (Device::flex().autodiff(), problem(7));
        let logits = Tensor::<3>::random([4, 7, 5], Distribution::Normal(0.0, 3.0), &device);
        let logits = logits.require_grad();
        let upstream = Tensor::<1>::from_floats([1.0, -2.0, 0.5, 1.0], &device);

        let nll = ctc_loss(logits.clone(), problem.clone());
        // The last row needs five frames and has four.
        let finite = nll.clone().narrow(0, 0, 3) * upstream.clone().narrow(0, 0, 3);
        let grads = finite.sum().backward();
        let grad: Vec<f32> = logits.grad(&grads).unwrap().to_data().try_to_vec().unwrap();
        let nll: Vec<f32> = nll.to_data().try_to_vec().unwrap();
        let upstream: Vec<f32> = upstream.to_data().try_to_vec().unwrap();

        let values: Vec<f32> = logits.to_data().try_to_vec().unwrap();
        let (want_nll, want_grad) = asr_kernels::reference::batch(&values, &problem);
        assert_eq!(nll[3], f32::INFINITY);
        for row in 0..3 {
            assert!((f64::from(nll[row]) - want_nll[row]).abs() < 1e-4);
        }
        for (at, (got, want)) in grad.iter().zip(&want_grad).enumerate() {
            let row = at / (7 * 5);
            let want = if row == 3 { 0.0 } else { want * f64::from(upstream[row]) };
            assert!((f64::from(*got) - want).abs() < 1e-5, "{at}: {got} for {want}");
        }
    }

    #[test]
    fn the_loss_is_the_same_with_and_without_a_graph() {
        let (device, problem) = (Device::flex(), problem(9));
        let logits = Tensor::<3>::random([4, 9, 5], Distribution::Normal(0.0, 1.0), &device);
        let plain = ctc_loss(logits.clone(), problem.clone());
        let tracked = Tensor::<3>::from_data(logits.to_data(), &device.autodiff()).require_grad();
        let tracked = ctc_loss(tracked, problem);
        let (a, b) = (plain.narrow(0, 0, 3).to_data(), tracked.narrow(0, 0, 3).to_data());
        a.assert_approx_eq::<f32>(&b, Tolerance::rel_abs(1e-6, 1e-6));
    }
}
