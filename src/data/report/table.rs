//! The report as text for a terminal of 80 columns: a table of the splits, a table of the buckets, and the
//! warnings and notes, each with the first of its places. Errors are told apart ([`DataReport::errors`]).

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Result};

use super::{DataReport, Finding, Severity, SplitReport};
use crate::wording::{from_here, of_each_kind, wrapped};

/// Utterances shown of a finding, if they differ in more than names and numbers.
const SHOWN: usize = 3;

/// Characters shown of a place, a name, a transcript or a reason.
const MAX_DETAIL: usize = 400;

impl Display for DataReport {
    fn fmt(&self, f: &mut Formatter) -> Result {
        type Cell = fn(&SplitReport) -> String;
        let rows: [(&str, Cell); 14] = [
            ("", |split| split.split.clone()),
            ("utterances", |split| split.utterances.to_string()),
            ("usable", |split| split.usable.to_string()),
            ("hours", |split| format!("{:.2}", split.audio_s / 3_600.0)),
            ("declared hours", |split| format!("{:.2}", split.declared_s / 3_600.0)),
            ("shortest, s", |split| format!("{:.2}", split.shortest_s)),
            ("median, s", |split| format!("{:.2}", split.median_s)),
            ("longest, s", |split| format!("{:.2}", split.longest_s)),
            ("rates, Hz", |split| counts(&split.rates_hz)),
            ("channels", |split| counts(&split.channels)),
            ("silence, %", |split| format!("{:.1}", split.silent_percent)),
            ("clipped", |split| split.clipped.to_string()),
            ("speakers", |split| split.speakers.to_string()),
            ("transcripts", |split| split.texts.to_string()),
        ];
        let cells = rows.map(|(name, cell)| {
            std::iter::once(name.to_owned()).chain(self.splits.iter().map(cell)).collect()
        });
        table(f, &cells)?;
        if !self.buckets.is_empty() {
            let head = ["bucket, frames", "seconds", "utterances", "a batch", "padding, %"];
            let mut cells = vec![head.map(str::to_owned).to_vec()];
            cells.extend(self.buckets.iter().map(|bucket| {
                vec![
                    bucket.num_frames.to_string(),
                    format!("{:.2}", bucket.padded_s),
                    bucket.utterances.to_string(),
                    bucket.batch_len.to_string(),
                    format!("{:.1}", bucket.padding_percent),
                ]
            }));
            table(f, &cells)?;
        }
        let told = self.findings.iter().filter(|finding| finding.severity != Severity::Error);
        told.into_iter().try_for_each(|finding| write!(f, "{finding}"))
    }
}

