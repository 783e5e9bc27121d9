//! A split that is ready to be batched: surveyed audio, labels, and the number of frames each
//! utterance has. Feasibility is judged at the fastest speed, since that copy has the fewest frames.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use super::read_ahead::Recording;
use super::survey::read;
use super::{DataConfig, DataError, DropReason, Dropped, Survey, Surveyed};
use crate::audio::{perturbed_len, speed_perturb};
use crate::corpus::Span;
use crate::features::{LogMel, LogMelConfig};
use crate::tokens::{Coverage, Tokens, UnknownCharacters};

/// Utterances with their vocabulary, and what turns them into features.
pub struct Dataset {
    items: Vec<Surveyed>,
    /// Items whose recordings were known to be unreadable from the start, and why.
    gone: Vec<(usize, String)>,
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
            items: survey.kept,
            gone: survey.gone,
            tokens: tokens.clone(),
            config: config.clone(),
            log_mel: LogMel::new(features)?,
            coverage: Coverage::default(),
            first_unknown: String::new(),
        };
        for surveyed in &dataset.items {
            let unknown = dataset.coverage.add(tokens, surveyed.text());
            if !unknown.is_empty() && dataset.first_unknown.is_empty() {
                dataset.first_unknown =
                    format!("{}: {:?}", surveyed.utterance.place(), surveyed.utterance.id());
            }
        }
        Ok(dataset)
    }

    /// The utterances; batches refer to them by index.
    pub fn items(&self) -> &[Surveyed] {
        &self.items
    }

    /// Items whose recordings were sound when the run began and are not any more, and why.
    pub fn gone(&self) -> &[(usize, String)] {
        &self.gone
    }

    /// The tar file that has to be read for an utterance, and where: none for one in memory or in a
    /// file of its own.
    pub(super) fn member(&self, index: usize) -> Option<(&Path, Span)> {
        let item = &self.items[index];
        if item.samples().is_some() { None } else { item.utterance.member() }
    }

    /// The classes that spell an utterance (unknown characters left out, see
    /// [`Dataset::unknown_characters`]).
    pub fn labels(&self, index: usize) -> Vec<u32> {
        self.spell(&self.items[index])
    }

    fn spell(&self, item: &Surveyed) -> Vec<u32> {
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
        self.items.iter().map(Surveyed::duration_s).sum()
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
        let is_kept: Vec<bool> = self
            .items
            .iter()
            .map(|item| {
                let num_samples = perturbed_len(item.num_samples(), fastest);
                is_feasible(features.num_frames(num_samples), &self.spell(item))
            })
            .collect();
        let mut dropped = Vec::new();
        let mut is_kept_next = is_kept.iter();
        self.items.retain(|item| {
            let is_kept = *is_kept_next.next().expect("there is one for each");
            if !is_kept {
                dropped.push(Dropped {
                    utterance: item.utterance.clone(),
                    reason: DropReason::Infeasible,
                    duration_s: item.duration_s(),
                });
            }
            is_kept
        });
        self.gone.retain(|(index, _)| is_kept[*index]);
        // Both rise: what was removed before each is counted on from the one before it.
        let (mut seen, mut removed) = (0, 0);
        for (index, _) in &mut self.gone {
            removed += is_kept[seen..*index].iter().filter(|is_kept| !**is_kept).count();
            seen = *index;
            *index -= removed;
        }
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
        self.log_mel.config().num_frames(perturbed_len(self.items[index].num_samples(), speed))
    }

    /// The samples of an utterance at a speed, from memory when they are there.
    ///
    /// # Errors
    /// When the recording cannot be read any more, or is another one.
    pub fn samples(&self, index: usize, speed: f64) -> Result<Cow<'_, [f32]>, DataError> {
        self.samples_of(index, speed, None)
    }

    /// [`Dataset::samples`] of a recording whose bytes were read ahead, or could not be.
    pub(super) fn samples_of(
        &self,
        index: usize,
        speed: f64,
        recording: Option<Recording>,
    ) -> Result<Cow<'_, [f32]>, DataError> {
        let item = &self.items[index];
        let samples: Cow<[f32]> = match item.samples() {
            Some(samples) => Cow::Borrowed(samples),
            None => {
                let rate_hz = self.log_mel.config().sample_rate_hz;
                let bytes = recording.as_ref().map(|recording| match recording {
                    Ok(bytes) => Ok(bytes.as_slice()),
                    Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
                });
                let read = read(&item.utterance, bytes, &self.config, rate_hz);
                let id = || item.utterance.id().to_owned();
                let samples = read.map_err(|source| DataError::Audio { id: id(), source })?.samples;
                if samples.len() != item.num_samples() {
                    return Err(DataError::Changed {
                        id: id(),
                        surveyed: item.num_samples(),
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
    use super::super::Utterance;
    use super::super::survey::survey;
    use super::super::survey::tests::corpus;
    use super::*;
    use crate::audio::tests::Scratch;

    pub(crate) fn dataset(
        scratch: &Scratch,
        parts: &[(usize, &str)],
        config: &DataConfig,
    ) -> Dataset {
        of_utterances(corpus(scratch, parts), config)
    }

    pub(crate) fn of_utterances(utterances: Vec<Utterance>, config: &DataConfig) -> Dataset {
        let survey = survey(utterances, config, 16_000, &|| {}).unwrap();
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
