//! What `asr-train check` says of the data: a column for each split, and findings grouped by kind, each
//! with its count and first places ([`Finding`]).

mod bucket;
mod finding;
mod overlap;
mod split;
mod table;

use std::path::Path;

use serde::Serialize;

use super::Findings;
use crate::features::LogMelConfig;
use crate::tokens::Tokens;
use crate::wording::{counted, plural};

pub use bucket::BucketReport;
use finding::{EXAMPLES, Tally};
pub use finding::{Example, Finding, Severity};
pub use split::SplitReport;

/// A split to be reported on.
#[derive(Clone, Copy)]
pub struct Split<'a> {
    /// `train`, `dev` or `test`.
    pub name: &'static str,
    /// What was found, with [`super::Depth::Measured`].
    pub findings: &'a Findings,
    /// The fastest speed at which it is played.
    pub fastest: f64,
}

/// Frames that leave the model for so many that enter it, and frames that labels need.
pub type Frames<'a> = dyn Fn(usize, &[u32]) -> (usize, usize) + 'a;

/// What the transcripts are judged by.
pub struct Rules<'a> {
    /// The features, which count the frames.
    pub features: &'a LogMelConfig,
    /// The vocabulary, if there is one.
    pub tokens: Option<&'a Tokens>,
    /// Whether labels fit.
    pub frames: &'a Frames<'a>,
    /// Percentage of training transcripts that may not fit.
    pub max_infeasible_percent: f64,
}

/// The whole report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DataReport {
    /// The config that was checked.
    pub config: String,
    /// A column each.
    pub splits: Vec<SplitReport>,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// The vocabulary: its characters, or number and kind of its pieces.
    pub tokens: String,
    /// How the training set is batched; empty where it cannot be.
    pub buckets: Vec<BucketReport>,
}

impl DataReport {
    /// Looks at each split and at what they share.
    pub fn new(config: String, splits: &[Split], rules: &Rules) -> DataReport {
        let mut report = DataReport {
            config,
            tokens: rules.tokens.map(Tokens::to_string).unwrap_or_default(),
            ..DataReport::default()
        };
        for split in splits {
            let (column, findings) = split::look(split, rules);
            report.splits.push(column);
            report.findings.extend(findings);
            report.findings.extend(overlap::within(split));
        }
        for (at, later) in splits.iter().enumerate() {
            for earlier in &splits[..at] {
                report.findings.extend(overlap::between(earlier, later));
            }
        }
        report.findings.sort_by_key(|finding| finding.severity);
        report
    }

