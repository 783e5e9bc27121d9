//! What is wrong with a manifest: its faults by file and kind, each kind with its count and its first
//! places, so that a thousand lines with one fault hide no other.

use std::fmt;
use std::path::PathBuf;

use indexmap::IndexMap;

use crate::wording::{counted, kind};

/// Kinds of faults kept; what lies beyond is only counted.
const MAX_KINDS: usize = 100;

/// Faults kept of a kind.
const KEPT: usize = 5;

/// Kinds of faults shown.
const SHOWN_KINDS: usize = 10;

/// Lines that the faults may take, more or less.
const SHOWN: usize = 10;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub path: PathBuf,
    /// Counted from 1; none where the file as a whole is meant.
    pub line: Option<usize>,
    /// In bytes, counted from 1.
    pub column: Option<usize>,
    /// What is wrong, with the value.
    pub reason: String,
}

impl Fault {
    /// A fault of the file as a whole.
    pub fn of_file(path: impl Into<PathBuf>, reason: impl Into<String>) -> Fault {
        Fault { path: path.into(), line: None, column: None, reason: reason.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{number}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// Faults, of which only the first of each kind are kept.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Their count and the first of them, by file and kind.
    kinds: IndexMap<(PathBuf, String), (usize, Vec<Fault>)>,
    total: usize,
}

impl Faults {
    /// How many there are.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Adds one.
    pub fn push(&mut self, fault: Fault) {
        self.total += 1;
        let key = (fault.path.clone(), kind(&fault.reason));
        if self.kinds.len() >= MAX_KINDS && !self.kinds.contains_key(&key) {
            return;
        }
        let (count, first) = self.kinds.entry(key).or_default();
        *count += 1;
        if first.len() < KEPT {
            first.push(fault);
        }
    }
}

impl fmt::Display for Faults {
    /// A line a fault, each behind a line end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown_each = (SHOWN / self.kinds.len().max(1)).clamp(1, KEPT);
        let mut left = self.total;
        for (count, first) in self.kinds.values().take(SHOWN_KINDS) {
            for fault in first.iter().take(shown_each) {
                write!(f, "\n  {fault}")?;
            }
            if *count > shown_each {
                write!(f, "\n    and {} more of this kind", count - shown_each)?;
            }
            left -= count;
        }
        if left > 0 {
            write!(f, "\n  and {} of other kinds", counted(left, "fault"))
        } else {
            Ok(())
        }
    }
}

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It cannot be read.
    #[error("{}: cannot read the manifest: {source}", path.display())]
    Read {
        /// The manifest.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// It is of no kind that is read here, or of a kind that is refused.
    #[error("{}: cannot read the manifest: {reason}", path.display())]
    Kind {
        /// The manifest.
        path: PathBuf,
        /// What was found, and the way out.
        reason: String,
    },
    /// Some of it is wrong.
    #[error("{}", list(path, faults, way_out))]
    Faults {
        /// The manifest.
        path: PathBuf,
        /// The faults.
        faults: Faults,
        /// What is expected instead; may be empty.
        way_out: &'static str,
    },
    /// There is no utterance.
    #[error("{}: the manifest holds no utterances{skipped}", path.display())]
    Empty {
        /// The manifest.
        path: PathBuf,
        /// What was left out, if anything.
        skipped: String,
    },
    /// Several manifests are wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(
        /// What is wrong with each of them.
        Vec<ManifestError>,
    ),
}

/// One of several stands for itself.
impl From<Vec<ManifestError>> for ManifestError {
    fn from(mut errors: Vec<ManifestError>) -> ManifestError {
        if errors.len() == 1 { errors.swap_remove(0) } else { ManifestError::Several(errors) }
    }
}

fn list(path: &std::path::Path, faults: &Faults, way_out: &str) -> String {
    let way_out = if way_out.is_empty() { String::new() } else { format!("; {way_out}") };
    match faults.kinds.values().next() {
        Some((_, first)) if faults.total == 1 => format!("{}{way_out}", first[0]),
        _ => format!("{}: {} faults{way_out}:{faults}", path.display(), faults.total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(path: &str, line: usize, reason: String) -> Fault {
        Fault { path: path.into(), line: Some(line), column: None, reason }
    }

    #[test]
    fn a_thousand_faults_of_one_kind_hide_no_other() {
        let mut faults = Faults::default();
        for line in 1..=1_000 {
            faults.push(fault("a", line, format!("id \"u{line}\" is also on line {}", line * 3)));
        }
        faults.push(fault("a", 7, "no key".into()));
        faults.push(fault("b", 9, "no key".into()));
        let text = faults.to_string();
        for words in ["a:1: id \"u1\"", "and 997 more of this kind", "a:7: no key", "b:9: no key"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert_eq!((faults.total(), text.lines().count()), (1_002, 7));
    }

    #[test]
    fn faults_without_end_take_bounded_room() {
        let mut faults = Faults::default();
        for i in 0..10_000 {
            let letters: String =
                i.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
            faults.push(fault("a", i, letters));
        }
        let text = faults.to_string();
        assert_eq!(faults.kinds.len(), MAX_KINDS);
        assert!(
            text.ends_with("and 9990 faults of other kinds") && text.lines().count() == 12,
            "{text}"
        );
    }
}
