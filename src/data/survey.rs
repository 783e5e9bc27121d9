//! The look at the data before training: every recording is decoded once, in parallel. What is broken
//! is collected, all of it, and stops the run; what is merely unwanted (too short, too long, an empty
//! transcript) is dropped, with its reason, its count and its hours. `asr-train check` looks the same way
//! and measures besides.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::{
    DataConfig, DataError, DurationMismatch, EmptyText, Fault, Lengths, Measured, Problem,
    Problems, Utterance,
};
use crate::audio;
use crate::wording::plural;

/// A manifest's duration may be this far off, or this share of it: manifests round.
const DURATION_TOLERANCE_S: f64 = 0.1;
const DURATION_TOLERANCE: f64 = 0.01;

/// The least that audio has whose claimed duration is accepted.
pub fn least_duration_s(claimed_s: f64) -> f64 {
    (claimed_s - DURATION_TOLERANCE_S.max(DURATION_TOLERANCE * claimed_s)).max(0.0)
}

/// Utterances whose outcomes are collected together.
const AT_ONCE: usize = 1 << 16;

/// An utterance whose audio was decoded and measured: 32 bytes, since there may be millions.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// The line of the manifest.
    pub utterance: Utterance,
    /// What few have.
    more: Option<Box<More>>,
    num_samples: u32,
    sample_rate_hz: u32,
}

const _: () = assert!(size_of::<Surveyed>() == 32);

#[derive(Clone, Debug, Default)]
struct More {
    /// The transcript after `data.normalizer`, where that changed it.
    other_text: Option<Box<str>>,
    /// The samples, while the cache has room.
    samples: Option<Arc<[f32]>>,
    /// What else was measured, if it was asked for.
    measured: Option<Measured>,
}

impl Surveyed {
    /// The transcript after `data.normalizer`.
    pub fn text(&self) -> &str {
        let other = self.more.as_ref().and_then(|more| more.other_text.as_deref());
        other.unwrap_or_else(|| self.utterance.text())
    }

    /// Samples at the features' rate, at normal speed.
    pub fn num_samples(&self) -> usize {
        self.num_samples as usize
    }

    /// Length of the audio at normal speed.
    pub fn duration_s(&self) -> f64 {
        f64::from(self.num_samples) / f64::from(self.sample_rate_hz)
    }

    /// The samples, if the cache had room for them.
    pub fn samples(&self) -> Option<&Arc<[f32]>> {
        self.more.as_ref()?.samples.as_ref()
    }

    /// What [`Depth::Measured`] measured.
    pub fn measured(&self) -> Option<&Measured> {
        self.more.as_ref()?.measured.as_ref()
    }
}

/// Why an utterance is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// Shorter than `data.min_duration_s`.
    TooShort,
    /// Longer than `data.max_duration_s`.
    TooLong,
    /// The transcript is empty and `data.empty_text` is `"drop"`.
    EmptyText,
    /// Fewer frames leave the model than its transcript needs.
    Infeasible,
}

impl std::fmt::Display for DropReason {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            DropReason::TooShort => "shorter than data.min_duration_s",
            DropReason::TooLong => "longer than data.max_duration_s",
            DropReason::EmptyText => "empty transcript",
            DropReason::Infeasible => "too few frames to spell its transcript (a smaller model.subsampling_factor leaves more)",
        })
    }
}

/// An utterance that is not used.
#[derive(Clone, Debug)]
pub struct Dropped {
    /// The line of the manifest.
    pub utterance: Utterance,
    /// Why.
    pub reason: DropReason,
    /// Length of the audio.
    pub duration_s: f64,
}

/// What the utterances of one split are.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// In the order of the manifests.
    pub kept: Vec<Surveyed>,
    /// In the order of the manifests.
    pub dropped: Vec<Dropped>,
    /// Durations that disagree with the audio (only with `data.duration_mismatch = "warn"`).
    pub duration_mismatches: usize,
    /// Utterances of `kept` whose recordings were sound when the run began, and why they are not any
    /// more.
    pub gone: Vec<(usize, String)>,
}

impl Survey {
    /// Seconds of audio kept.
    pub fn kept_s(&self) -> f64 {
        self.kept.iter().map(Surveyed::duration_s).sum()
    }

    /// Count and seconds of what was dropped, by reason.
    pub fn dropped_by_reason(&self) -> BTreeMap<DropReason, (usize, f64)> {
        by_reason(&self.dropped)
    }

