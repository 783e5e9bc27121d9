//! Padded batches. Features behind an utterance's last frame are 0 and never looked at: the model
//! masks by `frame_lens`. What becomes of an utterance depends on (seed, epoch, utterance) alone, never
//! on its batch mates or on which thread prepared it. An utterance that cannot be read any more has no
//! row, and is handed on with its reason.
//!
//! B rows, T frames (padded), F mel bands. A row is an utterance, or one of its views: those lie side by
//! side and differ in their masks alone.

use rayon::prelude::*;

use super::random::{Purpose, stream};
use super::read_ahead::Recording;
use super::{DataError, Dataset, PlannedBatch};
use crate::augment::{Augmenter, Draw};

/// One batch, ready for the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// `[B, T, F]`, row-major, 0 behind each utterance's end.
    pub features: Vec<f32>,
    /// T.
    pub num_frames: usize,
    /// F.
    pub num_mels: usize,
    /// Frames of each row, each at most T.
    pub frame_lens: Vec<usize>,
    /// Labels of each row.
    pub labels: Vec<Vec<u32>>,
    /// Indices into the dataset, of each row.
    pub utterances: Vec<usize>,
    /// Seconds of audio, as played; views count once.
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

/// What is done to training utterances, and the place of their generators.
#[derive(Clone, Copy)]
pub(super) struct Augmentation<'a> {
    pub(super) augmenter: &'a Augmenter,
    pub(super) seed: u64,
    pub(super) epoch: u64,
}

/// A batch and the utterances that were planned for it but cannot be read.
pub(super) struct Made {
    /// `None` when no utterance is left.
    pub(super) batch: Option<Batch>,
    pub(super) unreadable: Vec<(usize, DataError)>,
}

/// Makes a planned batch, its utterances in parallel on the current thread pool.
///
/// # Errors
/// What concerns more than one utterance's recording.
pub(super) fn make(
    dataset: &Dataset,
    planned: &PlannedBatch,
    augmentation: Option<Augmentation>,
) -> Result<Made, DataError> {
    make_of(dataset, planned, planned.utterances.iter().map(|_| None).collect(), augmentation)
}

