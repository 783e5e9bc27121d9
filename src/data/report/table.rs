//! The report as text: a table of the splits, a table of the buckets, and the findings with their first
//! places.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Result};

use super::{DataReport, Finding, Severity, SplitReport};

/// Utterances shown of a finding.
const SHOWN: usize = 3;

/// Characters shown of a transcript or a reason.
const MAX_DETAIL: usize = 200;

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
        self.findings.iter().try_for_each(|finding| write_finding(f, finding))
    }
}

/// `16000`, or `8000 (3) 16000 (20)`.
fn counts<T: Display + Ord>(counts: &BTreeMap<T, usize>) -> String {
    let mut parts: Vec<String> =
        counts.iter().map(|(value, count)| format!("{value} ({count})")).collect();
    if let (1, Some((value, _))) = (parts.len(), counts.first_key_value()) {
        parts = vec![value.to_string()];
    }
    if parts.is_empty() { "-".to_owned() } else { parts.join(" ") }
}

/// Columns as wide as their widest cell, the first to the left, the rest to the right.
fn table(f: &mut Formatter, rows: &[Vec<String>]) -> Result {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (cell, &width) in row.iter().zip(&widths) {
            if line.is_empty() {
                line = format!("{cell:<width$}");
            } else {
                line.push_str(&format!("  {cell:>width$}"));
            }
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    writeln!(f)
}

fn write_finding(f: &mut Formatter, finding: &Finding) -> Result {
    let severity = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    writeln!(f, "{severity}  {}: {} {}", finding.split, finding.count, finding.text)?;
    // A note is no reason to look at utterances, and data_report.json has them.
    let shown = if finding.severity == Severity::Note { 1 } else { SHOWN };
    for example in finding.examples.iter().take(shown) {
        let place = if example.place.is_empty() { "" } else { ": " };
        let detail = plain(&example.detail);
        let colon = if detail.is_empty() { "" } else { ": " };
        writeln!(f, "    {}{place}{}{colon}{detail}", example.place, plain(&example.id))?;
    }
    if finding.count > shown && !finding.examples.is_empty() {
        writeln!(f, "    and {} more", finding.count - shown)?;
    }
    Ok(())
}

/// Transcripts are data: control characters would move the terminal's cursor.
fn plain(text: &str) -> String {
    let mut plain: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_DETAIL).collect();
    if text.chars().nth(MAX_DETAIL).is_some() {
        plain.push_str("...");
    }
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
            detail: "\u{1b}[2J is no \n".into(),
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
            findings: vec![finding(Severity::Error, 5), finding(Severity::Note, 1)],
            ..DataReport::default()
        };
        let text = report.to_string();
        let lines: Vec<&str> = text.lines().collect();
        let row = |name, train, dev| format!("{name:<14}  {train:>21}  {dev:>18}");
        assert_eq!(lines[0], row("", "train", "dev"));
        assert_eq!(lines[1], row("utterances", "1000", "7"));
        assert_eq!(lines[8], row("rates, Hz", "8000 (3) 16000 (1000)", "8000 (3) 16000 (7)"));
        assert_eq!(lines[9], row("channels", "1", "1"));
        let findings = &lines[15..];
        assert_eq!(findings[0], "error  train: 5 recordings clip");
        assert_eq!(findings[1], "    m.jsonl:1: u1:  [2J is no  ");
        assert_eq!(findings[4], "    and 2 more");
        assert_eq!(findings[5], "note  train: 1 recordings clip");
        assert_eq!(findings.len(), 7);
    }
}
