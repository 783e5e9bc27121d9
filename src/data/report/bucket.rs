//! How much of a batch is padding, bucket by bucket, on a device that pads to the bucket's length.

use serde::Serialize;

use crate::data::{Dataset, Sampler};

/// One length bucket.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BucketReport {
    /// What its utterances pad to.
    pub num_frames: usize,
    /// The same in seconds.
    pub padded_s: f64,
    /// Utterances in it.
    pub utterances: usize,
    /// Utterances in a full batch.
    pub batch_len: usize,
    /// Percentage of a full batch that is padding, with every utterance at its own speed 1.
    pub padding_percent: f64,
}

impl BucketReport {
    /// The buckets of a sampler over its dataset, shortest first.
    pub fn of(dataset: &Dataset, sampler: &Sampler) -> Vec<BucketReport> {
        let hop_s = dataset.log_mel().config().hop_s();
        let report = |(num_frames, members, batch_len): (usize, &[u32], usize)| {
            let frames: usize =
                members.iter().map(|index| dataset.num_frames(*index as usize, 1.0)).sum();
            let padded = num_frames * members.len();
            BucketReport {
                num_frames,
                padded_s: num_frames as f64 * hop_s,
                utterances: members.len(),
                batch_len,
                padding_percent: 100.0 * (1.0 - frames as f64 / padded as f64),
            }
        };
        sampler.buckets().map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::tests::Scratch;
    use crate::data::dataset::tests::dataset;
    use crate::data::{DataConfig, Padding};

    #[test]
    fn padding_is_what_is_missing_to_the_length_of_the_bucket() {
        let scratch = Scratch::new("bucket-report");
        let config = DataConfig { num_buckets: 1, ..DataConfig::default() };
        let data = dataset(&scratch, &[(12_800, "a"), (6_400, "b")], &config);
        let sampler = Sampler::train(&data, 1, Padding::Bucket).unwrap();
        let buckets = BucketReport::of(&data, &sampler);
        assert_eq!(buckets.len(), 1);
        assert_eq!(
            (buckets[0].num_frames, buckets[0].utterances, buckets[0].batch_len),
            (80, 2, 2)
        );
        assert!((buckets[0].padding_percent - 25.0).abs() < 1e-9);
        assert!((buckets[0].padded_s - 0.8).abs() < 1e-9);
    }
}