    /// Adds the noises that are silent, by place and file.
    pub fn add_silent_noises<'a>(&mut self, noises: impl Iterator<Item = (&'a str, &'a Path)>) {
        let mut silent = Tally::default();
        for (place, path) in noises {
            silent.add(|| Example {
                place: place.to_owned(),
                id: path.display().to_string(),
                detail: String::new(),
            });
        }
        let text = |count| {
            plural(count, "clip is silent and adds nothing", "clips are silent and add nothing")
        };
        self.findings.extend(silent.finding(
            Severity::Warning,
            "augment.noise",
            "silent_noise",
            text,
        ));
        self.findings.sort_by_key(|finding| finding.severity);
    }

    /// The errors as text, if there are any, under a line that counts the utterances.
    pub fn errors(&self) -> Option<String> {
        let is_error = |finding: &&Finding| finding.severity == Severity::Error;
        let errors: Vec<&Finding> = self.findings.iter().filter(is_error).collect();
        let broken: usize = self.splits.iter().map(|split| split.broken).sum();
        let total: usize = self.splits.iter().map(|split| split.utterances).sum();
        let mut text = match broken {
            _ if errors.is_empty() => return None,
            0 => String::from("this data cannot be trained on:"),
            _ => format!("{broken} of {} cannot be used:", counted(total, "utterance")),
        };
        for finding in errors {
            text.push('\n');
            text.push_str(finding.to_string().trim_end());
        }
        Some(text)
    }

    /// Findings of this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::audio::tests::Scratch;
    use crate::data::survey::tests::{corpus, corpus_with};
    use crate::data::{DataConfig, Depth, Utterance, inspect};

    /// Three frames a label, and an eighth of the frames leave the model.
    pub(crate) fn rules<'a>(features: &'a LogMelConfig, tokens: Option<&'a Tokens>) -> Rules<'a> {
        let frames = &|num_frames: usize, labels: &[u32]| (num_frames / 8, labels.len());
        Rules { features, tokens, frames, max_infeasible_percent: 10.0 }
    }

    pub(crate) fn find(utterances: Vec<Utterance>, config: &DataConfig) -> Findings {
        inspect(utterances, config, 16_000, Depth::Measured, &|| {}).unwrap()
    }

    fn report(train: &Findings, test: &Findings) -> DataReport {
        let texts = train.survey.kept.iter().map(|kept| kept.text());
        let tokens = Tokens::from_transcripts(texts).unwrap();
        let features = LogMelConfig::default();
        let split = |name, findings, fastest| Split { name, findings, fastest };
        let splits = [split("train", train, 1.1), split("test", test, 1.0)];
        DataReport::new("run.toml".into(), &splits, &rules(&features, Some(&tokens)))
    }

    fn finding<'a>(report: &'a DataReport, kind: &str) -> &'a Finding {
        let mut found = report.findings.iter().filter(|finding| finding.kind == kind);
        let first = found.next().unwrap_or_else(|| panic!("no {kind}: {:#?}", report.findings));
        assert!(found.next().is_none(), "{kind} is reported once");
        first
    }

    #[test]
    fn each_fault_is_one_finding_with_its_count_and_places() {
        let scratch = Scratch::new("report-faults");
        let train = corpus_with(&scratch, &[(16_000, "ab"); 12], |index, line| match index {
            7 => line["text"] = "ab".repeat(12).into(),
            8 => line["text"] = " ".into(),
            9 => line["duration"] = 9.0.into(),
            _ => {}
        });
        for i in 0..5 {
            scratch.write(&format!("u{i}.wav"), b"");
        }
        let loud = vec![0.999; 16_000];
        scratch.wav("u5.wav", 16_000, &[&loud]);
        scratch.wav("u6.wav", 16_000, &[&[0.0; 16_000]]);
        scratch.wav("u10.wav", 16_000, &[&[1e-3; 16_000]]);
        let test = corpus(&Scratch::new("report-test"), &[(16_000, "abz"), (16_000, "b")]);
        let report = report(
            &find(train, &DataConfig::default()),
            &find(test, &DataConfig::default().for_evaluation()),
        );
        for (kind, severity, split, count, words) in [
            ("no_samples", Severity::Error, "train", 5, "m.jsonl:1"),
            ("duration", Severity::Error, "train", 1, "m.jsonl:10"),
            ("clipping", Severity::Warning, "train", 1, "m.jsonl:6"),
            ("silent", Severity::Warning, "train", 1, "m.jsonl:7"),
            ("infeasible", Severity::Error, "train", 1, "11 frames leave the model, 24 are needed"),
            ("quiet", Severity::Warning, "train", 1, "m.jsonl:11"),
            ("empty_text", Severity::Note, "train", 1, "m.jsonl:9"),
        ] {
            let finding = finding(&report, kind);
            let found = (finding.severity, finding.split.as_str(), finding.count);
            assert_eq!(found, (severity, split, count), "{finding:?}");
            let first = &finding.examples[0];
            assert!(format!("{} {}", first.place, first.detail).contains(words), "{first:?}");
        }
        // The test corpus is gone with its directory, so both of its recordings are missing.
        assert_eq!(finding(&report, "not_found").split, "test");
        assert!(report.findings.is_sorted_by_key(|finding| finding.severity));
        assert_eq!(report.count(Severity::Error), 4);
        let errors = report.errors().unwrap();
        assert!(
            errors.starts_with("8 of 14 utterances cannot be used:\nerror  train: "),
            "{errors}"
        );
        assert!(!errors.contains("warning"), "{errors}");
        let column = &report.splits[0];
        assert_eq!((column.utterances, column.broken, column.usable), (12, 6, 5));
        assert_eq!((column.clipped, column.audio_s), (1, 5.0), "what does not fit is not used");
        assert_eq!(column.rates_hz.iter().collect::<Vec<_>>(), [(&16_000, &5)]);
        assert!((column.declared_s - 20.0).abs() < 1e-9, "11 of 1 s and one of 9 s");
    }

    #[test]
    fn characters_outside_the_tokens_are_counted() {
        let scratch = Scratch::new("report-unknown");
        let data = corpus(&scratch, &[(16_000, "ab"), (16_100, "abz"), (16_200, "zz y")]);
        let train = find(data[..1].to_vec(), &DataConfig::default());
        let test = find(data[1..].to_vec(), &DataConfig::default());
        let report = report(&train, &test);
        let finding = finding(&report, "unknown_characters");
        assert_eq!((finding.severity, finding.count), (Severity::Warning, 2));
        assert!(finding.text.contains("'z' (U+007A) 3x"), "{}", finding.text);
        assert!(finding.examples[1].detail == "\" yz\"", "{finding:?}");
    }

    #[test]
    fn what_the_splits_share_is_told() {
        let scratch = Scratch::new("report-overlap");
        let parts = [(16_000, "ab"), (9_000, "ba"), (8_000, "ab"), (7_000, "b")];
        let speakers = ["ann", "bob", "ann", "cy"];
        let data = corpus_with(&scratch, &parts, |index, line| {
            line["speaker"] = speakers[index].into();
        });
        let otherwise = corpus_with(&scratch, &parts, |index, line| {
            line["speaker"] = speakers[index].into();
            line["text"] = "a".into();
        });
        let train = [&data[..2], &data[..1], &otherwise[1..2]].concat();
        let train = find(train, &DataConfig::default());
        let test = find(data[1..].to_vec(), &DataConfig::default());
        let report = report(&train, &test);
        for (kind, severity, split, count) in [
            ("duplicate", Severity::Warning, "train", 1),
            ("contradiction", Severity::Warning, "train", 1),
            ("shared_audio", Severity::Warning, "train, test", 1),
            ("shared_speakers", Severity::Warning, "train, test", 2),
            ("shared_texts", Severity::Note, "train, test", 2),
        ] {
            let finding = finding(&report, kind);
            let found = (finding.severity, finding.split.as_str(), finding.count);
            assert_eq!(found, (severity, split, count), "{finding:?}");
        }
        let speakers: Vec<&str> = finding(&report, "shared_speakers")
            .examples
            .iter()
            .map(|example| example.id.as_str())
            .collect();
        assert_eq!(speakers, ["ann", "bob"]);
    }

    #[test]
    fn a_sound_corpus_has_no_findings_and_the_report_is_json() {
        let scratch = Scratch::new("report-sound");
        let data = corpus(&scratch, &[(16_000, "ab"), (9_000, "ba"), (8_000, "aa"), (7_000, "b")]);
        let train = find(data[..2].to_vec(), &DataConfig::default());
        let report = report(&train, &find(data[2..].to_vec(), &DataConfig::default()));
        assert_eq!(report.findings, []);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["splits"][0]["usable"], 2);
        assert_eq!(json["splits"][0]["rates_hz"]["16000"], 2);
        assert_eq!(json["tokens"], "ab");
    }
}
