//! Before the first step: read the manifests, decode every recording once, spell every transcript,
//! and leave out, by name, what no model of these sizes could learn.

mod claims;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use asr_kernels::{Problem, required_frames};

use burn::tensor::Device;
use thiserror::Error;

use crate::augment::Augmenter;
use crate::config::RunConfig;
use crate::ctc::{BucketTargets, TargetsError, admits, look_at_targets};
use crate::data::survey::{by_reason, mismatches_sentence};
use crate::data::{
    DataConfig, DataError, Dataset, Depth, Dropped, Findings, Lengths, ManifestError, Padding,
    Sampler, Survey, Utterance, inspect, manifest, survey_again,
};
use crate::policy::{Source, SourceError};
use crate::progress::Screen;
use crate::schedule::ScheduleError;
use crate::tokens::{TokenKind, Tokens, TokensError};
use crate::wording::{counted, plural};

pub use claims::refuse_hopeless;

/// Why there is nothing to train on.
#[derive(Debug, Error)]
pub enum PrepareError {
    /// The data cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// There is no vocabulary.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// The run is too short for its warm-up.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The weights to start from do not say what their vocabulary is.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Too much of the data cannot be learnt.
    #[error(
        "{percent:.1} % of the training utterances have fewer frames than their transcripts need (train.max_infeasible_percent = {limit}); lower model.subsampling_factor, or correct the data; first: {first}"
    )]
    TooManyInfeasible {
        /// The share of such utterances.
        percent: f64,
        /// The limit.
        limit: f64,
        /// Place and id of the first.
        first: String,
    },
}

/// What the progress bar says.
const LOOKING: &str = "checking the recordings";

/// Infeasible utterances listed by name.
const SHOWN: usize = 5;

/// Everything that training needs to know of the data.
pub struct Prepared {
    /// The training set.
    pub train: Arc<Dataset>,
    /// The development set.
    pub dev: Arc<Dataset>,
    /// The vocabulary.
    pub tokens: Tokens,
    /// The order of the training batches.
    pub sampler: Arc<Sampler>,
    /// What is done to the training utterances.
    pub augmenter: Arc<Augmenter>,
    /// What was found, a split each.
    pub summaries: Vec<SplitSummary>,
    /// Training utterances left out because their transcripts do not fit their frames.
    pub infeasible: usize,
    /// What the vocabulary is and how it fits, in a line.
    pub vocabulary: String,
}

impl Prepared {
    /// Says what the device makes of the training targets; see [`look_at_targets`].
    ///
    /// # Errors
    ///
    /// [`TargetsError`] if `ctc.long_targets` refuses some, or a batch is beyond the device.
    pub fn look_at_targets(
        &self,
        config: &RunConfig,
        device: &Device,
        device_name: &str,
    ) -> Result<String, TargetsError> {
        let target = |index: &u32| {
            let index = *index as usize;
            (self.train.labels(index).len(), self.train.items()[index].utterance.id())
        };
        let buckets: Vec<BucketTargets> = self
            .sampler
            .buckets()
            .map(|(num_frames, members, _)| BucketTargets {
                num_frames,
                targets: members.iter().map(target).collect(),
            })
            .collect();
        let text = look_at_targets(device, device_name, &buckets, &config.ctc)?;
        for (num_frames, members, batch_len) in self.sampler.buckets() {
            let length = |index: &usize| self.train.labels(*index).len();
            let longest = members.iter().map(|index| *index as usize).max_by_key(length);
            let Some(longest) = longest else { continue };
            let output_len = config.model.output_len(num_frames);
            let num_rows = batch_len * config.ctc.views();
            let problem = Problem::new(
                output_len,
                self.tokens.num_classes(),
                self.tokens.blank(),
                vec![output_len; num_rows],
                &vec![self.train.labels(longest); num_rows],
            )
            .expect("labels come from these tokens");
            admits(device, &problem).map_err(|refusal| TargetsError::Refused {
                device: device_name.to_owned(),
                num_frames,
                id: self.train.items()[longest].utterance.id().to_owned(),
                reason: refusal.to_string(),
            })?;
        }
        Ok(text)
    }
}