    /// Refuses a survey of `total` utterances of which none can be used.
    ///
    /// # Errors
    /// [`DataError::NothingLeft`] with the reasons.
    pub fn refuse_nothing(&self, total: usize) -> Result<(), DataError> {
        if self.kept.is_empty() {
            return Err(DataError::NothingLeft { total, reasons: summary(&self.dropped) });
        }
        Ok(())
    }
}

/// Count and seconds by reason.
pub fn by_reason(dropped: &[Dropped]) -> BTreeMap<DropReason, (usize, f64)> {
    let mut reasons: BTreeMap<DropReason, (usize, f64)> = BTreeMap::new();
    for utterance in dropped {
        let (count, seconds) = reasons.entry(utterance.reason).or_default();
        *count += 1;
        *seconds += utterance.duration_s;
    }
    reasons
}

/// What is said of durations that disagree, after their count.
pub fn mismatches_sentence(count: usize) -> &'static str {
    plural(
        count,
        "duration in the manifest disagrees with the audio, which counts",
        "durations in the manifest disagree with the audio, which counts",
    )
}

enum Outcome {
    Kept(Surveyed, bool),
    Gone(Surveyed, String),
    Dropped(Dropped),
    Broken(Box<Problem>),
}

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// What training needs; samples are kept in memory up to `data.cache_audio_mb`.
    Training,
    /// Silence, clipping and fingerprints besides; no samples are kept.
    Measured,
}

/// All that was found in the utterances of one split, broken ones included.
#[derive(Debug, Default)]
pub struct Findings {
    /// What can be used, and what was dropped.
    pub survey: Survey,
    /// What is broken.
    pub problems: Problems,
    /// Utterances looked at.
    pub total: usize,
    /// Seconds of audio that the manifests declare.
    pub declared_s: f64,
}

impl Findings {
    /// What can be used.
    ///
    /// # Errors
    /// [`DataError::Broken`] with every broken utterance; [`DataError::NothingLeft`] when all were
    /// dropped.
    pub fn into_survey(self) -> Result<Survey, DataError> {
        let Findings { survey, problems, total, .. } = self;
        if problems.total() > 0 {
            return Err(DataError::Broken { problems, total });
        }
        survey.refuse_nothing(total)?;
        Ok(survey)
    }
}

/// Decodes and measures `utterances`; `progress` is told each finished one, from any thread.
///
/// # Errors
/// As [`Findings::into_survey`], and settings without a meaning.
pub fn survey(
    utterances: Vec<Utterance>,
    config: &DataConfig,
    sample_rate_hz: u32,
    progress: &(dyn Fn() + Sync),
) -> Result<Survey, DataError> {
    survey_again(utterances, config, sample_rate_hz, None, progress)
}

/// [`survey`] for a run that goes on. A recording that is not what it was when the run began, by its
/// length in `began`, keeps its place and is among [`Survey::gone`]: batches stay those of the run.
///
/// # Errors
/// As [`Findings::into_survey`], and settings without a meaning.
pub fn survey_again(
    utterances: Vec<Utterance>,
    config: &DataConfig,
    sample_rate_hz: u32,
    began: Option<&Lengths>,
    progress: &(dyn Fn() + Sync),
) -> Result<Survey, DataError> {
    let look = Look { config, sample_rate_hz, depth: Depth::Training, began };
    look.at_all(utterances, progress)?.into_survey()
}

/// [`survey`] that goes on where something is broken.
///
/// # Errors
/// When a setting has no meaning.
pub fn inspect(
    utterances: Vec<Utterance>,
    config: &DataConfig,
    sample_rate_hz: u32,
    depth: Depth,
    progress: &(dyn Fn() + Sync),
) -> Result<Findings, DataError> {
    Look { config, sample_rate_hz, depth, began: None }.at_all(utterances, progress)
}

/// How utterances are looked at.
#[derive(Clone, Copy)]
struct Look<'a> {
    config: &'a DataConfig,
    sample_rate_hz: u32,
    depth: Depth,
    began: Option<&'a Lengths>,
}

