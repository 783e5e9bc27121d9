//! Padded batches. Features behind an utterance's last frame are 0 and never looked at: the model
//! masks by `frame_lens`. What becomes of an utterance depends on (seed, epoch, utterance) alone, never
//! on its batch mates or on which thread prepared it.
//!
//! B utterances, T frames (padded), F mel bands.

use rayon::prelude::*;

use super::random::{Purpose, stream};
use super::{DataError, Dataset, PlannedBatch};
use crate::features::SpecAugmentConfig;

/// One batch, ready for the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// `[B, T, F]`, row-major, 0 behind each utterance's end.
    pub features: Vec<f32>,
    /// T.
    pub num_frames: usize,
    /// F.
    pub num_mels: usize,
    /// Frames of each utterance, each at most T.
    pub frame_lens: Vec<usize>,
    /// Labels of each utterance.
    pub labels: Vec<Vec<u32>>,
    /// Indices into the dataset.
    pub utterances: Vec<usize>,
    /// Seconds of audio, as played.
    pub audio_s: f64,
    /// B * T in seconds.
    pub padded_s: f64,
}

impl Batch {
    /// B.
    pub fn len(&self) -> usize {
        self.utterances.len()
    }

    /// Whether there is no utterance (never, for batches of a loader).
    pub fn is_empty(&self) -> bool {
        self.utterances.is_empty()
    }
}

/// What is done to training utterances.
#[derive(Clone, Debug)]
pub(super) struct Augmentation {
    pub(super) seed: u64,
    pub(super) spec_augment: SpecAugmentConfig,
}

/// Makes a planned batch, its utterances in parallel on the current thread pool. `augmentation` comes
/// with the epoch.
pub(super) fn make(
    dataset: &Dataset,
    planned: &PlannedBatch,
    augmentation: Option<(&Augmentation, u64)>,
) -> Result<Batch, DataError> {
    let config = dataset.log_mel().config();
    let (num_frames, num_mels) = (planned.num_frames, config.num_mels);
    let mut features = vec![0.0; planned.utterances.len() * num_frames * num_mels];
    let made: Vec<(usize, usize)> = features
        .par_chunks_exact_mut(num_frames * num_mels)
        .zip(planned.utterances.par_iter().zip(&planned.speeds))
        .map_init(
            || dataset.log_mel().scratch(),
            |scratch, (rows, (&utterance, &speed))| {
                let samples = dataset.samples(utterance, speed)?;
                let made = match augmentation {
                    None => dataset.log_mel().compute(scratch, &samples),
                    Some((how, epoch)) => {
                        let rng = |purpose| stream(how.seed, epoch, purpose, utterance as u64);
                        let mut noise = rng(Purpose::Dither);
                        let mut made =
                            dataset.log_mel().compute_dithered(scratch, &samples, &mut noise);
                        how.spec_augment.apply(&mut made, &mut rng(Purpose::Augment));
                        made
                    }
                };
                rows[..made.data.len()].copy_from_slice(&made.data);
                Ok((made.num_frames, samples.len()))
            },
        )
        .collect::<Result<_, DataError>>()?;
    let samples: usize = made.iter().map(|(_, num_samples)| num_samples).sum();
    Ok(Batch {
        features,
        num_frames,
        num_mels,
        frame_lens: made.iter().map(|(frames, _)| *frames).collect(),
        labels: planned
            .utterances
            .iter()
            .map(|index| dataset.items()[*index].labels.clone())
            .collect(),
        utterances: planned.utterances.clone(),
        audio_s: samples as f64 / f64::from(config.sample_rate_hz),
        padded_s: (planned.utterances.len() * num_frames) as f64 * config.hop_s(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::dataset::tests::dataset;
    use super::*;
    use crate::audio::tests::Scratch;
    use crate::data::DataConfig;

    /// Each utterance has a speed of its own, whoever its mates are.
    fn plan(utterances: &[usize], num_frames: usize) -> PlannedBatch {
        PlannedBatch {
            utterances: utterances.to_vec(),
            speeds: utterances.iter().map(|utterance| [0.9, 1.0, 1.1, 1.0][*utterance]).collect(),
            num_frames,
        }
    }

    #[test]
    fn batch_mates_and_padding_change_nothing() {
        let scratch = Scratch::new("batch-inert");
        let data =
            dataset(&scratch, &[(8_000, "ab"), (4_321, "c"), (5_999, "")], &DataConfig::default());
        let how = Augmentation { seed: 3, spec_augment: SpecAugmentConfig::default() };
        for augmentation in [None, Some((&how, 5))] {
            let planned = plan(&[0, 1, 2], 64);
            let batch = make(&data, &planned, augmentation).unwrap();
            assert_eq!((batch.len(), batch.features.len()), (3, 3 * 64 * 80));
            assert_eq!(batch.labels[0].len(), 2);
            for b in 0..3 {
                let alone = plan(&[b], 56);
                let alone = make(&data, &alone, augmentation).unwrap();
                let len = batch.frame_lens[b];
                assert_eq!(alone.frame_lens, [len]);
                let rows = &batch.features[b * 64 * 80..(b + 1) * 64 * 80];
                assert_eq!(rows[..len * 80], alone.features[..len * 80]);
                assert!(rows[len * 80..].iter().all(|x| *x == 0.0));
            }
        }
    }

    #[test]
    fn draws_follow_the_epoch_and_the_number_of_threads_does_not_matter() {
        let scratch = Scratch::new("batch-threads");
        let data = dataset(
            &scratch,
            &[(8_000, "ab"), (7_000, "c"), (6_000, "d"), (5_000, "e")],
            &DataConfig::default(),
        );
        let how = Augmentation { seed: 3, spec_augment: SpecAugmentConfig::default() };
        let planned = plan(&[3, 1, 0, 2], 64);
        let on = |threads: usize, epoch: u64| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| make(&data, &planned, Some((&how, epoch)))).unwrap()
        };
        assert_eq!(on(1, 0), on(2, 0));
        assert_eq!(on(1, 1), on(3, 1));
        assert_ne!(on(1, 0).features, on(1, 1).features);
    }
}
