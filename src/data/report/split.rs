//! One split: what is in it, and what is wrong with its utterances one by one.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use super::{EXAMPLES, Example, Finding, Rules, Severity, Split, Tally};
use crate::audio::perturbed_len;
use crate::data::survey::mismatches_sentence;
use crate::data::{DropReason, Fault, Problem, Surveyed};
use crate::tokens::Coverage;
use crate::wording::{counted, plural};

/// A column of the report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SplitReport {
    /// `train`, `dev` or `test`.
    pub split: String,
    /// Lines of the manifests.
    pub utterances: usize,
    /// Those that cannot be used.
    pub broken: usize,
    /// Those that are used, of which the rest of the column tells.
    pub usable: usize,
    /// Seconds of their audio.
    pub audio_s: f64,
    /// Seconds that the manifests declare for all.
    pub declared_s: f64,
    /// The shortest.
    pub shortest_s: f64,
    /// Half of them are shorter.
    pub median_s: f64,
    /// The longest.
    pub longest_s: f64,
    /// Recordings at each rate.
    pub rates_hz: BTreeMap<u32, usize>,
    /// Recordings with each number of channels.
    pub channels: BTreeMap<usize, usize>,
    /// Percentage of the time that is silent ([`crate::data::Measured`]).
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
    let (misfits, infeasible) = infeasible(split, rules);
    findings.extend(infeasible);
    findings.extend(spelling(split, rules));
    findings.extend(doubtful(split));
    let kept = split.findings.survey.kept.iter();
    // Nothing that can be measured on is left out of an error rate.
    let used: Vec<&Surveyed> = match split.is_train() {
        true => {
            kept.zip(misfits).filter(|(_, is_misfit)| !is_misfit).map(|(kept, _)| kept).collect()
        }
        false => kept.collect(),
    };
    (column(split, &used), findings)
}

impl Split<'_> {
    fn is_train(&self) -> bool {
        self.name == "train"
    }

    /// A finding of a tally; its sentence starts after the count, in its form for one and for many.
    fn finding(
        &self,
        severity: Severity,
        kind: &str,
        tally: Tally,
        one: &str,
        many: &str,
    ) -> Option<Finding> {
        tally.finding(severity, self.name, kind, |count| plural(count, one, many))
    }
}

fn column(split: &Split, used: &[&Surveyed]) -> SplitReport {
    let mut column = SplitReport {
        split: split.name.to_owned(),
        utterances: split.findings.total,
        broken: split.findings.problems.total(),
        usable: used.len(),
        declared_s: split.findings.declared_s,
        ..SplitReport::default()
    };
    let mut durations: Vec<f64> = used.iter().map(|used| used.duration_s()).collect();
    durations.sort_by(f64::total_cmp);
    // The sum of nothing is -0.
    column.audio_s = durations.iter().sum::<f64>() + 0.0;
    column.shortest_s = durations.first().copied().unwrap_or_default();
    column.median_s = durations.get(durations.len() / 2).copied().unwrap_or_default();
    column.longest_s = durations.last().copied().unwrap_or_default();
    let mut silent_s = 0.0;
    for used in used {
        let Some(measured) = used.measured() else { continue };
        *column.rates_hz.entry(measured.recorded_hz).or_default() += 1;
        *column.channels.entry(measured.num_channels).or_default() += 1;
        column.clipped += usize::from(measured.clipped_runs > 0);
        silent_s += f64::from(measured.silent_share) * used.duration_s();
    }
    column.silent_percent = 100.0 * silent_s / column.audio_s.max(f64::MIN_POSITIVE);
    let speakers = used.iter().filter_map(|used| used.utterance.speaker());
    column.speakers = speakers.collect::<HashSet<_>>().len();
    column.texts = used.iter().map(|used| used.text()).collect::<HashSet<_>>().len();
    column
}

fn broken(split: &Split) -> Vec<Finding> {
    let example = |problem: &Problem| Example {
        place: problem.place(),
        id: problem.id.clone(),
        detail: problem.reason.clone(),
    };
    let finding = |(fault, count, first): (Fault, usize, &[Problem])| Finding {
        severity: Severity::Error,
        split: split.name.to_owned(),
        kind: fault.name().to_owned(),
        text: fault.sentence(count).to_owned(),
        count,
        examples: first.iter().take(EXAMPLES).map(example).collect(),
    };
    split.findings.problems.by_fault().map(finding).collect()
}

fn dropped(split: &Split) -> Vec<Finding> {
    let mut reasons: BTreeMap<DropReason, Tally> = BTreeMap::new();
    for dropped in &split.findings.survey.dropped {
        reasons.entry(dropped.reason).or_default().add(|| Example {
            place: dropped.utterance.place(),
            id: dropped.utterance.id().to_owned(),
            detail: format!("{:.2} s", dropped.duration_s),
        });
    }
    let finding = |(reason, tally): (DropReason, Tally)| {
        let text = |_| format!("left out: {reason}");
        tally.finding(Severity::Note, split.name, "left_out", text)
    };
    reasons.into_iter().filter_map(finding).collect()
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
        let num_frames = self.features.num_frames(perturbed_len(kept.num_samples(), fastest));
        let (available, needed) = (self.frames)(num_frames, &labels);
        (available < needed).then_some((available, needed))
    }
}

