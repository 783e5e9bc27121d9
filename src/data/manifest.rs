//! The utterances of the manifests that a config names, of whatever kind ([`crate::corpus`]). What is
//! left out of them is logged with its count.

use std::path::{Path, PathBuf};

pub use crate::corpus::{ManifestError, Utterance};

/// Reads several manifests, one after the other. Ids need only differ within one manifest.
///
/// # Errors
/// See [`ManifestError`].
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Utterance>, ManifestError> {
    let mut utterances = Vec::new();
    for path in paths {
        utterances.extend(read(path)?);
    }
    Ok(utterances)
}

/// Reads one manifest.
///
/// # Errors
/// See [`ManifestError`].
pub fn read(path: &Path) -> Result<Vec<Utterance>, ManifestError> {
    let manifest = crate::corpus::read(path)?;
    for skipped in manifest.skipped() {
        tracing::warn!(
            "{}: left out {} times: {} (first: {})",
            path.display(),
            skipped.count,
            skipped.reason,
            skipped.first
        );
    }
    Ok(manifest.utterances().collect())
}
