//! Sinusoids of relative positions (Dai et al., "Transformer-XL", 2019, appendix B).

use burn::tensor::{Device, Int, Tensor};

/// Position embeddings `[2 T - 1, D]` for relative distances `T - 1` down to `-(T - 1)`; sine
/// and cosine interleaved.
pub(super) fn relative(num_frames: usize, hidden_size: usize, device: &Device) -> Tensor<2> {
    let last = num_frames as i64 - 1;
    let num_positions = 2 * num_frames - 1;
    let distances = Tensor::<1, Int>::arange(-last..last + 1, device).float().neg();
    let pairs = hidden_size / 2;
    let inverse_frequencies: Vec<f32> = (0..pairs)
        .map(|pair| (1e4_f64.powf(-2.0 * pair as f64 / hidden_size as f64)) as f32)
        .collect();
    let inverse_frequencies = Tensor::<1>::from_floats(inverse_frequencies.as_slice(), device);
    let angles = distances.unsqueeze_dim::<2>(1) * inverse_frequencies.unsqueeze_dim::<2>(0);
    Tensor::stack::<3>(vec![angles.clone().sin(), angles.cos()], 2)
        .reshape([num_positions, hidden_size])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_zero_sits_in_the_middle_and_signs_are_mirrored() {
        let table = relative(4, 6, &Device::flex());
        assert_eq!(table.dims(), [7, 6]);
        let rows: Vec<f32> = table.to_data().try_to_vec().unwrap();
        let row = |r: usize| &rows[r * 6..][..6];
        assert_eq!(row(3), [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
        for pair in 0..3 {
            // The first row is the furthest past: distance +3.
            assert!((row(0)[2 * pair] + row(6)[2 * pair]).abs() < 1e-6);
            assert!((row(0)[2 * pair + 1] - row(6)[2 * pair + 1]).abs() < 1e-6);
        }
        assert!((row(0)[0] - 3.0_f32.sin()).abs() < 1e-6);
    }
}