/// [`make`] of recordings that were read ahead: one an utterance, none for those that were not.
pub(super) fn make_of(
    dataset: &Dataset,
    planned: &PlannedBatch,
    recordings: Vec<Option<Recording>>,
    augmentation: Option<Augmentation>,
) -> Result<Made, DataError> {
    let config = dataset.log_mel().config();
    let (num_frames, num_mels) = (planned.num_frames, config.num_mels);
    let views = augmentation.map_or(1, |how| how.augmenter.views());
    let row_len = num_frames * num_mels;
    let views_len = views * row_len;
    let mut features = vec![0.0; planned.utterances.len() * views_len];
    let rows: Vec<Result<(usize, usize), DataError>> = features
        .par_chunks_exact_mut(views_len)
        .zip(planned.utterances.par_iter().zip(&planned.speeds))
        .zip(recordings)
        .map_init(
            || dataset.log_mel().scratch(),
            |scratch, ((rows, (&utterance, &speed)), recording)| {
                let mut samples = dataset.samples_of(utterance, speed, recording)?;
                let num_samples = samples.len();
                let Some(how) = augmentation else {
                    let made = dataset.log_mel().compute(scratch, &samples);
                    rows[..made.data.len()].copy_from_slice(&made.data);
                    return Ok((made.num_frames, num_samples));
                };
                let rng = |purpose| stream(how.seed, how.epoch, purpose, utterance as u64);
                if how.augmenter.varies_samples() {
                    how.augmenter.vary(samples.to_mut(), |draw| {
                        rng(match draw {
                            Draw::Rir => Purpose::Rir,
                            Draw::Noise => Purpose::Noise,
                            Draw::Gain => Purpose::Gain,
                        })
                    })?;
                }
                let made = dataset.log_mel().compute_dithered(
                    scratch,
                    &samples,
                    &mut rng(Purpose::Dither),
                );
                let views = rows.chunks_exact_mut(row_len);
                for (row, masks) in views.zip([Purpose::Augment, Purpose::SecondView]) {
                    let shown = &mut row[..made.data.len()];
                    shown.copy_from_slice(&made.data);
                    how.augmenter.spec_augment().apply(shown, num_mels, &mut rng(masks));
                }
                Ok((made.num_frames, num_samples))
            },
        )
        .collect();
    let mut batch = Batch {
        features,
        num_frames,
        num_mels,
        frame_lens: Vec::with_capacity(rows.len()),
        labels: Vec::with_capacity(rows.len()),
        utterances: Vec::with_capacity(rows.len()),
        audio_s: 0.0,
        padded_s: 0.0,
    };
    let mut unreadable = Vec::new();
    let mut num_samples = 0;
    for (place, (row, &utterance)) in rows.into_iter().zip(&planned.utterances).enumerate() {
        match row {
            Ok((frame_len, samples)) => {
                // Rows move up over those that were left out.
                let to = batch.utterances.len() / views;
                if to < place {
                    batch
                        .features
                        .copy_within(place * views_len..(place + 1) * views_len, to * views_len);
                }
                for _ in 0..views {
                    batch.frame_lens.push(frame_len);
                    batch.labels.push(dataset.labels(utterance));
                    batch.utterances.push(utterance);
                }
                num_samples += samples;
            }
            Err(error @ (DataError::Audio { .. } | DataError::Changed { .. })) => {
                unreadable.push((utterance, error));
            }
            Err(error) => return Err(error),
        }
    }
    batch.features.truncate(batch.utterances.len() * row_len);
    batch.audio_s = num_samples as f64 / f64::from(config.sample_rate_hz);
    batch.padded_s = (batch.utterances.len() * num_frames) as f64 * config.hop_s();
    Ok(Made { batch: (!batch.is_empty()).then_some(batch), unreadable })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::dataset::tests::dataset;
    use super::*;
    use crate::audio::tests::Scratch;
    use crate::augment::{AugmentConfig, GainConfig, NoiseConfig, RirConfig, SpecAugmentConfig};
    use crate::data::DataConfig;

    /// Each utterance has a speed of its own, whoever its mates are.
    fn plan(utterances: &[usize], num_frames: usize) -> PlannedBatch {
        PlannedBatch {
            utterances: utterances.to_vec(),
            speeds: utterances.iter().map(|utterance| [0.9, 1.0, 1.1, 1.0][*utterance]).collect(),
            num_frames,
        }
    }

    /// Everything switched on.
    pub(crate) fn varied(scratch: &Scratch) -> Augmenter {
        let hiss: Vec<f32> =
            (0..9_000_u64).map(|i| ((i * 7_919) % 1_009) as f32 / 2_018.0 - 0.25).collect();
        scratch.wav("hiss.wav", 16_000, &[&hiss]);
        let mut room = vec![0.0; 800];
        (room[3], room[200], room[700]) = (0.9, 0.4, -0.2);
        scratch.wav("room.wav", 16_000, &[&room]);
        let manifest = |name: &str| {
            let line = format!("{{\"audio_filepath\": \"{name}.wav\"}}\n");
            vec![scratch.write(&format!("{name}.jsonl"), line.as_bytes())]
        };
        let config = AugmentConfig {
            gain: GainConfig { probability: 0.5, ..GainConfig::default() },
            noise: NoiseConfig { manifests: manifest("hiss"), ..NoiseConfig::default() },
            rir: RirConfig { manifests: manifest("room"), ..RirConfig::default() },
            ..AugmentConfig::default()
        };
        Augmenter::open(&config, &SpecAugmentConfig::default(), 16_000).unwrap()
    }

    /// A batch of which nothing is left out.
    fn whole(data: &Dataset, planned: &PlannedBatch, how: Option<Augmentation>) -> Batch {
        let made = make(data, planned, how).unwrap();
        assert!(made.unreadable.is_empty());
        made.batch.unwrap()
    }

    #[test]
    fn what_cannot_be_read_leaves_its_mates_as_they_are() {
        let scratch = Scratch::new("batch-unreadable");
        let config = DataConfig { cache_audio_mb: 0, ..DataConfig::default() };
        let parts = [(8_000, "ab"), (4_321, "c"), (5_999, ""), (7_000, "d")];
        let data = dataset(&scratch, &parts, &config);
        let augmenter = varied(&scratch);
        let how = Some(Augmentation { augmenter: &augmenter, seed: 3, epoch: 0 });
        let before = whole(&data, &plan(&[0, 1, 2, 3], 64), how);
        std::fs::remove_file(scratch.0.join("u1.wav")).unwrap();
        scratch.wav("u3.wav", 16_000, &[&[0.0; 100]]);
        let made = make(&data, &plan(&[0, 1, 2, 3], 64), how).unwrap();
        let batch = made.batch.unwrap();
        assert_eq!(batch.utterances, [0, 2]);
        assert_eq!(batch.labels, [before.labels[0].clone(), before.labels[2].clone()]);
        let row = 64 * 80;
        assert_eq!(batch.features[..row], before.features[..row]);
        assert_eq!(batch.features[row..], before.features[2 * row..3 * row]);
        assert!((batch.padded_s - 1.28).abs() < 1e-9);
        let [(1, DataError::Audio { .. }), (3, DataError::Changed { .. })] = &made.unreadable[..]
        else {
            panic!("{:?}", made.unreadable)
        };
        let nothing = make(&data, &plan(&[1, 3], 64), how).unwrap();
        assert!(nothing.batch.is_none() && nothing.unreadable.len() == 2);
    }

    #[test]
    fn views_lie_side_by_side_and_differ_in_their_masks_alone() {
        let scratch = Scratch::new("batch-views");
        let config = DataConfig { cache_audio_mb: 0, ..DataConfig::default() };
        let data = dataset(&scratch, &[(8_000, "ab"), (4_321, "c"), (7_000, "d")], &config);
        let planned = plan(&[0, 1, 2], 64);
        let (row, seed, epoch) = (64 * 80, 3, 1);
        let one = varied(&scratch);
        let one = whole(&data, &planned, Some(Augmentation { augmenter: &one, seed, epoch }));
        let two = varied(&scratch).with_views(2);
        let two = Augmentation { augmenter: &two, seed, epoch };
        let both = whole(&data, &planned, Some(two));
        assert_eq!(both.utterances, [0, 0, 1, 1, 2, 2]);
        assert_eq!((both.labels.len(), both.audio_s), (6, one.audio_s));
        let view = |batch: &Batch, at: usize| batch.features[at * row..(at + 1) * row].to_vec();
        for utterance in 0..3 {
            let [first, second] = [0, 1].map(|of| view(&both, 2 * utterance + of));
            assert_eq!(first, view(&one, utterance), "the first view is the only one");
            let len = both.frame_lens[2 * utterance];
            assert_eq!((len, len), (both.frame_lens[2 * utterance + 1], one.frame_lens[utterance]));
            let differ = first.iter().zip(&second).filter(|(a, b)| a != b);
            assert!(differ.clone().count() > 0);
            assert!(differ.clone().all(|(a, b)| *a == 0.0 || *b == 0.0), "masks are zeros");
        }
        // Pairs move up together over what is left out.
        std::fs::remove_file(scratch.0.join("u1.wav")).unwrap();
        let left = make(&data, &planned, Some(two)).unwrap().batch.unwrap();
        assert_eq!(left.utterances, [0, 0, 2, 2]);
        assert_eq!(left.features[2 * row..], both.features[4 * row..]);
    }

    #[test]
    fn batch_mates_and_padding_change_nothing() {
        let scratch = Scratch::new("batch-inert");
        let data =
            dataset(&scratch, &[(8_000, "ab"), (4_321, "c"), (5_999, "")], &DataConfig::default());
        let augmenter = varied(&scratch);
        let how = Augmentation { augmenter: &augmenter, seed: 3, epoch: 5 };
        for augmentation in [None, Some(how)] {
            let planned = plan(&[0, 1, 2], 64);
            let batch = whole(&data, &planned, augmentation);
            assert_eq!((batch.len(), batch.features.len()), (3, 3 * 64 * 80));
            assert_eq!(batch.labels[0].len(), 2);
            for b in 0..3 {
                let alone = plan(&[b], 56);
                let alone = whole(&data, &alone, augmentation);
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
        let augmenter = varied(&scratch);
        let planned = plan(&[3, 1, 0, 2], 64);
        let on = |threads: usize, epoch: u64| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let how = Augmentation { augmenter: &augmenter, seed: 3, epoch };
            pool.install(|| whole(&data, &planned, Some(how)))
        };
        assert_eq!(on(1, 0), on(2, 0));
        assert_eq!(on(1, 1), on(3, 1));
        assert_ne!(on(1, 0).features, on(1, 1).features);
    }
}
