//! A split that is ready to be batched: surveyed audio, labels, and the number of frames each
//! utterance has. Feasibility is judged at the fastest speed, since that copy has the fewest frames.

use std::borrow::Cow;
use std::sync::Arc;

use super::survey::read;
use super::{DataConfig, DataError, DropReason, Dropped, Survey, Surveyed, Utterance};
use crate::audio::{perturbed_len, speed_perturb};
use crate::features::{LogMel, LogMelConfig};
use crate::tokens::{Coverage, Tokens, UnknownCharacters};

/// One utterance of a [`Dataset`]: 64 bytes, since there may be millions.
#[derive(Clone, Debug)]
pub struct Item {
    /// The line of the manifest.
    pub utterance: Utterance,
    /// Samples at normal speed.
    pub num_samples: usize,
    /// Length of the audio at normal speed.
    pub duration_s: f64,
    /// The normalised transcript, where it is not as written.
    other_text: Option<Box<str>>,
    samples: Option<Arc<[f32]>>,
}

const _: () = assert!(size_of::<Item>() == 64);

impl Item {
    /// The normalised transcript.
    pub fn text(&self) -> &str {
        self.other_text.as_deref().unwrap_or_else(|| self.utterance.text())
    }
}

/// Utterances with their vocabulary, and what turns them into features.
pub struct Dataset {
    items: Vec<Item>,
    tokens: Tokens,
    config: DataConfig,
    log_mel: LogMel,
    coverage: Coverage,
    first_unknown: String,
}

impl Dataset {
    /// Looks at the spelling of the transcripts of a survey.
    ///
    /// # Errors
    /// When the features' settings have no meaning.
    pub fn new(
        survey: Survey,
        tokens: &Tokens,
        features: &LogMelConfig,
        config: &DataConfig,
    ) -> Result<Dataset, DataError> {
        config.validate()?;
        let mut dataset = Dataset {
            items: Vec::with_capacity(survey.kept.len()),
            tokens: tokens.clone(),
            config: config.clone(),
            log_mel: LogMel::new(features)?,
            coverage: Coverage::default(),
            first_unknown: String::new(),
        };
        for surveyed in survey.kept {
            let unknown = dataset.coverage.add(tokens, surveyed.text());
            if !unknown.is_empty() && dataset.first_unknown.is_empty() {
                dataset.first_unknown =
                    format!("{}: {:?}", surveyed.utterance.place(), surveyed.utterance.id());
            }
            let (num_samples, duration_s) = (surveyed.num_samples, surveyed.duration_s);
            let Surveyed { utterance, other_text, samples, .. } = surveyed;
            dataset.items.push(Item { utterance, num_samples, duration_s, other_text, samples });
        }
        Ok(dataset)
    }

    /// The utterances; batches refer to them by index.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The classes that spell an utterance (unknown characters left out, see
    /// [`Dataset::unknown_characters`]).
    pub fn labels(&self, index: usize) -> Vec<u32> {
        self.spell(&self.items[index])
    }

    fn spell(&self, item: &Item) -> Vec<u32> {
        self.tokens.encode_known(item.text()).0
    }

    /// The settings of the data.
    pub fn config(&self) -> &DataConfig {
        &self.config
    }

    /// The feature extractor.
    pub fn log_mel(&self) -> &LogMel {
        &self.log_mel
    }

    /// Seconds of audio at normal speed.
    pub fn audio_s(&self) -> f64 {
        self.items.iter().map(|item| item.duration_s).sum()
    }

    /// Characters that the tokens lack, over all transcripts, and the number of utterances with some.
    pub fn unknown_characters(&self) -> (&UnknownCharacters, usize) {
        (&self.coverage.unknown, self.coverage.with_unknown)
    }

    /// How the tokens fit the transcripts.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Refuses transcripts that the tokens cannot spell.
    ///
    /// # Errors
    /// [`DataError::UnknownCharacters`] with counts and the first place.
    pub fn require_known_characters(&self) -> Result<(), DataError> {
        if self.coverage.unknown.is_empty() {
            return Ok(());
        }
        Err(DataError::UnknownCharacters {
            utterances: self.coverage.with_unknown,
            unknown: self.coverage.unknown.clone(),
            first: self.first_unknown.clone(),
        })
    }

    /// Removes the utterances for which `is_feasible(num_frames, labels)` is false, where the frames
    /// are those at the fastest of `speeds`. Returns what was removed.
    ///
    /// # Errors
    /// [`DataError::NothingLeft`] when none was feasible.
    pub fn drop_infeasible(
        &mut self,
        speeds: &[f64],
        is_feasible: impl Fn(usize, &[u32]) -> bool,
    ) -> Result<Vec<Dropped>, DataError> {
        let fastest = speeds.iter().copied().fold(1.0, f64::max);
        let total = self.items.len();
        let features = self.log_mel.config();
        let items = std::mem::take(&mut self.items);
        let (kept, infeasible): (Vec<Item>, Vec<Item>) = items.into_iter().partition(|item| {
            is_feasible(
                features.num_frames(perturbed_len(item.num_samples, fastest)),
                &self.spell(item),
            )
        });
        self.items = kept;
        let dropped: Vec<Dropped> = infeasible
            .into_iter()
            .map(|item| Dropped {
                utterance: item.utterance,
                reason: DropReason::Infeasible,
                duration_s: item.duration_s,
            })
            .collect();
        if self.items.is_empty() {
            return Err(DataError::NothingLeft {
                total,
                reasons: super::survey::summary(&dropped),
            });
        }
        Ok(dropped)
    }

