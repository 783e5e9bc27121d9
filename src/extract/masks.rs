//! SpecAugment's masks on features that are on the device: what the host does to features in place,
//! as a product with what is kept of the frames and of the bands.

use burn::tensor::{Tensor, TensorData};

use crate::augment::{MaskFill, Masks};

/// Masks `features` `[B, T, F]`, of which `frame_lens` are valid and the rest is 0, by the masks of each
/// row.
pub fn mask(
    features: Tensor<3>,
    masks: &[Masks],
    frame_lens: &[usize],
    fill: MaskFill,
) -> Tensor<3> {
    if masks.iter().all(|masks| masks.bands.is_empty() && masks.frames.is_empty()) {
        return features;
    }
    let [batch_size, num_frames, num_mels] = features.dims();
    let mut kept_frames = vec![1.0_f32; batch_size * num_frames];
    let mut kept_bands = vec![1.0_f32; batch_size * num_mels];
    for (row, masks) in masks.iter().enumerate() {
        for frames in &masks.frames {
            kept_frames[row * num_frames..][frames.clone()].fill(0.0);
        }
        for bands in &masks.bands {
            kept_bands[row * num_mels..][bands.clone()].fill(0.0);
        }
    }
    let device = features.device();
    let tensor =
        |values, shape: [usize; 3]| Tensor::<3>::from_data(TensorData::new(values, shape), &device);
    let kept_frames = tensor(kept_frames, [batch_size, num_frames, 1]);
    let kept_bands = tensor(kept_bands, [batch_size, 1, num_mels]);
    match fill {
        MaskFill::Zero => features * kept_frames * kept_bands,
        MaskFill::Mean => {
            // A share of each valid frame's sum, so that padding stays 0.
            let mut share = vec![0.0_f32; batch_size * num_frames];
            for (row, len) in frame_lens.iter().enumerate() {
                share[row * num_frames..][..*len].fill(1.0 / (len * num_mels).max(1) as f32);
            }
            let sums = features.clone().sum_dim(2).sum_dim(1);
            let mean = sums * tensor(share, [batch_size, num_frames, 1]);
            let kept = kept_frames * kept_bands;
            features * kept.clone() + (kept * -1.0 + 1.0) * mean
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::SpecAugmentConfig;
    use crate::features::Features;
    use burn::tensor::Device;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn masks_on_the_device_are_those_of_the_host_and_padding_stays_zero() {
        let (num_frames, num_mels, frame_lens) = (50, 16, [50, 31, 0, 1]);
        for (fill, allowed) in [(MaskFill::Zero, 0.0), (MaskFill::Mean, 1e-5)] {
            let config = SpecAugmentConfig {
                fill,
                time_fraction: 0.3,
                freq_width: 6,
                ..SpecAugmentConfig::default()
            };
            let (mut values, mut want, mut masks) = (Vec::new(), Vec::new(), Vec::new());
            for (row, len) in frame_lens.into_iter().enumerate() {
                let data = (0..len * num_mels).map(|i| (i as f32 * 0.7).sin() - 3.0).collect();
                let mut features = Features { data, num_frames: len, num_mels };
                let mut padded = features.data.clone();
                padded.resize(num_frames * num_mels, 0.0);
                values.extend(padded);
                let rng = || ChaCha8Rng::seed_from_u64(row as u64);
                masks.push(config.draw(len, num_mels, &mut rng()));
                config.apply(&mut features.data, num_mels, &mut rng());
                features.data.resize(num_frames * num_mels, 0.0);
                want.extend(features.data);
            }
            let data = TensorData::new(values, [4, num_frames, num_mels]);
            let features = Tensor::<3>::from_data(data, &Device::flex());
            let got = mask(features.clone(), &masks, &frame_lens, fill);
            let got: Vec<f32> = got.to_data().try_to_vec().unwrap();
            let masked = want.iter().zip(&got).filter(|(want, got)| {
                assert!((*want - *got).abs() <= allowed, "{want} {got}");
                **want == 0.0
            });
            let num_padded = (4 * num_frames - 82) * num_mels;
            assert!((fill == MaskFill::Zero) == (masked.count() > num_padded));
            let none = vec![Masks::default(); 4];
            let same = mask(features.clone(), &none, &frame_lens, fill);
            assert_eq!(same.to_data(), features.to_data());
        }
    }
}
