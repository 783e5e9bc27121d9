//! Which frames of a padded batch are real.

use burn::tensor::{Device, Tensor, TensorData};

/// Added to attention scores of padded keys: finite, so that a row without any valid key is
/// uniform rather than NaN, and far below every score.
const MASKED_SCORE: f32 = -1e9;

/// The two shapes in which modules need the mask.
pub(super) struct Mask {
    /// `[B, T, 1]`: 1 for frames of the utterance, 0 for padding.
    pub frames: Tensor<3>,
    /// `[B, 1, 1, T]`: added to attention scores.
    pub scores: Tensor<4>,
    /// Valid frames in the whole batch.
    pub num_valid: usize,
}

impl Mask {
    /// From the valid frames of each utterance and the padded length.
    pub fn new(frame_lens: &[usize], num_frames: usize, device: &Device) -> Self {
        let scores = per_frame(frame_lens, num_frames, 0.0, MASKED_SCORE);
        let b = frame_lens.len();
        Self {
            frames: frames(frame_lens, num_frames, device),
            scores: Tensor::from_data(TensorData::new(scores, [b, 1, 1, num_frames]), device),
            num_valid: frame_lens.iter().sum(),
        }
    }
}

/// `[B, T, 1]`: 1 for frames of the utterance, 0 for padding.
pub(super) fn frames(frame_lens: &[usize], num_frames: usize, device: &Device) -> Tensor<3> {
    let values = per_frame(frame_lens, num_frames, 1.0, 0.0);
    Tensor::from_data(TensorData::new(values, [frame_lens.len(), num_frames, 1]), device)
}

fn per_frame(frame_lens: &[usize], num_frames: usize, valid: f32, padding: f32) -> Vec<f32> {
    frame_lens
        .iter()
        .flat_map(|len| (0..num_frames).map(move |t| if t < *len { valid } else { padding }))
        .collect()
}