impl Look<'_> {
    fn at_all(
        self,
        mut utterances: Vec<Utterance>,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Findings, DataError> {
        self.config.validate()?;
        let mut found = Findings {
            total: utterances.len(),
            // The sum of nothing is -0.
            declared_s: utterances.iter().filter_map(Utterance::duration_s).sum::<f64>() + 0.0,
            ..Findings::default()
        };
        let cache_mb = if self.depth == Depth::Training { self.config.cache_audio_mb } else { 0 };
        let cache_left = AtomicUsize::new((cache_mb << 20) / size_of::<f32>());
        let look = |utterance: Utterance| {
            let outcome = self.at(utterance, &cache_left);
            progress();
            outcome
        };
        found.survey.kept.reserve_exact(utterances.len());
        // Some at a time, taken off a list that shrinks: neither the millions nor what was found of
        // them are held twice.
        utterances.reverse();
        while !utterances.is_empty() {
            let part = utterances.split_off(utterances.len().saturating_sub(AT_ONCE));
            utterances.shrink_to_fit();
            let outcomes: Vec<Outcome> = part.into_par_iter().rev().map(look).collect();
            for outcome in outcomes {
                match outcome {
                    Outcome::Kept(surveyed, mismatch) => {
                        found.survey.duration_mismatches += usize::from(mismatch);
                        found.survey.kept.push(surveyed);
                    }
                    Outcome::Gone(surveyed, reason) => {
                        found.survey.gone.push((found.survey.kept.len(), reason));
                        found.survey.kept.push(surveyed);
                    }
                    Outcome::Dropped(dropped) => found.survey.dropped.push(dropped),
                    Outcome::Broken(problem) => found.problems.push(*problem),
                }
            }
        }
        Ok(found)
    }

    fn at(self, utterance: Utterance, cache_left: &AtomicUsize) -> Outcome {
        let config = self.config;
        let text = config.normalizer.normalize(utterance.text());
        let broken = |utterance: &Utterance, fault: Fault, reason: String| {
            Outcome::Broken(Box::new(Problem {
                manifest: utterance.manifest().to_path_buf(),
                line: utterance.line(),
                id: utterance.id().to_owned(),
                fault,
                reason,
            }))
        };
        if text.trim().is_empty() && config.empty_text == EmptyText::Error {
            let reason = "its transcript is empty; set data.empty_text to \"keep\" or \"drop\", or write what is said";
            return broken(&utterance, Fault::EmptyText, reason.into());
        }
        let read = read(&utterance, None, config, self.sample_rate_hz);
        let began = self.began.and_then(|began| began.num_samples(&utterance));
        let (waveform, num_samples, gone) = match (read, began) {
            (Err(error), None) => {
                return broken(&utterance, Fault::of(&error), error.to_string());
            }
            (Err(source), Some(num_samples)) => {
                let id = utterance.id().to_owned();
                (None, num_samples, Some(DataError::Audio { id, source }))
            }
            (Ok(waveform), Some(surveyed)) if waveform.samples.len() != surveyed as usize => {
                let (id, found) = (utterance.id().to_owned(), waveform.samples.len());
                let changed = DataError::Changed { id, surveyed: surveyed as usize, found };
                (None, surveyed, Some(changed))
            }
            (Ok(waveform), _) => match u32::try_from(waveform.samples.len()) {
                Ok(num_samples) => (Some(waveform), num_samples, None),
                Err(_) => {
                    let reason = "it has more than 4 billion samples; cut it into parts";
                    return broken(&utterance, Fault::Unreadable, reason.into());
                }
            },
        };
        let duration_s = f64::from(num_samples) / f64::from(self.sample_rate_hz);
        let claimed = utterance.duration_s().filter(|claimed| {
            gone.is_none()
                && (claimed - duration_s).abs()
                    > DURATION_TOLERANCE_S.max(DURATION_TOLERANCE * duration_s)
        });
        if let (Some(claimed), DurationMismatch::Error) = (claimed, config.duration_mismatch) {
            let path = utterance.audio();
            return broken(
                &utterance,
                Fault::Duration,
                format!(
                    "the manifest says {claimed} s but {path} has {duration_s:.3} s; correct the manifest, or set data.duration_mismatch = \"warn\""
                ),
            );
        }
        let reason = if duration_s < config.min_duration_s {
            Some(DropReason::TooShort)
        } else if duration_s > config.max_duration_s {
            Some(DropReason::TooLong)
        } else if text.trim().is_empty() && config.empty_text == EmptyText::Drop {
            Some(DropReason::EmptyText)
        } else {
            None
        };
        if let Some(reason) = reason {
            return Outcome::Dropped(Dropped { utterance, reason, duration_s });
        }
        let take = |left: usize| left.checked_sub(num_samples as usize);
        let mut more = More {
            other_text: (text != utterance.text()).then(|| text.into_boxed_str()),
            ..More::default()
        };
        if let Some(waveform) = waveform {
            more.measured = (self.depth == Depth::Measured).then(|| Measured::of(&waveform));
            let has_room = cache_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
            more.samples = has_room.is_ok().then(|| waveform.samples.into());
        }
        let is_more =
            more.other_text.is_some() || more.samples.is_some() || more.measured.is_some();
        let surveyed = Surveyed {
            utterance,
            more: is_more.then(|| Box::new(more)),
            num_samples,
            sample_rate_hz: self.sample_rate_hz,
        };
        match gone {
            Some(error) => Outcome::Gone(surveyed, error.to_string()),
            None => Outcome::Kept(surveyed, claimed.is_some()),
        }
    }
}

