//! Faults of the data as a whole. All of them are the user's to mend, so each lists places.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use super::{Fault, ManifestError};
use crate::audio::AudioError;
use crate::augment::AugmentError;
use crate::features::FeatureError;
use crate::tokens::UnknownCharacters;

/// Problems of one kind that are shown.
const SHOWN: usize = 3;

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

/// The problems by kind, each kind with its count and its first places.
fn list(problems: &[Problem]) -> String {
    let mut kinds: BTreeMap<Fault, Vec<&Problem>> = BTreeMap::new();
    for problem in problems {
        kinds.entry(problem.fault).or_default().push(problem);
    }
    let mut text = String::new();
    for (fault, problems) in kinds {
        let _ = write!(text, "\n  {} {fault}:", problems.len());
        for problem in problems.iter().take(SHOWN) {
            let _ = write!(text, "\n    {problem}");
        }
        if problems.len() > SHOWN {
            let _ = write!(text, "\n    and {} more", problems.len() - SHOWN);
        }
    }
    text
}

fn counted(padded_s: f64, counted_s: f64) -> String {
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
    #[error("{} of {total} utterances cannot be used:{}", problems.len(), list(problems))]
    Broken {
        /// All of them; the message shows the first of each kind.
        problems: Vec<Problem>,
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
        "utterance {id:?} pads to {padded_s:.2} s (at its slowest speed{counted}) but data.batch_s is {batch_s}; raise data.batch_s or lower data.max_duration_s", counted = counted(*padded_s, *counted_s)
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
        "{utterances} utterances hold {unknown}; correct the transcripts, set data.normalizer = \"basic\", or use other tokens (tokens.kind, tokens.file); first: {first}"
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
