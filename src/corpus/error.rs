//! What is wrong with a manifest: the first ten faults with their places, and how many more there are.

use std::fmt;
use std::path::PathBuf;

/// Faults shown of a longer list.
pub(super) const SHOWN: usize = 10;

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

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{number}")?;
        }
        write!(f, ": {}", self.reason)
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
    #[error("{}", list(faults, *total, way_out))]
    Faults {
        /// The first of them.
        faults: Vec<Fault>,
        /// How many there are.
        total: usize,
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
}

fn list(faults: &[Fault], total: usize, way_out: &str) -> String {
    let way_out = if way_out.is_empty() { String::new() } else { format!("; {way_out}") };
    if let ([fault], 1) = (faults, total) {
        return format!("{fault}{way_out}");
    }
    let mut text = format!("{total} faults in the manifest{way_out}:");
    text.extend(faults.iter().map(|fault| format!("\n  {fault}")));
    if total > faults.len() {
        text.push_str(&format!("\n  and {} more", total - faults.len()));
    }
    text
}
