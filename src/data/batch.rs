//! Padded batches, of features or, where the device computes those, of samples with the masks to come.
//! Features behind an utterance's last frame are 0 and never looked at: the model masks by `frame_lens`.
//! What becomes of an utterance depends on (seed, epoch, utterance) alone, never on its batch mates or on
//! which thread prepared it. An utterance that cannot be read any more has no row, and is handed on with
//! its reason.
//!
//! B rows, T frames (padded), F mel bands. A row is an utterance, or one of its views: those lie side by
//! side and differ in their masks alone.

use std::borrow::Cow;

use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::random::{Purpose, stream};
use super::read_ahead::Recording;
use super::{DataError, Dataset, FeaturesOn, PlannedBatch};
use crate::augment::{Augmenter, Draw, MaskFill, Masks};

/// One batch, ready for the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// What goes to the device.
    pub input: BatchInput,
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

/// What goes to the device.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchInput {
    /// `[B, T, F]`, row-major, 0 behind each utterance's end.
    Features(Vec<f32>),
    /// What features and masks are made of there.
    Waveforms(BatchWaveforms),
}

/// The samples of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchWaveforms {
    /// `[B, num_samples]`, row-major, varied already; 0 behind each utterance's end.
    pub samples: Vec<f32>,
    /// Samples of a row, a function of T alone.
    pub num_samples: usize,
    /// Samples of each row.
    pub sample_lens: Vec<usize>,
    /// The masks of each row; none outside training.
    pub masks: Vec<Masks>,
    /// What masked features are set to.
    pub fill: MaskFill,
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

impl Augmentation<'_> {
    fn stream(&self, purpose: Purpose, utterance: usize) -> ChaCha8Rng {
        stream(self.seed, self.epoch, purpose, utterance as u64)
    }
}

/// A batch and the utterances that were planned for it but cannot be read.
pub(super) struct Made {
    /// `None` when no utterance is left.
    pub(super) batch: Option<Batch>,
    pub(super) unreadable: Vec<(usize, DataError)>,
}

/// What the masks of each view are drawn for.
const MASKS: [Purpose; 2] = [Purpose::Augment, Purpose::SecondView];

/// What became of one utterance beside the values of its views.
struct Views {
    frame_len: usize,
    num_samples: usize,
    /// Those that are still to come, of each view.
    masks: Vec<Masks>,
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
    let on_host = dataset.config().features_on == FeaturesOn::Host;
    let num_samples = config.most_samples(num_frames);
    let row_len = if on_host { num_frames * num_mels } else { num_samples };
    let views = augmentation.map_or(1, |how| how.augmenter.views());
    let views_len = views * row_len;
    let mut values = vec![0.0; planned.utterances.len() * views_len];
    let made: Vec<Result<Views, DataError>> = values
        .par_chunks_exact_mut(views_len)
        .zip(planned.utterances.par_iter().zip(&planned.speeds))
        .zip(recordings)
        .map_init(
            || on_host.then(|| dataset.log_mel().scratch()),
            |scratch, ((rows, (&utterance, &speed)), recording)| {
                let samples = varied(dataset, utterance, speed, recording, augmentation)?;
                let of_samples =
                    |frame_len, masks| Ok(Views { frame_len, num_samples: samples.len(), masks });
                let rows = rows.chunks_exact_mut(row_len).zip(MASKS);
                let Some(scratch) = scratch else {
                    let frame_len = config.num_frames(samples.len());
                    let mut masks = Vec::with_capacity(views);
                    for (row, purpose) in rows {
                        row[..samples.len()].copy_from_slice(&samples);
                        masks.push(augmentation.map_or_else(Masks::default, |how| {
                            let rng = &mut how.stream(purpose, utterance);
                            how.augmenter.spec_augment().draw(frame_len, num_mels, rng)
                        }));
                    }
                    return of_samples(frame_len, masks);
                };
                let made = match augmentation {
                    None => dataset.log_mel().compute(scratch, &samples),
                    Some(how) => {
                        let dither = &mut how.stream(Purpose::Dither, utterance);
                        dataset.log_mel().compute_dithered(scratch, &samples, dither)
                    }
                };
                for (row, purpose) in rows {
                    let shown = &mut row[..made.data.len()];
                    shown.copy_from_slice(&made.data);
                    if let Some(how) = augmentation {
                        let rng = &mut how.stream(purpose, utterance);
                        how.augmenter.spec_augment().apply(shown, num_mels, rng);
                    }
                }
                of_samples(made.num_frames, vec![Masks::default(); views])
            },
        )
        .collect();
    let mut batch = Batch {
        input: BatchInput::Features(Vec::new()),
        num_frames,
        num_mels,
        frame_lens: Vec::with_capacity(views * made.len()),
        labels: Vec::with_capacity(views * made.len()),
        utterances: Vec::with_capacity(views * made.len()),
        audio_s: 0.0,
        padded_s: 0.0,
    };
    let mut unreadable = Vec::new();
    let (mut audio_len, mut sample_lens, mut masks) = (0, Vec::new(), Vec::new());
    for (place, (views_of, &utterance)) in made.into_iter().zip(&planned.utterances).enumerate() {
        match views_of {
            Ok(of_utterance) => {
                // Rows move up over those that were left out.
                let to = batch.utterances.len() / views;
                if to < place {
                    values.copy_within(place * views_len..(place + 1) * views_len, to * views_len);
                }
                audio_len += of_utterance.num_samples;
                for view_masks in of_utterance.masks {
                    batch.frame_lens.push(of_utterance.frame_len);
                    batch.labels.push(dataset.labels(utterance));
                    batch.utterances.push(utterance);
                    sample_lens.push(of_utterance.num_samples);
                    masks.push(view_masks);
                }
            }
            Err(error @ (DataError::Audio { .. } | DataError::Changed { .. })) => {
                unreadable.push((utterance, error));
            }
            Err(error) => return Err(error),
        }
    }
    values.truncate(batch.utterances.len() * row_len);
    batch.audio_s = audio_len as f64 / f64::from(config.sample_rate_hz);
    batch.padded_s = (batch.utterances.len() * num_frames) as f64 * config.hop_s();
    batch.input = if on_host {
        BatchInput::Features(values)
    } else {
        let fill = augmentation.map(|how| how.augmenter.spec_augment().fill).unwrap_or_default();
        BatchInput::Waveforms(BatchWaveforms {
            samples: values,
            num_samples,
            sample_lens,
            masks,
            fill,
        })
    };
    Ok(Made { batch: (!batch.is_empty()).then_some(batch), unreadable })
}

