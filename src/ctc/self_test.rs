//! A minute's doubt about a device: does its CTC agree with the f64 reference?

use std::sync::Arc;

use asr_kernels::{Problem, reference};
use burn::tensor::{Device, Tensor, TensorData};

use super::ctc_loss;

/// Largest error of loss and gradient that passes, relative to the loss, absolute for gradients.
pub const TOLERANCE: f64 = 1e-4;

const NUM_FRAMES: usize = 40;
const NUM_CLASSES: usize = 13;

/// The worst error of losses (relative) and gradients (absolute) on a batch with repeats, an
/// empty target, an exactly feasible and an infeasible row; `None` if a value is not finite
/// where it must be, or finite where it must not.
pub fn run(device: &Device) -> Option<f64> {
    let labels =
        [vec![1, 1, 2, 3, 3, 3, 12], vec![], vec![5, 5, 6], vec![4; 20], (0..10).collect()];
    let frame_lens = vec![NUM_FRAMES, 17, 4, 38, 25];
    let problem = Problem::new(NUM_FRAMES, NUM_CLASSES, 11, frame_lens, &labels)
        .expect("the self-test's batch is valid");
    let logits: Vec<f32> =
        (0..problem.num_logits()).map(|i| 6.0 * ((i * i) as f32 * 0.37).sin()).collect();
    let (want_nll, want_grad) = reference::batch(&logits, &problem);

    let device = device.clone().autodiff();
    let data = TensorData::new(logits, [labels.len(), NUM_FRAMES, NUM_CLASSES]);
    let logits = Tensor::<3>::from_data(data, &device).require_grad();
    let nll = ctc_loss(logits.clone(), Arc::new(problem.clone()));
    let feasible: Vec<usize> = (0..labels.len()).filter(|row| problem.is_feasible(*row)).collect();
    let loss = feasible.iter().map(|row| nll.clone().narrow(0, *row, 1)).reduce(|a, b| a + b)?;
    let grads = loss.backward();
    let grad: Vec<f32> = logits.grad(&grads)?.to_data().try_to_vec().ok()?;
    let nll: Vec<f32> = nll.to_data().try_to_vec().ok()?;

    let mut worst = 0.0_f64;
    for (row, (got, want)) in nll.iter().zip(&want_nll).enumerate() {
        if feasible.contains(&row) {
            // The maximum below passes a NaN by.
            if !got.is_finite() {
                return None;
            }
            worst = worst.max((f64::from(*got) - want).abs() / want.max(1.0));
        } else if *got != f32::INFINITY {
            return None;
        }
    }
    for (got, want) in grad.iter().zip(&want_grad) {
        worst = worst.max((f64::from(*got) - want).abs());
    }
    grad.iter().all(|g| g.is_finite()).then_some(worst).filter(|worst| worst.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_passes_by_a_wide_margin() {
        assert!(run(&Device::flex()).unwrap() < TOLERANCE / 4.0);
    }
}
