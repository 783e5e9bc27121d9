//! The utterances of the manifests that a config names, of whatever kind ([`crate::corpus`]). What is
//! left out of them is logged with its count.

use std::path::{Path, PathBuf};

pub use crate::corpus::{ManifestError, Utterance};

/// Reads several manifests, one after the other, all of them whatever is wrong with one. Ids need only
/// differ within one manifest.
///
/// # Errors
/// What is wrong with each.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Utterance>, Vec<ManifestError>> {
    let (mut utterances, mut errors) = (Vec::new(), Vec::new());
    for path in paths {
        match read(path) {
            Ok(more) => utterances.extend(more),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(utterances) } else { Err(errors) }
}

/// Reads one manifest.
///
/// # Errors
/// See [`ManifestError`].
pub fn read(path: &Path) -> Result<Vec<Utterance>, ManifestError> {
    let manifest = crate::corpus::read(path)?;
    for skipped in manifest.skipped() {
        tracing::warn!(
            "{}: left out {}: {} (first: {})",
            path.display(),
            skipped.count,
            skipped.reason,
            skipped.first
        );
    }
    Ok(manifest.utterances().collect())
}
