//! `metrics.jsonl`: one JSON object a log line, always valid, always whole.
//!
//! A record is one write of one line, so that a crash can tear only the last; a resumed run drops
//! that and every line past its checkpoint, and the file reads as if the run had never stopped.
//! Numbers that are absent or not finite are null (JSON has no NaN, RFC 8259 section 6). A failed
//! write is an error of the run, not a warning.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::durable::write_atomic;

/// Why the metrics cannot be kept.
#[derive(Debug, Error)]
pub enum MetricsError {
    /// The file cannot be read or opened.
    #[error("{}: cannot open the metrics log", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// A line could not be written; the disk may be full.
    #[error("{}: cannot write the metrics of step {step}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Step of the record.
        step: usize,
        /// What the system answered.
        source: io::Error,
    },
    /// A line before the last is not a record.
    #[error("{}:{line}: not a metrics record; move the file away to resume without it", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// One line of `metrics.jsonl`, keys in this order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MetricsRecord {
    /// Optimiser steps done.
    pub step: usize,
    /// Epoch, from 0.
    pub epoch: usize,
    /// `train`, or the name of the set validated.
    pub split: String,
    /// Mean CTC loss per label, in nats.
    pub loss: Option<f64>,
    /// Mean divergence of two views from each other per label, in nats; null with one view.
    pub consistency: Option<f64>,
    /// Learning rate of the step.
    pub lr: Option<f64>,
    /// Global norm of the gradient before clipping.
    pub grad_norm: Option<f64>,
    /// Word error rate, as a fraction.
    pub wer: Option<f64>,
    /// Character error rate, as a fraction.
    pub cer: Option<f64>,
    /// Share of valid frames whose best class is blank.
    pub blank_rate: Option<f64>,
    /// Utterances left out because they have too few frames for their transcript.
    pub infeasible: usize,
    /// Steps skipped so far because the loss or the gradient was not finite.
    pub skipped_nonfinite: usize,
    /// Seconds of audio processed per second.
    pub audio_s_per_s: Option<f64>,
    /// Seconds since the run started, earlier parts of a resumed run included.
    pub wall_s: f64,
}

/// What truncation needs to know of a line.
#[derive(Deserialize)]
struct StepOnly {
    step: usize,
}

/// The log of one run, open for appending.
#[derive(Debug)]
pub struct MetricsLog {
    path: PathBuf,
    file: File,
}

impl MetricsLog {
    /// Opens the log for appending and makes it if there is none. A torn last line is dropped.
    ///
    /// # Errors
    /// When the file cannot be opened, or holds what is not a metrics log.
    pub fn open(path: &Path) -> Result<Self, MetricsError> {
        Self::open_resumed(path, usize::MAX)
    }

