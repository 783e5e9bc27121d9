//! The CTC loss as a differentiable [Burn](https://burn.dev) operator.
//!
//! Graves et al., "Connectionist Temporal Classification" (2006). The arithmetic lives in
//! [`asr_kernels`], which knows nothing of Burn: CPU loops, and CubeCL kernels for CUDA, Vulkan and
//! WGSL. Here it joins the autodiff graph: the forward pass computes the gradient with respect to
//! the logits along with the loss, so the backward pass is one multiplication.
//!
//! ```
//! use std::sync::Arc;
//!
//! use asr_ctc::{Problem, ctc_loss};
//! use burn::tensor::{Device, Tensor};
//!
//! let device = Device::flex().autodiff();
//! // One utterance of 3 frames, 4 classes of which 0 is the blank, and the labels 1 2.
//! let problem = Arc::new(Problem::new(3, 4, 0, vec![3], &[vec![1, 2]])?);
//! let logits = Tensor::<3>::zeros([1, 3, 4], &device).require_grad();
//! let nll = ctc_loss(logits.clone(), problem);
//! let grads = nll.clone().sum().backward();
//! // 5 of the 64 paths spell "1 2".
//! assert!((nll.into_scalar::<f32>() - (64.0_f32 / 5.0).ln()).abs() < 1e-5);
//! assert_eq!(logits.grad(&grads).unwrap().dims(), [1, 3, 4]);
//! # Ok::<(), asr_kernels::ProblemError>(())
//! ```
//!
//! What differs from other CTC losses: the loss takes logits, not log-probabilities; the blank may
//! be any class; targets may be of any length; an utterance whose labels do not fit its frames has a
//! loss of `+inf` and a gradient of exactly 0; padding is never read; results are the same to the bit
//! in each run on one device; no length compiles anything anew.

mod ops;

use std::sync::Arc;

pub use asr_kernels::{Problem, ProblemError};
use burn::backend::{Dispatch, DispatchDevice};
use burn::tensor::{DType, Tensor};

use ops::CtcOps;

/// `-ln p(labels | logits)` of each utterance, in nats.
///
/// # Shapes
///
/// - `logits`: `[B, T, C]`, unnormalised, of f32, bf16 or f16
/// - output: `[B]`, f32; `+inf` with a gradient of exactly 0 where the labels do not fit the frames
///
/// # Panics
///
/// If `logits` has another shape than `problem` was validated for, or another type than these; on a
/// GPU, if the batch is beyond what the device launches at once, in the kernel's own words; on a device
/// that it is not written for: ask [`admits`] first.
pub fn ctc_loss(logits: Tensor<3>, problem: Arc<Problem>) -> Tensor<1> {
    assert_eq!(
        logits.dims(),
        [problem.batch_size(), problem.num_frames(), problem.num_classes()],
        "the logits must have the shape that the CTC problem was validated for"
    );
    let dtype = logits.dtype();
    assert!(
        matches!(dtype, DType::F32 | DType::F16 | DType::BF16),
        "CTC takes logits of f32, f16 or bf16, not {dtype:?}; cast them first"
    );
    Tensor::from_dispatch(Dispatch::ctc_nll(logits.into_dispatch(), problem))
}

/// Whether [`ctc_loss`] takes f32 batches like `problem` on `device`, gradient included. Nothing is
/// launched: a training asks at its start for the largest batches to come.
///
/// # Errors
///
/// In the kernel's words: what is too large, and what the device takes. A CPU takes everything, a
/// device that the loss is not written for (a remote one) nothing.
pub fn admits(device: &burn::tensor::Device, problem: &Problem) -> Result<(), Refusal> {
    implementation_takes(device.clone().inner().as_dispatch(), problem)
}

fn implementation_takes(device: &DispatchDevice, problem: &Problem) -> Result<(), Refusal> {
    match device {
        DispatchDevice::Flex(_) => Ok(()),
        #[cfg(feature = "gpu")]
        DispatchDevice::Cube(cube) => {
            let client = cube.client();
            let capacity = asr_kernels::gpu::Capacity::of(&client);
            let dtype = asr_kernels::gpu::LogitsType::F32;
            asr_kernels::gpu::check(&client, dtype, problem, true, &capacity)
                .map_err(|error| Refusal(error.to_string()))
        }
        other => Err(Refusal(format!(
            "the CTC loss is not written for {other:?} (batches of {} with {} frames); it is for \
             CPUs (flex) and, in a build with them, for wgpu, Vulkan and CUDA devices",
            problem.batch_size(),
            problem.num_frames(),
        ))),
    }
}

/// Why a device does not take a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// What the kernels can do on `device`; `None` on the CPU, which has no such limits.
#[cfg(feature = "gpu")]
pub fn capacity(device: &burn::tensor::Device) -> Option<asr_kernels::gpu::Capacity> {
    match device.clone().inner().as_dispatch() {
        DispatchDevice::Cube(cube) => Some(asr_kernels::gpu::Capacity::of(&cube.client())),
        _ => None,
    }
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
    fn a_device_without_an_implementation_is_refused_by_name() {
        admits(&Device::flex(), &problem(7)).unwrap();
        admits(&Device::flex().autodiff(), &problem(7)).unwrap();
        // Whatever is neither the CPU nor one of CubeCL's; a graph's device is stripped before.
        let other = Device::flex().autodiff();
        let refusal = implementation_takes(other.as_dispatch(), &problem(7)).unwrap_err();
        let text = refusal.to_string();
        assert!(text.contains("is not written for Autodiff") && text.contains("flex"), "{text}");
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

    #[test]
    fn sixteen_bit_logits_have_the_loss_and_gradient_of_the_same_values_in_f32() {
        let (device, problem) = (Device::flex().autodiff(), problem(7));
        let exact = Tensor::<3>::random([4, 7, 5], Distribution::Normal(0.0, 3.0), &device);
        for dtype in [DType::BF16, DType::F16] {
            let run = |logits: Tensor<3>| {
                let logits = Tensor::from_inner(logits.inner()).require_grad();
                let nll = ctc_loss(logits.clone(), problem.clone());
                let grads = nll.clone().narrow(0, 0, 3).sum().backward();
                (nll.narrow(0, 0, 3), logits.grad(&grads).unwrap())
            };
            let short = exact.clone().cast(dtype);
            let (nll, grad) = run(short.clone());
            let (want_nll, want_grad) = run(short.cast(DType::F32));
            assert_eq!((nll.dtype(), grad.dtype()), (DType::F32, dtype));
            nll.to_data().assert_approx_eq::<f32>(&want_nll.to_data(), Tolerance::absolute(1e-6));
            let grad = grad.cast(DType::F32).to_data();
            grad.assert_approx_eq::<f32>(&want_grad.to_data(), Tolerance::absolute(5e-3));
        }
    }
}
