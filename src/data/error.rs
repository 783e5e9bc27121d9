//! Faults of the data as a whole. All of them are the user's to mend, so each lists places.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Fault, ManifestError};
use crate::audio::AudioError;
use crate::augment::AugmentError;
use crate::features::FeatureError;
use crate::tokens::UnknownCharacters;
use crate::wording::{counted, of_each_kind};

/// Problems of one fault that are shown, if they differ in more than names and numbers.
const SHOWN: usize = 3;

/// Places of others that are shown.
const SHOWN_PLACES: usize = 5;

/// Problems of one fault that are kept.
const KEPT: usize = 100;

/// One broken utterance.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The manifest.
    pub manifest: PathBuf,
    /// Its line, counted from 1.
    pub line: usize,
    /// The utterance.
    pub id: String,
    /// What kind of fault it is.
    pub fault: Fault,
    /// What is wrong, with the way out.
    pub reason: String,
}

impl Problem {
    /// `path:line`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.manifest.display(), self.line)
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}: utterance {:?}: {}", self.place(), self.id, self.reason)
    }
}

/// Broken utterances by fault: all are counted, the first of each fault are kept.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    by_fault: BTreeMap<Fault, (usize, Vec<Problem>)>,
}

impl Problems {
    /// Adds one.
    pub fn push(&mut self, problem: Problem) {
        let (count, first) = self.by_fault.entry(problem.fault).or_default();
        *count += 1;
        if first.len() < KEPT {
            first.push(problem);
        }
    }

    /// How many there are.
    pub fn total(&self) -> usize {
        self.by_fault.values().map(|(count, _)| count).sum()
    }

    /// Each fault with its count and the first of its utterances.
    pub fn by_fault(&self) -> impl Iterator<Item = (Fault, usize, &[Problem])> {
        self.by_fault.iter().map(|(fault, (count, first))| (*fault, *count, first.as_slice()))
    }
}

impl std::fmt::Display for Problems {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        for (fault, count, first) in self.by_fault() {
            write!(f, "\n  {count} {}:", fault.sentence(count))?;
            let shown = of_each_kind(first, SHOWN, |problem| &problem.reason);
            for problem in &shown {
                write!(f, "\n    {problem}")?;
            }
            if count > shown.len() {
                let is_shown = |problem: &Problem| shown.iter().any(|s| std::ptr::eq(*s, problem));
                let rest = first.iter().filter(|problem| !is_shown(problem));
                let mut places: Vec<String> = rest.map(Problem::place).take(SHOWN_PLACES).collect();
                if count - shown.len() > places.len() {
                    places.push("...".into());
                }
                write!(f, "\n    and {} more: {}", count - shown.len(), places.join(", "))?;
            }
        }
        Ok(())
    }
}

fn penalised(padded_s: f64, counted_s: f64) -> String {
    if counted_s > padded_s {
        format!(", counted as {counted_s:.2} s by data.quadratic_duration_s")
    } else {
        String::new()
    }
}

/// Why there is no usable data.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A manifest is wrong.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Utterances are broken.
    #[error("{} of {} cannot be used:{problems}", problems.total(), counted(*total, "utterance"))]
    Broken {
        /// What is wrong with them.
        problems: Problems,
        /// Utterances looked at.
        total: usize,
    },
    /// Nothing is left.
    #[error("no utterance is left of {total}: {reasons}")]
    NothingLeft {
        /// Utterances looked at.
        total: usize,
        /// Why they were dropped, with counts.
        reasons: String,
    },
    /// An utterance is longer than a batch may be.
    #[error(
        "utterance {id:?} pads to {padded_s:.2} s (at its slowest speed{penalised}) but data.batch_s is {batch_s}; raise data.batch_s or lower data.max_duration_s", penalised = penalised(*padded_s, *counted_s)
    )]
    LongerThanBatch {
        /// The longest utterance.
        id: String,
        /// Its padded length.
        padded_s: f64,
        /// What that counts for with `data.quadratic_duration_s`.
        counted_s: f64,
        /// The bound.
        batch_s: f64,
    },
    /// A setting has no meaning.
    #[error("data.{key} = {value}: {reason}")]
    Config {
        /// The setting.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it has to be.
        reason: String,
    },
    /// The features' settings have no meaning.
    #[error(transparent)]
    Features(#[from] FeatureError),
    /// Transcripts hold characters the model cannot spell.
    #[error(
        "{} with {unknown}; correct the transcripts, set data.normalizer = \"basic\", or use other tokens (tokens.kind, tokens.file); first: {first}", counted(*utterances, "transcript")
    )]
    UnknownCharacters {
        /// How many utterances.
        utterances: usize,
        /// Which characters, with counts.
        unknown: UnknownCharacters,
        /// Place of the first.
        first: String,
    },
    /// The augmentation cannot be done.
    #[error(transparent)]
    Augment(#[from] AugmentError),
    /// Too many recordings went bad during the run.
    #[error(
        "{count} of {total} training recordings could not be read any more, which is beyond data.max_bad_percent = {limit_percent}; the last: {last}"
    )]
    TooManyBad {
        /// Distinct utterances left out.
        count: usize,
        /// Utterances of the training set.
        total: usize,
        /// The limit.
        limit_percent: f64,
        /// What is wrong with the last.
        last: String,
    },
    /// A recording that was sound when surveyed is not any more.
    #[error("utterance {id:?}: {source}")]
    Audio {
        /// The utterance.
        id: String,
        /// What is wrong.
        source: AudioError,
    },
    /// A recording changed its length since the survey.
    #[error(
        "utterance {id:?}: the recording has {found} samples but had {surveyed} when the data was checked; do not change recordings during a run"
    )]
    Changed {
        /// The utterance.
        id: String,
        /// Samples at the survey.
        surveyed: usize,
        /// Samples at the second look.
        found: usize,
    },
    /// The thread that prepares batches could not start, or died by a fault of ours.
    #[error("the thread that prepares batches failed: {0}")]
    Loader(String),
}