    /// Frames of an utterance at a speed.
    pub fn num_frames(&self, index: usize, speed: f64) -> usize {
        self.log_mel.config().num_frames(perturbed_len(self.items[index].num_samples, speed))
    }

    /// The samples of an utterance at a speed, from memory when they are there.
    ///
    /// # Errors
    /// When the recording cannot be read any more, or is another one.
    pub fn samples(&self, index: usize, speed: f64) -> Result<Cow<'_, [f32]>, DataError> {
        let item = &self.items[index];
        let samples: Cow<[f32]> = match &item.samples {
            Some(samples) => Cow::Borrowed(samples),
            None => {
                let rate_hz = self.log_mel.config().sample_rate_hz;
                let read = read(&item.utterance, &self.config, rate_hz);
                let id = || item.utterance.id().to_owned();
                let samples = read.map_err(|source| DataError::Audio { id: id(), source })?.samples;
                if samples.len() != item.num_samples {
                    return Err(DataError::Changed {
                        id: id(),
                        surveyed: item.num_samples,
                        found: samples.len(),
                    });
                }
                Cow::Owned(samples)
            }
        };
        Ok(if speed == 1.0 { samples } else { Cow::Owned(speed_perturb(&samples, speed)) })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::survey::survey;
    use super::super::survey::tests::corpus;
    use super::*;
    use crate::audio::tests::Scratch;

    pub(crate) fn dataset(
        scratch: &Scratch,
        parts: &[(usize, &str)],
        config: &DataConfig,
    ) -> Dataset {
        let survey = survey(corpus(scratch, parts), config, 16_000, &|| {}).unwrap();
        let tokens = Tokens::from_transcripts(["abcdefgh "]).unwrap();
        Dataset::new(survey, &tokens, &LogMelConfig::default(), config).unwrap()
    }

    #[test]
    fn feasibility_is_judged_at_the_fastest_speed() {
        let scratch = Scratch::new("feasible");
        let mut data = dataset(
            &scratch,
            &[(16_000, "ab"), (8_000, "ab"), (9_000, "ab")],
            &DataConfig::default(),
        );
        let needs_51 = |frames: usize, labels: &[u32]| frames >= 51 && labels.len() == 2;
        let dropped = data.drop_infeasible(&[0.9, 1.0, 1.1], needs_51).unwrap();
        let ids: Vec<&str> = dropped.iter().map(|d| d.utterance.id()).collect();
        assert_eq!(ids, ["u1"], "9000 samples at 1.1 are 8182 samples and 51 frames");
        assert_eq!(data.items().len(), 2);
        let error = data.drop_infeasible(&[1.0], |_, _| false).unwrap_err();
        assert!(error.to_string().contains("2 too few frames"), "{error}");
    }

    #[test]
    fn unknown_characters_are_counted_over_the_split() {
        let scratch = Scratch::new("unknown");
        let data = dataset(
            &scratch,
            &[(8_000, "abz"), (8_000, "a"), (8_000, "zy")],
            &DataConfig::default(),
        );
        let (unknown, utterances) = data.unknown_characters();
        assert_eq!((unknown.counts[&'z'], unknown.counts[&'y'], utterances), (2, 1, 2));
        assert_eq!(data.labels(0).len(), 2);
        let error = data.require_known_characters().unwrap_err().to_string();
        assert!(
            error.contains("m.jsonl:1: \"u0\"") && error.contains("'z' (U+007A) 2x"),
            "{error}"
        );
    }

    #[test]
    fn audio_is_the_same_from_memory_and_from_disk_and_changes_are_noticed() {
        let scratch = Scratch::new("cached");
        let parts = [(8_000, "a"), (9_001, "b")];
        let cached = dataset(&scratch, &parts, &DataConfig::default());
        let uncached =
            dataset(&scratch, &parts, &DataConfig { cache_audio_mb: 0, ..DataConfig::default() });
        for index in 0..2 {
            for speed in [1.0, 0.9] {
                assert_eq!(
                    cached.samples(index, speed).unwrap(),
                    uncached.samples(index, speed).unwrap()
                );
            }
        }
        scratch.wav("u0.wav", 16_000, &[&[0.0; 100]]);
        assert!(matches!(uncached.samples(0, 1.0), Err(DataError::Changed { found: 100, .. })));
        scratch.write("u1.wav", b"");
        assert!(matches!(uncached.samples(1, 1.0), Err(DataError::Audio { .. })));
    }
}