/// `16000`, or lines of `8000 (3)` and `16000 (20)`.
fn counts<T: Display + Ord>(counts: &BTreeMap<T, usize>) -> String {
    match (counts.len(), counts.first_key_value()) {
        (0, _) => "-".to_owned(),
        (1, Some((value, _))) => value.to_string(),
        _ => {
            let lines = counts.iter().map(|(value, count)| format!("{value} ({count})"));
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}

/// Columns as wide as their widest cell, the first to the left, the rest to the right; cells may have
/// several lines.
fn table(f: &mut Formatter, rows: &[Vec<String>]) -> Result {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter().flat_map(|row| row[column].lines()).map(str::len).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let height = row.iter().map(|cell| cell.lines().count()).max().unwrap_or(0);
        for at in 0..height {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let cell = cell.lines().nth(at).unwrap_or_default();
                if column == 0 {
                    line = format!("{cell:<width$}");
                } else {
                    line.push_str(&format!("  {cell:>width$}"));
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
    }
    writeln!(f)
}

impl Display for Finding {
    /// Of examples that differ only in names and numbers one is shown, and where it is; all are in the JSON.
    fn fmt(&self, f: &mut Formatter) -> Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let head = format!("{severity}  {}: {} {}", self.split, self.count, self.text);
        writeln!(f, "{}", wrapped(&head, 4))?;
        let shown = of_each_kind(&self.examples, SHOWN, |example| &example.detail);
        for example in &shown {
            let place = if example.place.is_empty() { "" } else { ": " };
            let colon = if example.detail.trim().is_empty() { "" } else { ": " };
            let [at, id, detail] =
                [&example.place, &example.id, &example.detail].map(|text| plain(&from_here(text)));
            writeln!(f, "{}", wrapped(&format!("    {at}{place}{id}{colon}{detail}"), 6))?;
        }
        if self.count > shown.len() && !shown.is_empty() {
            writeln!(f, "    and {} more", self.count - shown.len())?;
        }
        Ok(())
    }
}

/// Transcripts are data: control characters would move the terminal's cursor.
fn plain(text: &str) -> String {
    let mut plain: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_DETAIL).collect();
    if text.chars().nth(MAX_DETAIL).is_some() {
        plain.push_str("...");
    }
    plain.truncate(plain.trim_end().len());
    plain
}

#[cfg(test)]
mod tests {
    use super::super::Example;
    use super::*;

    #[test]
    fn the_table_is_aligned_and_findings_show_their_first_places() {
        let split = |name: &str, utterances| SplitReport {
            split: name.into(),
            utterances,
            usable: utterances,
            audio_s: 3_600.0,
            rates_hz: BTreeMap::from([(8_000, 3), (16_000, utterances)]),
            channels: BTreeMap::from([(1, utterances)]),
            ..SplitReport::default()
        };
        let example = |number: usize| Example {
            place: format!("m.jsonl:{number}"),
            id: format!("u{number}"),
            detail: format!("\u{1b}[2J is no {number}\n"),
        };
        let finding = |severity, count: usize| Finding {
            severity,
            split: "train".into(),
            kind: "clipping".into(),
            text: "recordings clip".into(),
            count,
            examples: (1..=count).map(example).collect(),
        };
        let report = DataReport {
            splits: vec![split("train", 1_000), split("dev", 7)],
            findings: vec![
                finding(Severity::Error, 5),
                finding(Severity::Warning, 5),
                finding(Severity::Note, 1),
            ],
            ..DataReport::default()
        };
        let text = report.to_string();
        let lines: Vec<&str> = text.lines().collect();
        let row = |name, train, dev| format!("{name:<14}  {train:>12}  {dev:>9}");
        assert_eq!(lines[0], row("", "train", "dev"));
        assert_eq!(lines[1], row("utterances", "1000", "7"));
        assert_eq!(lines[8], row("rates, Hz", "8000 (3)", "8000 (3)"));
        assert_eq!(lines[9], row("", "16000 (1000)", "16000 (7)"));
        assert_eq!(lines[10], row("channels", "1", "1"));
        let findings = &lines[16..];
        let want = [
            "warning  train: 5 recordings clip",
            "    m.jsonl:1: u1:  [2J is no 1",
            "    and 4 more",
            "note  train: 1 recordings clip",
            "    m.jsonl:1: u1:  [2J is no 1",
        ];
        assert_eq!(findings, want);
    }

    #[test]
    fn no_line_is_wider_than_a_terminal_and_the_end_of_a_path_is_kept() {
        let here = std::env::current_dir().unwrap();
        let long = format!("/{}/train.jsonl:17", "folder/".repeat(20));
        let detail =
            format!("{} has another rate; {}", here.join("a.wav").display(), "word ".repeat(40));
        let finding = Finding {
            severity: Severity::Error,
            split: "train".into(),
            kind: "sample_rate".into(),
            text: "recording has another sample rate, and that is said at length here".into(),
            count: 1,
            examples: vec![Example { place: long, id: "x".repeat(300), detail }],
        };
        let text = finding.to_string();
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.contains("train.jsonl:17:\n") && text.contains("a.wav has another"), "{text}");
        assert!(!text.contains(here.to_str().unwrap()), "{text}");
    }
}