/// What is in a split, and what was left out.
#[derive(Clone, Debug)]
pub struct SplitSummary {
    /// `train`, `dev` or `test`.
    pub split: &'static str,
    /// Utterances used.
    pub utterances: usize,
    /// Seconds used.
    pub audio_s: f64,
    /// The longest utterance, in seconds.
    pub longest_s: f64,
    /// What was left out or is doubtful, a line each.
    pub remarks: Vec<String>,
}

impl SplitSummary {
    /// `train   363 utterances, 0.17 h, longest 4.29 s`.
    pub fn line(&self) -> String {
        format!(
            "{:<5} {:>6} {}, {:.2} h, longest {:.2} s",
            self.split,
            self.utterances,
            plural(self.utterances, "utterance", "utterances"),
            self.audio_s / 3600.0,
            self.longest_s
        )
    }

    /// [`SplitSummary::line`], and the remarks indented below it.
    pub fn lines(&self) -> String {
        let mut text = self.line();
        for remark in &self.remarks {
            text.push_str("\n      ");
            text.push_str(remark);
        }
        text
    }
}

/// Surveys the training and development sets. The vocabulary is that of `saved_tokens` (a resumed
/// run's), or what `config.tokens` says. `began` is how long the recordings were when a resumed run began:
/// what went bad since is left out by name, where in a new run it stops everything. Returns the lengths
/// that this run is of besides.
///
/// # Errors
///
/// [`PrepareError::Data`] listing what is broken, or [`PrepareError::TooManyInfeasible`].
pub fn prepare(
    config: &RunConfig,
    saved_tokens: Option<&str>,
    began: Option<&Lengths>,
    padding: Padding,
    screen: &Screen,
) -> Result<(Prepared, Lengths), PrepareError> {
    // A manifest of data.test that is missing or malformed is found here, not after hours of
    // training; its recordings are read by `check`. So are the clips of the augmentation.
    let Utterances { train, dev, test: _ } = Utterances::read(config)?;
    refuse_hopeless(config, &train)?;
    if let (None, Some(file)) = (saved_tokens, config.tokens.file()) {
        Tokens::load(file)?;
    }
    let augmenter = augmenter(config)?;
    let num_silent = augmenter.silent_noises().count();
    if let Some((place, _)) = augmenter.silent_noises().next() {
        let clips = counted(num_silent, "noise clip");
        tracing::warn!("silent, so that nothing is added: {clips} (first: {place})");
    }
    let rate_hz = config.features.sample_rate_hz;
    let bar = screen.counting(LOOKING, train.len() as u64);
    let train = survey_again(train, &config.data, rate_hz, began, &|| bar.advance())?;
    drop(bar);
    let lengths = Lengths::of(&train, rate_hz);
    let data = config.data.for_evaluation();
    let dev = look(dev, &data, config, Depth::Training, screen)?.into_survey()?;
    let prepared = assemble(config, saved_tokens, padding, augmenter, train, dev)?;
    Ok((prepared, lengths))
}

/// What the manifests list.
pub struct Utterances {
    /// To train on.
    pub train: Vec<Utterance>,
    /// To validate on.
    pub dev: Vec<Utterance>,
    /// To measure on; may be empty.
    pub test: Vec<Utterance>,
}

impl Utterances {
    /// Reads the manifests of all splits, before any recording.
    ///
    /// # Errors
    ///
    /// [`DataError::Manifest`] with what is wrong with any of them.
    pub fn read(config: &RunConfig) -> Result<Utterances, DataError> {
        let splits = [&config.data.train, &config.data.dev, &config.data.test];
        let [train, dev, test] = splits.map(|paths| manifest::read_all(paths));
        let mut errors = Vec::new();
        let mut take = |read: Result<Vec<Utterance>, Vec<ManifestError>>| match read {
            Ok(utterances) => utterances,
            Err(found) => {
                errors.extend(found);
                Vec::new()
            }
        };
        let utterances = Utterances { train: take(train), dev: take(dev), test: take(test) };
        if errors.is_empty() { Ok(utterances) } else { Err(ManifestError::from(errors).into()) }
    }
}

