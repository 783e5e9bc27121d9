//! One kind of thing that was found. An error is what training refuses to start with; a warning is what it
//! would train on, measure on or leave out, and hardly anyone means; a note is worth knowing.

use serde::Serialize;

use crate::data::Surveyed;

/// Utterances kept of each finding.
pub(super) const EXAMPLES: usize = 100;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Training does not start.
    Error,
    /// Training would start, and something is most likely wrong.
    Warning,
    /// Worth knowing.
    Note,
}

/// One kind of thing that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The split, or two of them.
    pub split: String,
    /// A name for scripts.
    pub kind: String,
    /// A sentence that starts after its count.
    pub text: String,
    /// How many utterances (or speakers) there are.
    pub count: usize,
    /// The first hundred of them.
    pub examples: Vec<Example>,
}

/// One utterance of a finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Example {
    /// Manifest and line; empty for a speaker.
    pub place: String,
    /// The utterance or speaker.
    pub id: String,
    /// What is with it; empty where the finding says all.
    pub detail: String,
}

impl Example {
    pub(super) fn of(surveyed: &Surveyed, detail: impl Into<String>) -> Example {
        let utterance = &surveyed.utterance;
        Example { place: utterance.place(), id: utterance.id().to_owned(), detail: detail.into() }
    }
}

/// Things of one kind as they are found: all are counted, and the first are kept.
#[derive(Default)]
pub(super) struct Tally {
    count: usize,
    examples: Vec<Example>,
}

impl Tally {
    /// Counts one; it is only put into words while there is room.
    pub fn add(&mut self, example: impl FnOnce() -> Example) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(example());
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The finding, unless nothing was found; `text` makes the sentence for its count.
    pub fn finding<S: Into<String>>(
        self,
        severity: Severity,
        split: &str,
        kind: &str,
        text: impl FnOnce(usize) -> S,
    ) -> Option<Finding> {
        let Tally { count, examples } = self;
        (count > 0).then(|| Finding {
            severity,
            split: split.to_owned(),
            kind: kind.to_owned(),
            text: text(count).into(),
            count,
            examples,
        })
    }
}