/// Which transcripts do not fit the frames that leave the model at the fastest speed.
fn infeasible(split: &Split, rules: &Rules) -> (Vec<bool>, Option<Finding>) {
    let kept = &split.findings.survey.kept;
    let mut tally = Tally::default();
    let mut is_misfit = |kept| {
        let missing = rules.missing_frames(kept, split.fastest);
        if let Some((available, needed)) = missing {
            tally.add(|| {
                let detail = format!("{available} frames leave the model, {needed} are needed");
                Example::of(kept, detail)
            });
        }
        missing.is_some()
    };
    let misfits: Vec<bool> = kept.iter().map(&mut is_misfit).collect();
    let percent = 100.0 * tally.count() as f64 / kept.len().max(1) as f64;
    let at =
        if split.fastest > 1.0 { format!(" at speed {}", split.fastest) } else { String::new() };
    let limit = rules.max_infeasible_percent;
    let (severity, then) = match (split.is_train(), percent > limit) {
        (true, true) => (
            Severity::Error,
            format!(
                "{percent:.1} %, more than train.max_infeasible_percent = {limit}; lower model.subsampling_factor, or correct the data"
            ),
        ),
        (true, false) => (Severity::Warning, "left out".to_owned()),
        (false, _) => (Severity::Warning, "never recognised whole".to_owned()),
    };
    let text = |count| {
        let what = plural(count, "transcript needs", "transcripts need");
        format!("{what} more frames than there are{at}: {then}")
    };
    (misfits, tally.finding(severity, split.name, "infeasible", text))
}

/// What the vocabulary cannot spell, and what it spells otherwise than it is written.
fn spelling(split: &Split, rules: &Rules) -> Vec<Finding> {
    let Some(tokens) = rules.tokens else { return Vec::new() };
    let mut coverage = Coverage::default();
    let (mut unknown, mut altered) = (Tally::default(), Tally::default());
    for kept in &split.findings.survey.kept {
        let already = coverage.altered;
        let found = coverage.add(tokens, kept.text());
        if !found.is_empty() {
            let characters = || found.counts.keys().collect::<String>();
            unknown.add(|| Example::of(kept, format!("{:?}", characters())));
        }
        if coverage.altered > already {
            altered.add(|| Example::of(kept, format!("{:?}", kept.text())));
        }
    }
    // Where the vocabulary is a file's, training transcripts may lack characters as well.
    let (severity, then) = if split.is_train() {
        (Severity::Error, "correct them, or use other tokens (tokens.kind, tokens.file)")
    } else {
        (Severity::Warning, "never recognised, counted as errors")
    };
    let unknown = unknown.finding(severity, split.name, "unknown_characters", |count| {
        let what = plural(count, "transcript holds", "transcripts hold");
        format!("{what} {}: {then}", coverage.unknown)
    });
    let altered = split.finding(
        Severity::Warning,
        "altered_text",
        altered,
        "transcript is changed by the tokenizer's own normalisation, and scored as written",
        "transcripts are changed by the tokenizer's own normalisation, and scored as written",
    );
    unknown.into_iter().chain(altered).collect()
}

/// What can be used and is most likely not meant.
fn doubtful(split: &Split) -> Vec<Finding> {
    let survey = &split.findings.survey;
    let (mut silent, mut quiet, mut clipped, mut empty) =
        (Tally::default(), Tally::default(), Tally::default(), Tally::default());
    for kept in &survey.kept {
        let length = || Example::of(kept, format!("{:.2} s", kept.duration_s()));
        if kept.text().trim().is_empty() {
            empty.add(length);
        }
        let Some(measured) = kept.measured() else { continue };
        if measured.is_silent() {
            silent.add(length);
        }
        if measured.is_quiet() {
            quiet.add(|| {
                let level_db = 10.0 * measured.loudest.log10();
                Example::of(kept, format!("{level_db:.0} dB of full scale at its loudest"))
            });
        }
        if measured.clipped_runs > 0 {
            clipped.add(|| {
                let (runs, peak) = (measured.clipped_runs, measured.peak);
                let runs = counted(runs, "run");
                Example::of(kept, format!("{runs} of samples at its peak of {peak:.3}"))
            });
        }
    }
    let warning = Severity::Warning;
    let mismatches = (survey.duration_mismatches > 0).then(|| Finding {
        severity: warning,
        split: split.name.to_owned(),
        kind: "duration".to_owned(),
        text: mismatches_sentence(survey.duration_mismatches).to_owned(),
        count: survey.duration_mismatches,
        examples: Vec::new(),
    });
    [
        split.finding(
            warning,
            "silent",
            silent,
            "recording is silent throughout",
            "recordings are silent throughout",
        ),
        split.finding(
            warning,
            "quiet",
            quiet,
            "recording is hardly to be heard",
            "recordings are hardly to be heard",
        ),
        split.finding(warning, "clipping", clipped, "recording clips", "recordings clip"),
        split.finding(
            Severity::Note,
            "empty_text",
            empty,
            "transcript is empty, and kept",
            "transcripts are empty, and kept",
        ),
        mismatches,
    ]
    .into_iter()
    .flatten()
    .collect()
}
