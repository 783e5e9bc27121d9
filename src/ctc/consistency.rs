//! The consistency of two views of an utterance (CR-CTC, Yao et al. 2024, "CR-CTC: Consistency
//! regularization on CTC for improved speech recognition", equation 4): each view's frame
//! distributions learn from the other's, which are held fixed as their target. Masks differ between
//! the views, so that what one lost has to be told from its context.
//!
//! Rows `2 i` and `2 i + 1` of a batch are the views of utterance `i`.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Tensor, TensorData};

/// Rows of an utterance in a batch whose views are compared.
pub const VIEWS: usize = 2;

/// The two Kullback-Leibler divergences between the views of each utterance, summed over its
/// frames and together, in nats; half of it is the paper's loss. The gradient takes each view's
/// target as given.
///
/// # Shapes
///
/// - `logits`: `[2 B, T, C]`; what lies behind a row's `frame_lens` counts nothing
/// - output: `[B]`
///
/// # Panics
///
/// If rows are not pairs, or views differ in length, which no loader makes.
pub fn consistency(logits: Tensor<3>, frame_lens: &[usize]) -> Tensor<1> {
    let [num_rows, num_frames, num_classes] = logits.dims();
    assert_eq!((num_rows % VIEWS, num_rows), (0, frame_lens.len()), "rows come in pairs");
    let batch_size = num_rows / VIEWS;
    let mut valid = vec![0.0_f32; batch_size * num_frames];
    for (row, pair) in frame_lens.chunks_exact(VIEWS).enumerate() {
        assert_eq!(pair[0], pair[1], "both views have the frames of their utterance");
        valid[row * num_frames..][..pair[0]].fill(1.0);
    }
    let valid = TensorData::new(valid, [batch_size, 1, num_frames, 1]);
    let valid = Tensor::<4>::from_data(valid, &logits.device());
    let shape = [batch_size, VIEWS, num_frames, num_classes];
    let log_probs = log_softmax(logits.reshape(shape), 3);
    let targets = log_probs.clone().detach().flip([1]);
    let divergence = targets.clone().exp() * (targets - log_probs) * valid;
    divergence.reshape([batch_size as i64, -1]).sum_dim(1).squeeze_dim(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution};

    fn softmax(logits: &[f32]) -> Vec<f64> {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let exp: Vec<f64> = logits.iter().map(|x| f64::from(x - max).exp()).collect();
        let sum: f64 = exp.iter().sum();
        exp.iter().map(|x| x / sum).collect()
    }

    #[test]
    fn value_and_gradient_are_those_of_the_definition_and_padding_counts_nothing() {
        let (frame_lens, num_frames, num_classes) = ([5, 5, 3, 3, 0, 0], 5, 4);
        for spread in [0.1, 3.0, 40.0] {
            let device = Device::flex().autodiff();
            let shape = [frame_lens.len(), num_frames, num_classes];
            let logits = Tensor::<3>::random(shape, Distribution::Normal(0.0, spread), &device);
            let logits = logits.require_grad();
            let loss = consistency(logits.clone(), &frame_lens);
            let grads = loss.clone().sum().backward();
            let grad: Vec<f32> = logits.grad(&grads).unwrap().to_data().try_to_vec().unwrap();
            let loss: Vec<f32> = loss.to_data().try_to_vec().unwrap();
            let values: Vec<f32> = logits.to_data().try_to_vec().unwrap();

            let frame = |row: usize, t: usize| (row * num_frames + t) * num_classes;
            for (pair, loss) in loss.iter().enumerate() {
                let mut want = 0.0;
                for t in 0..num_frames {
                    let at = [frame(2 * pair, t), frame(2 * pair + 1, t)];
                    let [p, q] = at.map(|at| softmax(&values[at..at + num_classes]));
                    for class in 0..num_classes {
                        let is_valid = t < frame_lens[2 * pair];
                        // d/dx of -sum q log softmax(x) is softmax(x) - q.
                        let slope = if is_valid { p[class] - q[class] } else { 0.0 };
                        assert!((f64::from(grad[at[0] + class]) - slope).abs() < 1e-5);
                        assert!((f64::from(grad[at[1] + class]) + slope).abs() < 1e-5);
                        if is_valid {
                            want += (p[class] - q[class]) * (p[class] / q[class]).ln();
                        }
                    }
                }
                assert!((f64::from(*loss) - want).abs() < 1e-4 * want.max(1.0), "{loss} {want}");
            }
        }
    }

    #[test]
    fn equal_views_agree_and_certain_opposites_stay_finite() {
        let device = Device::flex().autodiff();
        let row = Tensor::<3>::random([1, 6, 3], Distribution::Normal(0.0, 5.0), &device);
        let same = consistency(Tensor::cat(vec![row.clone(), row], 0), &[6, 6]);
        assert_eq!(same.into_scalar::<f32>(), 0.0);
        let opposite = Tensor::<3>::from_floats([[[1e4, -1e4]], [[-1e4, 1e4]]], &device);
        let opposite = opposite.require_grad();
        let loss = consistency(opposite.clone(), &[1, 1]);
        let grads = loss.clone().sum().backward();
        assert!(loss.into_scalar::<f32>().is_finite());
        let grad = opposite.grad(&grads).unwrap().to_data();
        assert!(grad.iter::<f32>().all(|x| x.is_finite()));
    }
}