/// Noises and rooms at hand.
///
/// # Errors
///
/// [`DataError::Augment`].
pub fn augmenter(config: &RunConfig) -> Result<Augmenter, DataError> {
    let rate_hz = config.features.sample_rate_hz;
    let augmenter = Augmenter::open(&config.augment, &config.spec_augment, rate_hz)?;
    Ok(augmenter.with_views(config.ctc.views()))
}

/// What [`prepare`] makes of sets that were looked at.
///
/// # Errors
///
/// As [`prepare`].
pub fn assemble(
    config: &RunConfig,
    saved_tokens: Option<&str>,
    padding: Padding,
    augmenter: Augmenter,
    train: Survey,
    dev: Survey,
) -> Result<Prepared, PrepareError> {
    let tokens = match saved_tokens {
        Some(text) => Tokens::parse(text, "tokens.txt".as_ref())?,
        None => choose_tokens(config, train.kept.iter().map(|kept| kept.text()))?,
    };
    let mut summaries = Vec::new();
    let mut dropped = train.dropped.clone();
    let mismatches = train.duration_mismatches;
    let mut train = Dataset::new(train, &tokens, &config.features, &config.data)?;
    train.require_known_characters()?;
    let (total, audio_s) = (train.items().len(), train.audio_s());
    let infeasible = train.drop_infeasible(&config.data.speeds, |num_frames, labels| {
        let (available, needed) = frames(config, num_frames, labels);
        available >= needed
    })?;
    let percent = 100.0 * infeasible.len() as f64 / total as f64;
    if percent > config.train.max_infeasible_percent {
        return Err(PrepareError::TooManyInfeasible {
            percent,
            limit: config.train.max_infeasible_percent,
            first: infeasible.first().map(place).unwrap_or_default(),
        });
    }
    let num_infeasible = infeasible.len();
    let named: Vec<String> = infeasible.iter().take(SHOWN).map(place).collect();
    dropped.extend(infeasible);
    summaries.push(summarise("train", &train, &dropped, mismatches, &named));

    let dev = measured_on("dev", dev, config, &tokens, &mut summaries)?;
    let vocabulary = vocabulary(config, &tokens, (&train, audio_s), &dev);
    let sampler = Arc::new(Sampler::train(&train, config.train.seed, padding)?);
    Ok(Prepared {
        train: Arc::new(train),
        dev: Arc::new(dev),
        tokens,
        sampler,
        augmenter: Arc::new(augmenter),
        summaries,
        infeasible: num_infeasible,
        vocabulary,
    })
}

/// What the config asks for; where it leaves that open, the vocabulary of the weights that the run starts
/// from, if it spells every one of `texts`: then their head is of use.
///
/// # Errors
///
/// [`PrepareError::Source`], or [`PrepareError::Tokens`] of texts that give no such vocabulary.
pub fn choose_tokens<'a>(
    config: &RunConfig,
    texts: impl Iterator<Item = &'a str> + Clone,
) -> Result<Tokens, PrepareError> {
    let is_open = config.tokens.kind == TokenKind::Auto && config.tokens.file().is_none();
    if let (Some(path), true) = (config.init_from(), is_open)
        && let Some(theirs) = Source::open(path)?.describe()?.tokens
        && texts.clone().all(|text| theirs.encode(text).is_ok())
    {
        return Ok(theirs);
    }
    Ok(Tokens::new(&config.tokens, texts)?)
}

/// `tokens 256 bpe pieces, 1.62 a word; 4.3 a second in train, 4.1 in dev, of 12.5 frames a second`.
/// `audio_s` is that of all training utterances that were spelt, those left out since included.
fn vocabulary(
    config: &RunConfig,
    tokens: &Tokens,
    (train, audio_s): (&Dataset, f64),
    dev: &Dataset,
) -> String {
    const RARE: usize = 5;
    let rate =
        |set: &Dataset, audio_s: f64| set.coverage().labels as f64 / audio_s.max(f64::MIN_POSITIVE);
    let frames_per_s = 1.0 / (config.features.hop_s() * config.model.subsampling_factor as f64);
    let mut line = format!(
        "tokens {}, {:.2} a word; {:.1} a second in train, {:.1} in dev, of {frames_per_s:.1} frames a second",
        tokens.describe(),
        train.coverage().labels_per_word(),
        rate(train, audio_s),
        rate(dev, dev.audio_s()),
    );
    let rare = train.coverage().num_rare(tokens, RARE);
    if rare > 0 {
        let occur = plural(rare, "occurs", "occur");
        let _ = write!(line, "; {rare} of them {occur} fewer than {RARE} times in train");
    }
    line
}

