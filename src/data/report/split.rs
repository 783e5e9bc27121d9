//! One split: what is in it, and what is wrong with its utterances one by one.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{EXAMPLES, Example, Finding, Rules, Severity, Split};
use crate::audio::perturbed_len;
use crate::data::{DropReason, Fault, Surveyed};
use crate::tokens::Coverage;

/// A column of the report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SplitReport {
    /// `train`, `dev` or `test`.
    pub split: String,
    /// Lines of the manifests.
    pub utterances: usize,
    /// Those that are used.
    pub usable: usize,
    /// Seconds of audio used.
    pub audio_s: f64,
    /// Seconds that the manifests declare for all.
    pub declared_s: f64,
    /// The shortest used.
    pub shortest_s: f64,
    /// Half of those used are shorter.
    pub median_s: f64,
    /// The longest used.
    pub longest_s: f64,
    /// Recordings at each rate.
    pub rates_hz: BTreeMap<u32, usize>,
    /// Recordings with each number of channels.
    pub channels: BTreeMap<usize, usize>,
    /// Percentage of the time below -60 dB of full scale.
    pub silent_percent: f64,
    /// Recordings that clip.
    pub clipped: usize,
    /// Speakers named.
    pub speakers: usize,
    /// Distinct transcripts.
    pub texts: usize,
}

/// The column of a split, and its findings.
pub(super) fn look(split: &Split, rules: &Rules) -> (SplitReport, Vec<Finding>) {
    let mut findings = broken(split);
    findings.extend(dropped(split));
    let kept = &split.findings.survey.kept;
    let infeasible = infeasible(split, rules);
    let num_infeasible = infeasible.as_ref().map_or(0, |finding| finding.count);
    findings.extend(infeasible);
    findings.extend(spelling(split, rules));
    findings.extend(doubtful(split));
    // Nothing that can be measured on is left out of an error rate.
    let num_left_out = if split.is_train() { num_infeasible } else { 0 };
    (column(split, kept, kept.len() - num_left_out), findings)
}

impl Split<'_> {
    pub(super) fn is_train(&self) -> bool {
        self.name == "train"
    }

    fn finding(
        &self,
        severity: Severity,
        kind: &str,
        text: impl Into<String>,
        all: Vec<Example>,
    ) -> Option<Finding> {
        let count = all.len();
        let examples = all.into_iter().take(EXAMPLES).collect();
        (count > 0).then(|| Finding {
            severity,
            split: self.name.to_owned(),
            kind: kind.to_owned(),
            text: text.into(),
            count,
            examples,
        })
    }
}

fn column(split: &Split, kept: &[Surveyed], usable: usize) -> SplitReport {
    let mut column = SplitReport {
        split: split.name.to_owned(),
        utterances: split.findings.total,
        usable,
        declared_s: split.findings.declared_s,
        ..SplitReport::default()
    };
    let mut durations: Vec<f64> = kept.iter().map(|kept| kept.duration_s).collect();
    durations.sort_by(f64::total_cmp);
    // The sum of nothing is -0.
    column.audio_s = durations.iter().sum::<f64>() + 0.0;
    column.shortest_s = durations.first().copied().unwrap_or_default();
    column.median_s = durations.get(durations.len() / 2).copied().unwrap_or_default();
    column.longest_s = durations.last().copied().unwrap_or_default();
    let mut silent_s = 0.0;
    for kept in kept {
        let Some(measured) = &kept.measured else { continue };
        *column.rates_hz.entry(measured.recorded_hz).or_default() += 1;
        *column.channels.entry(measured.num_channels).or_default() += 1;
        column.clipped += usize::from(measured.clipped_runs > 0);
        silent_s += f64::from(measured.silent_share) * kept.duration_s;
    }
    column.silent_percent = 100.0 * silent_s / column.audio_s.max(f64::MIN_POSITIVE);
    let speakers = kept.iter().filter_map(|kept| kept.utterance.speaker());
    column.speakers = speakers.collect::<BTreeSet<_>>().len();
    column.texts = kept.iter().map(|kept| kept.text()).collect::<BTreeSet<_>>().len();
    column
}

fn broken(split: &Split) -> Vec<Finding> {
    let mut kinds: BTreeMap<Fault, Vec<Example>> = BTreeMap::new();
    for problem in &split.findings.problems {
        kinds.entry(problem.fault).or_default().push(Example {
            place: problem.place(),
            id: problem.id.clone(),
            detail: problem.reason.clone(),
        });
    }
    let finding = |(fault, examples): (Fault, _)| {
        split.finding(Severity::Error, fault.name(), fault.to_string(), examples)
    };
    kinds.into_iter().filter_map(finding).collect()
}

fn dropped(split: &Split) -> Vec<Finding> {
    let mut kinds: BTreeMap<DropReason, Vec<Example>> = BTreeMap::new();
    for dropped in &split.findings.survey.dropped {
        kinds.entry(dropped.reason).or_default().push(Example {
            place: dropped.utterance.place(),
            id: dropped.utterance.id().to_owned(),
            detail: format!("{:.2} s", dropped.duration_s),
        });
    }
    let finding = |(reason, examples): (DropReason, _)| {
        split.finding(Severity::Note, "left_out", format!("left out: {reason}"), examples)
    };
    kinds.into_iter().filter_map(finding).collect()
}