/// The samples of an utterance at its speed, in its room, with its noise, at its level.
fn varied<'a>(
    dataset: &'a Dataset,
    utterance: usize,
    speed: f64,
    recording: Option<Recording>,
    augmentation: Option<Augmentation>,
) -> Result<Cow<'a, [f32]>, DataError> {
    let mut samples = dataset.samples_of(utterance, speed, recording)?;
    if let Some(how) = augmentation.filter(|how| how.augmenter.varies_samples()) {
        how.augmenter.vary(samples.to_mut(), |draw| {
            let purpose = match draw {
                Draw::Rir => Purpose::Rir,
                Draw::Noise => Purpose::Noise,
                Draw::Gain => Purpose::Gain,
            };
            how.stream(purpose, utterance)
        })?;
    }
    Ok(samples)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::dataset::tests::dataset;
    use super::*;
    use crate::audio::tests::Scratch;
    use crate::augment::{AugmentConfig, GainConfig, NoiseConfig, RirConfig, SpecAugmentConfig};
    use crate::data::DataConfig;

    fn values(batch: &Batch) -> &[f32] {
        match &batch.input {
            BatchInput::Features(values) => values,
            BatchInput::Waveforms(waveforms) => &waveforms.samples,
        }
    }

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
        assert_eq!(values(&batch)[..row], values(&before)[..row]);
        assert_eq!(values(&batch)[row..], values(&before)[2 * row..3 * row]);
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
        let view = |batch: &Batch, at: usize| values(batch)[at * row..(at + 1) * row].to_vec();
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
        assert_eq!(values(&left)[2 * row..], values(&both)[4 * row..]);
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
            assert_eq!((batch.len(), values(&batch).len()), (3, 3 * 64 * 80));
            assert_eq!(batch.labels[0].len(), 2);
            for b in 0..3 {
                let alone = plan(&[b], 56);
                let alone = whole(&data, &alone, augmentation);
                let len = batch.frame_lens[b];
                assert_eq!(alone.frame_lens, [len]);
                let rows = &values(&batch)[b * 64 * 80..(b + 1) * 64 * 80];
                assert_eq!(rows[..len * 80], values(&alone)[..len * 80]);
                assert!(rows[len * 80..].iter().all(|x| *x == 0.0));
            }
        }
    }

    #[test]
    fn waveforms_and_masks_make_the_features_that_the_host_makes() {
        use crate::features::Features;
        let scratch = Scratch::new("batch-waveforms");
        let parts = [(8_000, "ab"), (4_321, "c"), (5_999, ""), (7_000, "d")];
        let of = |features_on| {
            let config = DataConfig { features_on, cache_audio_mb: 0, ..DataConfig::default() };
            dataset(&scratch, &parts, &config)
        };
        let (host, device) = (of(FeaturesOn::Host), of(FeaturesOn::Device));
        let (one, two) = (varied(&scratch), varied(&scratch).with_views(2));
        let how = |augmenter| Some(Augmentation { augmenter, seed: 3, epoch: 5 });
        scratch.wav("u1.wav", 16_000, &[&[0.0; 100]]);
        for (augmentation, num_rows) in [(None, 3), (how(&one), 3), (how(&two), 6)] {
            let of = |data: &Dataset| {
                let made = make(data, &plan(&[0, 1, 2, 3], 64), augmentation).unwrap();
                assert_eq!(made.unreadable.len(), 1);
                made.batch.unwrap()
            };
            let (want, got) = (of(&host), of(&device));
            let BatchInput::Waveforms(waveforms) = &got.input else { panic!("{got:?}") };
            let mut scratch = host.log_mel().scratch();
            assert_eq!((want.len(), want.audio_s), (num_rows, got.audio_s));
            for row in 0..num_rows {
                let samples = &waveforms.samples[row * waveforms.num_samples..];
                let (len, masks) = (waveforms.sample_lens[row], &waveforms.masks[row]);
                let mut made: Features = host.log_mel().compute(&mut scratch, &samples[..len]);
                masks.apply(&mut made.data, 80, 0.0);
                let features = &values(&want)[row * 64 * 80..];
                assert!(made.data == features[..made.data.len()], "{row}");
                assert_eq!(made.num_frames, want.frame_lens[row]);
                assert!(samples[len..waveforms.num_samples].iter().all(|x| *x == 0.0));
                assert_eq!(augmentation.is_some(), !masks.bands.is_empty());
            }
            assert_eq!(Batch { input: want.input.clone(), ..got }, want);
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
        assert_ne!(values(&on(1, 0)), values(&on(1, 1)));
    }
}