    /// Opens the log of a run resumed at `step`: lines of later steps and a torn last line are
    /// dropped first, at once or not at all.
    ///
    /// # Errors
    /// When the file cannot be read, rewritten or opened, or holds what is not a metrics log.
    pub fn open_resumed(path: &Path, step: usize) -> Result<Self, MetricsError> {
        let failed = |source| MetricsError::Open { path: path.to_owned(), source };
        // Only a plain file has a past to cut.
        if fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
            let old = fs::read(path).map_err(failed)?;
            let kept = keep_until(path, &old, step)?;
            if kept.len() != old.len() {
                write_atomic(path, &kept).map_err(failed)?;
            }
        }
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Appends one record. Nothing is buffered: the line is with the system when this returns.
    ///
    /// # Errors
    /// When the line cannot be written, as on a full disk; what was written of it is taken back.
    pub fn write(&mut self, record: &MetricsRecord) -> Result<(), MetricsError> {
        let failed =
            |source| MetricsError::Write { path: self.path.clone(), step: record.step, source };
        let mut line = serde_json::to_vec(record).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        let whole_len = self.file.metadata().map_err(failed)?.len();
        self.file.write_all(&line).map_err(|error| {
            // Best effort: a torn last line is also dropped when the log is opened again.
            let _ = self.file.set_len(whole_len);
            failed(error)
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn keep_until(path: &Path, old: &[u8], step: usize) -> Result<Vec<u8>, MetricsError> {
    let mut kept = Vec::with_capacity(old.len());
    for (index, line) in old.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let is_torn = !line.ends_with(b"\n");
        match serde_json::from_slice::<StepOnly>(line) {
            _ if is_torn => {}
            Ok(record) if record.step > step => {}
            Ok(_) => kept.extend_from_slice(line),
            Err(source) => {
                return Err(MetricsError::Malformed {
                    path: path.to_owned(),
                    line: index + 1,
                    source,
                });
            }
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(step: usize) -> MetricsRecord {
        MetricsRecord {
            step,
            split: "train".to_owned(),
            loss: Some(1.5),
            wall_s: 2.25,
            ..MetricsRecord::default()
        }
    }

    #[test]
    fn a_line_holds_every_key_in_order_and_null_for_what_is_absent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        MetricsLog::open(&path).unwrap().write(&record(7)).unwrap();
        let want = "{\"step\":7,\"epoch\":0,\"split\":\"train\",\"loss\":1.5,\"consistency\":null,\"lr\":null,\"grad_norm\":null,\"wer\":null,\
                    \"cer\":null,\"blank_rate\":null,\"infeasible\":0,\"skipped_nonfinite\":0,\"audio_s_per_s\":null,\
                    \"wall_s\":2.25}\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), want);
    }

    #[test]
    fn numbers_that_are_not_finite_stay_valid_json() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut log = MetricsLog::open(&path).unwrap();
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            log.write(&MetricsRecord {
                loss: Some(value),
                wall_s: value,
                split: "a\"b\n".to_owned(),
                ..record(1)
            })
            .unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 3);
        for line in text.lines() {
            let read: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(read["loss"].is_null() && read["wall_s"].is_null());
            assert_eq!(read["split"], "a\"b\n");
        }
    }

    #[test]
    fn resuming_drops_later_steps_and_a_torn_line_and_then_appends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut log = MetricsLog::open(&path).unwrap();
        for step in [10, 20, 20, 30] {
            log.write(&record(step)).unwrap();
        }
        log.file.write_all(b"{\"step\":4").unwrap();
        drop(log);
        let mut log = MetricsLog::open_resumed(&path, 20).unwrap();
        log.write(&record(25)).unwrap();
        let steps: Vec<usize> = fs::read_to_string(&path)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str::<StepOnly>(line).unwrap().step)
            .collect();
        assert_eq!(steps, [10, 20, 20, 25]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn opening_again_keeps_every_whole_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        MetricsLog::open(&path).unwrap().write(&record(1)).unwrap();
        let before = fs::read(&path).unwrap();
        MetricsLog::open(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_file_that_is_no_metrics_log_is_refused_untouched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        fs::write(&path, "{\"step\":1}\nhello\n").unwrap();
        let error = MetricsLog::open_resumed(&path, 5).unwrap_err();
        assert!(error.to_string().ends_with(
            "metrics.jsonl:2: not a metrics record; move the file away to resume without it"
        ));
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"step\":1}\nhello\n");
    }

    #[test]
    fn a_missing_directory_is_an_error_that_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let error = MetricsLog::open(&dir.path().join("no/metrics.jsonl")).unwrap_err();
        assert!(
            error.to_string().ends_with("no/metrics.jsonl: cannot open the metrics log"),
            "{error}"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error_that_names_file_and_step() {
        let mut log = MetricsLog::open(Path::new("/dev/full")).unwrap();
        let error = log.write(&record(12)).unwrap_err();
        assert_eq!(error.to_string(), "/dev/full: cannot write the metrics of step 12");
        let source = std::error::Error::source(&error).unwrap();
        assert!(source.to_string().contains("No space left"), "{source}");
    }
}