/// `3 shorter than data.min_duration_s (0.00 h), ...`.
pub fn summary(dropped: &[Dropped]) -> String {
    let reasons = by_reason(dropped);
    let parts = reasons
        .iter()
        .map(|(reason, (count, s))| format!("{count} {reason} ({:.2} h)", s / 3_600.0));
    parts.collect::<Vec<_>>().join(", ")
}

/// The audio of an utterance. A duration without an offset is a claim about the whole recording; with
/// one it bounds the segment. A manifest that names a channel knows better than `data.channel`.
/// `recording` is the bytes of the recording, where they were read ahead.
pub(super) fn read(
    utterance: &Utterance,
    recording: Option<io::Result<&[u8]>>,
    config: &DataConfig,
    rate_hz: u32,
) -> Result<audio::Waveform, audio::AudioError> {
    let offset_s = utterance.offset_s();
    let duration_s = offset_s.and(utterance.duration_s());
    let mut options = config.read_options(rate_hz);
    if let Some(channel) = utterance.channel() {
        options.channel = audio::Channel::Index(channel.into());
    }
    let audio = utterance.audio();
    let waveform = match recording {
        Some(bytes) => audio.decode(bytes, offset_s, duration_s, &options)?,
        None => audio.read(offset_s, duration_s, &options)?,
    };
    // A sound file of length zero reads well, but is no recording of anything.
    if waveform.samples.is_empty() {
        return Err(audio::AudioError::NoSamples { path: audio.name() });
    }
    Ok(waveform)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::audio::tests::{Scratch, tone};
    use crate::data::manifest;

    /// Recordings of these lengths (in samples) and transcripts, and their manifest.
    pub(crate) fn corpus(scratch: &Scratch, parts: &[(usize, &str)]) -> Vec<Utterance> {
        corpus_with(scratch, parts, |_, _| {})
    }

    /// The same with the lines of the manifest changed.
    pub(crate) fn corpus_with(
        scratch: &Scratch,
        parts: &[(usize, &str)],
        change: impl Fn(usize, &mut serde_json::Value),
    ) -> Vec<Utterance> {
        let mut text = String::new();
        for (i, (len, transcript)) in parts.iter().enumerate() {
            let noise = (0..*len).map(|n| ((n * 7_919 + i * 104_729) % 1_000) as f32 / 4_000.0);
            let samples: Vec<f32> = tone(150.0 + 40.0 * i as f64, 16_000, *len)
                .iter()
                .zip(noise)
                .map(|(a, b)| a * 0.5 + b)
                .collect();
            scratch.wav(&format!("u{i}.wav"), 16_000, &[&samples]);
            let mut line = serde_json::json!({"audio_filepath": format!("u{i}.wav"), "text": transcript, "duration": *len as f64 / 16_000.0});
            change(i, &mut line);
            text += &format!("{line}\n");
        }
        manifest::read(&scratch.write("m.jsonl", text.as_bytes())).unwrap()
    }

    /// The same recordings in `num_shards` tar files (WebDataset), and some utterances in files of their
    /// own behind them.
    pub(crate) fn shards(
        scratch: &Scratch,
        parts: &[(usize, &str)],
        num_shards: usize,
        num_loose: usize,
    ) -> Vec<Utterance> {
        let alone = corpus(scratch, parts);
        let in_shards = parts.len() - num_loose;
        let mut all = Vec::new();
        for shard in 0..num_shards {
            let mine = (0..in_shards).filter(|i| i % num_shards == shard);
            let wav = |i: usize| std::fs::read(scratch.0.join(format!("u{i}.wav"))).unwrap();
            let members: Vec<(String, Vec<u8>)> = mine
                .flat_map(|i| {
                    let text = parts[i].1.as_bytes().to_vec();
                    [(format!("u{i}.wav"), wav(i)), (format!("u{i}.txt"), text)]
                })
                .collect();
            let members: Vec<(&str, &[u8])> =
                members.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
            let tar = scratch.write(&format!("s{shard}.tar"), &crate::corpus::archive(&members));
            all.extend(manifest::read(&tar).unwrap());
        }
        all.extend(alone[in_shards..].iter().cloned());
        all
    }

    fn run(utterances: Vec<Utterance>, config: &DataConfig) -> Result<Survey, DataError> {
        survey(utterances, config, 16_000, &|| {})
    }

    #[test]
    fn unwanted_utterances_are_dropped_with_reason_count_and_seconds() {
        let scratch = Scratch::new("survey-drop");
        let utterances = corpus(&scratch, &[(800, "a"), (8_000, "b"), (32_000, "c"), (8_000, " ")]);
        let config = DataConfig {
            max_duration_s: 1.0,
            empty_text: EmptyText::Drop,
            ..DataConfig::default()
        };
        let survey = run(utterances.clone(), &config).unwrap();
        assert_eq!(survey.kept.len(), 1);
        assert_eq!((survey.kept[0].num_samples(), survey.kept_s()), (8_000, 0.5));
        let reasons: Vec<_> = survey.dropped_by_reason().into_iter().collect();
        assert_eq!(
            reasons,
            [
                (DropReason::TooShort, (1, 0.05)),
                (DropReason::TooLong, (1, 2.0)),
                (DropReason::EmptyText, (1, 0.5))
            ]
        );
        let nothing =
            run(utterances, &DataConfig { min_duration_s: 5.0, max_duration_s: 9.0, ..config })
                .unwrap_err();
        assert!(nothing.to_string().contains("4 shorter than data.min_duration_s"), "{nothing}");
    }

    #[test]
    fn every_broken_utterance_is_listed_with_its_place() {
        let scratch = Scratch::new("survey-broken");
        corpus(&scratch, &[(8_000, "a"); 15]);
        for i in 1..14 {
            scratch.write(&format!("u{i}.wav"), b"");
        }
        std::fs::remove_file(scratch.0.join("u14.wav")).unwrap();
        let path = scratch.0.join("m.jsonl");
        let text = std::fs::read_to_string(&path).unwrap().replacen("0.5", "0.7", 1);
        std::fs::write(&path, text).unwrap();
        let utterances = manifest::read(&path).unwrap();
        let error = run(utterances.clone(), &DataConfig::default()).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("15 of 15 utterances"), "{text}");
        for (fault, more) in [
            ("13 recordings hold no samples", "m.jsonl:6, "),
            ("13 recordings hold no samples", "and 12 more: "),
            ("1 recording cannot be opened", "m.jsonl:15: utterance \"u14\""),
            ("1 duration in the manifest is not", "m.jsonl:1: utterance \"u0\""),
        ] {
            assert!(text.contains(fault) && text.contains(more), "{text}");
        }
        assert!(text.lines().count() == 8, "one fault is not told fifteen times: {text}");
        assert!(text.contains("m.jsonl:1: utterance \"u0\": the manifest says 0.7 s"), "{text}");
        assert!(text.contains("m.jsonl:2: utterance \"u1\"") && text.contains("0 bytes"), "{text}");
        let DataError::Broken { problems, .. } = error else { panic!() };
        let mut lines: Vec<usize> =
            problems.by_fault().flat_map(|(_, _, first)| first).map(|p| p.line).collect();
        lines.sort_unstable();
        assert_eq!(lines, (1..=15).collect::<Vec<_>>());

        let warn =
            DataConfig { duration_mismatch: DurationMismatch::Warn, ..DataConfig::default() };
        let survey = run(utterances[..1].to_vec(), &warn).unwrap();
        assert_eq!((survey.duration_mismatches, survey.kept[0].duration_s()), (1, 0.5));
    }

    #[test]
    fn the_cache_never_exceeds_its_budget() {
        let scratch = Scratch::new("survey-cache");
        let utterances = corpus(&scratch, &[(160_000, "a"), (160_000, "b"), (4_000, "c")]);
        let cached = |mb| {
            let config = DataConfig { cache_audio_mb: mb, ..DataConfig::default() };
            let survey = run(utterances.clone(), &config).unwrap();
            survey.kept.iter().filter_map(Surveyed::samples).map(|s| s.len()).sum::<usize>()
        };
        assert_eq!(cached(0), 0);
        assert!(cached(1) <= 1 << 18 && cached(1) >= 160_000);
        assert_eq!(cached(16), 324_000);
    }
}