impl Rules<'_> {
    /// What training would use of a split.
    pub fn usable<'a>(&self, split: &Split<'a>) -> impl Iterator<Item = &'a Surveyed> {
        let fastest = split.fastest;
        let kept = split.findings.survey.kept.iter();
        kept.filter(move |kept| self.missing_frames(kept, fastest).is_none())
    }

    /// The frames that leave the model and those that the transcript needs, if those are more.
    fn missing_frames(&self, kept: &Surveyed, fastest: f64) -> Option<(usize, usize)> {
        let (labels, _) = self.tokens?.encode_known(kept.text());
        let num_frames = self.features.num_frames(perturbed_len(kept.num_samples, fastest));
        let (available, needed) = (self.frames)(num_frames, &labels);
        (available < needed).then_some((available, needed))
    }
}

/// Transcripts that do not fit the frames that leave the model at the fastest speed.
fn infeasible(split: &Split, rules: &Rules) -> Option<Finding> {
    let kept = &split.findings.survey.kept;
    let example = |kept| {
        let (available, needed) = rules.missing_frames(kept, split.fastest)?;
        let detail = format!("{available} frames leave the model, {needed} are needed");
        Some(Example::of(kept, detail))
    };
    let all: Vec<Example> = kept.iter().filter_map(example).collect();
    let percent = 100.0 * all.len() as f64 / kept.len().max(1) as f64;
    let at =
        if split.fastest > 1.0 { format!(" at speed {}", split.fastest) } else { String::new() };
    let (severity, then) = match (split.is_train(), percent > rules.max_infeasible_percent) {
        (true, true) => (
            Severity::Error,
            format!(
                "more than train.max_infeasible_percent = {}; lower model.subsampling_factor, or correct the data",
                rules.max_infeasible_percent
            ),
        ),
        (true, false) => (Severity::Warning, "left out".to_owned()),
        (false, _) => (Severity::Warning, "never recognised whole".to_owned()),
    };
    let text = format!("have too few frames to spell their transcripts{at}: {then}");
    split.finding(severity, "infeasible", text, all)
}

/// What the vocabulary cannot spell, and what it spells otherwise than it is written.
fn spelling(split: &Split, rules: &Rules) -> Vec<Finding> {
    let Some(tokens) = rules.tokens else { return Vec::new() };
    let mut coverage = Coverage::default();
    let (mut unknown, mut altered) = (Vec::new(), Vec::new());
    for kept in &split.findings.survey.kept {
        let already = coverage.altered;
        let found = coverage.add(tokens, kept.text());
        if !found.is_empty() {
            unknown.push(Example::of(kept, found.list()));
        }
        if coverage.altered > already {
            altered.push(Example::of(kept, format!("{:?}", kept.text())));
        }
    }
    // Where the vocabulary is a file's, training transcripts may lack characters as well.
    let (severity, then) = if split.is_train() {
        (Severity::Error, "correct them, or use other tokens (tokens.kind, tokens.file)")
    } else {
        (Severity::Warning, "never recognised, counted as errors")
    };
    let text = format!("transcripts hold {}: {then}", coverage.unknown);
    let unknown = split.finding(severity, "unknown_characters", text, unknown);
    let text =
        "transcripts are changed by the tokenizer's own normalisation, and scored as written";
    let altered = split.finding(Severity::Warning, "altered_text", text, altered);
    unknown.into_iter().chain(altered).collect()
}

/// What can be used and is most likely not meant.
fn doubtful(split: &Split) -> Vec<Finding> {
    let survey = &split.findings.survey;
    let measured = || survey.kept.iter().filter_map(|kept| Some((kept, kept.measured.as_ref()?)));
    let silent = measured().filter(|(_, measured)| measured.is_silent());
    let silent = silent.map(|(kept, _)| Example::of(kept, format!("{:.2} s", kept.duration_s)));
    let clipped = measured().filter(|(_, measured)| measured.clipped_runs > 0);
    let clipped = clipped.map(|(kept, measured)| {
        let (runs, peak) = (measured.clipped_runs, measured.peak);
        Example::of(kept, format!("{runs} runs of samples at its peak of {peak:.3}"))
    });
    let empty = survey.kept.iter().filter(|kept| kept.text().trim().is_empty());
    let empty = empty.map(|kept| Example::of(kept, format!("{:.2} s", kept.duration_s)));
    let silent = silent.collect();
    let clipped = clipped.collect();
    let empty = empty.collect();
    let mut findings: Vec<Finding> = [
        split.finding(Severity::Warning, "silent", "recordings are silent throughout", silent),
        split.finding(Severity::Warning, "clipping", "recordings clip", clipped),
        split.finding(Severity::Note, "empty_text", "transcripts are empty, and kept", empty),
    ]
    .into_iter()
    .flatten()
    .collect();
    if survey.duration_mismatches > 0 {
        findings.push(Finding {
            severity: Severity::Warning,
            split: split.name.to_owned(),
            kind: "duration".to_owned(),
            text: "durations in the manifest disagree with the audio, which counts".to_owned(),
            count: survey.duration_mismatches,
            examples: Vec::new(),
        });
    }
    findings
}