/// Frames that leave the model for so many that enter, and frames that the labels need.
pub fn frames(config: &RunConfig, num_frames: usize, labels: &[u32]) -> (usize, usize) {
    (config.model.output_len(num_frames), required_frames(labels))
}

/// A set to measure on. Nothing is left out of it, however short, long or strange: a WER over a
/// part of a set is another set's WER.
///
/// # Errors
///
/// [`DataError`] listing what is broken.
pub fn evaluation_set(
    split: &'static str,
    manifests: &[PathBuf],
    config: &RunConfig,
    tokens: &Tokens,
    screen: &Screen,
    summaries: &mut Vec<SplitSummary>,
) -> Result<Dataset, DataError> {
    let data = config.data.for_evaluation();
    let utterances = manifest::read_all(manifests).map_err(ManifestError::from)?;
    let surveyed = look(utterances, &data, config, Depth::Training, screen)?.into_survey()?;
    measured_on(split, surveyed, config, tokens, summaries)
}

fn measured_on(
    split: &'static str,
    surveyed: Survey,
    config: &RunConfig,
    tokens: &Tokens,
    summaries: &mut Vec<SplitSummary>,
) -> Result<Dataset, DataError> {
    let mut data = config.data.for_evaluation();
    let longest_s = longest(surveyed.kept.iter().map(|kept| kept.duration_s()));
    // Room for the longest utterance by itself, padded as batches are.
    data.batch_s = data.batch_s.max(data.counted_s(longest_s + 1.0));
    let mismatches = surveyed.duration_mismatches;
    let dataset = Dataset::new(surveyed, tokens, &config.features, &data)?;
    summaries.push(summarise(split, &dataset, &[], mismatches, &[]));
    Ok(dataset)
}

/// Looks at the recordings of utterances.
///
/// # Errors
///
/// [`DataError`] of a setting; what is wrong with utterances is among the findings.
pub fn look(
    utterances: Vec<Utterance>,
    data: &DataConfig,
    config: &RunConfig,
    depth: Depth,
    screen: &Screen,
) -> Result<Findings, DataError> {
    let bar = screen.counting(LOOKING, utterances.len() as u64);
    inspect(utterances, data, config.features.sample_rate_hz, depth, &|| bar.advance())
}

fn summarise(
    split: &'static str,
    dataset: &Dataset,
    dropped: &[Dropped],
    duration_mismatches: usize,
    named: &[String],
) -> SplitSummary {
    let mut remarks = Vec::new();
    for (reason, (count, seconds)) in by_reason(dropped) {
        remarks.push(format!("left out: {count} {reason} ({:.2} h)", seconds / 3600.0));
    }
    if !named.is_empty() {
        let mut line = String::from("too few frames:");
        for name in named {
            let _ = write!(line, " {name}");
        }
        remarks.push(line);
    }
    if duration_mismatches > 0 {
        let disagree = mismatches_sentence(duration_mismatches);
        remarks.push(format!("{duration_mismatches} {disagree}"));
    }
    let (unknown, utterances) = dataset.unknown_characters();
    if utterances > 0 {
        let hold = plural(utterances, "transcript holds", "transcripts hold");
        remarks.push(format!("{utterances} {hold} {unknown}: never recognised, counted as errors"));
    }
    remarks.extend(dataset.coverage().altered_remark());
    SplitSummary {
        split,
        utterances: dataset.items().len(),
        audio_s: dataset.audio_s(),
        longest_s: longest(dataset.items().iter().map(|item| item.duration_s())),
        remarks,
    }
}

fn longest(durations_s: impl Iterator<Item = f64>) -> f64 {
    durations_s.fold(0.0, f64::max)
}

fn place(dropped: &Dropped) -> String {
    format!("{} ({:?})", dropped.utterance.place(), dropped.utterance.id())
}
