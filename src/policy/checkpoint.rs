//! One checkpoint: a directory of files and the manifest that vouches for them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::data::Cursor;

const MANIFEST: &str = "manifest.json";
const MODEL: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.bpk";
const TOKENS: &str = "tokens.txt";
const CONFIG: &str = "config.toml";
/// Raised whenever an older program could misread a newer checkpoint.
const FORMAT: u32 = 1;

/// Where a run stands; all that the loop needs besides weights and optimiser.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Optimiser steps done.
    pub step: usize,
    /// The next training batch.
    pub next: Cursor,
    /// Steps skipped for a non-finite loss or gradient, over the whole run.
    pub skipped_nonfinite: usize,
    /// The best development WER so far and its step.
    pub best: Option<(f64, usize)>,
    /// Seconds of training, over all processes.
    pub wall_s: f64,
}

/// The file list of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    format: u32,
    /// Where the run stood.
    pub progress: Progress,
    files: BTreeMap<String, FileRecord>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct FileRecord {
    bytes: u64,
    sha256: String,
}

/// A checkpoint in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Where the run stood.
    pub progress: Progress,
    /// Weights, as safetensors.
    pub model: Vec<u8>,
    /// The optimiser's state, as Burn's own pack.
    pub optimizer: Vec<u8>,
    /// The vocabulary, as text.
    pub tokens: String,
    /// The resolved config, as TOML.
    pub config: String,
}

/// The texts of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texts {
    /// The vocabulary, as text.
    pub tokens: String,
    /// The resolved config, as TOML.
    pub config: String,
}

/// A checkpoint that cannot be written, or not be trusted.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The file system refused.
    #[error("cannot {action} {}: {source}; free space or permissions are the usual causes, and the checkpoint before this one is untouched", path.display())]
    Write {
        /// What was attempted.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The answer.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("cannot read {} of the checkpoint {}: {source}", file, path.display())]
    Read {
        /// The checkpoint directory.
        path: PathBuf,
        /// The file in it.
        file: String,
        /// The answer.
        source: io::Error,
    },
    /// There is no checkpoint here.
    #[error("{} holds no checkpoint: expected {MANIFEST} in it, or a run directory with checkpoints/last", .0.display())]
    Missing(PathBuf),
    /// The manifest is not one.
    #[error("{} is not a checkpoint manifest ({reason}); use another checkpoint of the run", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Written by a newer program.
    #[error("{} has checkpoint format {found}, newer than {FORMAT}; use the program that wrote it", path.display())]
    Format {
        /// The manifest.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// A file is not what was written.
    #[error("{} is damaged: {reason}; use another checkpoint of the run (checkpoints/best or checkpoints/last)", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Size or checksum, expected and found.
        reason: String,
    },
    /// The weights do not fit the model that the config describes.
    #[error("the weights do not fit the model: {0}")]
    Weights(String),
}

impl Checkpoint {
    fn files(&self) -> [(&'static str, &[u8]); 4] {
        [
            (MODEL, &self.model),
            (OPTIMIZER, &self.optimizer),
            (TOKENS, self.tokens.as_bytes()),
            (CONFIG, self.config.as_bytes()),
        ]
    }

    /// Writes the directory `path`, whole or not at all: every file and the manifest are synced
    /// in a temporary sibling before one rename publishes them.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Write`]; nothing is left behind.
    pub fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        let partial = sibling(path, "partial");
        let result = self.write_partial(&partial).and_then(|()| publish(&partial, path));
        if result.is_err() {
            // The first error is the one to report; what is left is swept by the next save.
            let _ = fs::remove_dir_all(&partial);
        }
        result
    }

    fn write_partial(&self, partial: &Path) -> Result<(), CheckpointError> {
        if partial.exists() {
            fs::remove_dir_all(partial).map_err(at("remove the leftover", partial))?;
        }
        fs::create_dir_all(partial).map_err(at("create", partial))?;
        let mut files = BTreeMap::new();
        for (name, bytes) in self.files() {
            write_synced(&partial.join(name), bytes)?;
            files.insert(name.to_owned(), FileRecord::of(bytes));
        }
        let manifest = Manifest { format: FORMAT, progress: self.progress.clone(), files };
        let json = serde_json::to_vec_pretty(&manifest).expect("a manifest is plain data");
        write_synced(&partial.join(MANIFEST), &json)
    }

    /// Reads and verifies the texts of the directory `path`: the tokens and the config.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] naming the file that is missing, short or altered.
    pub fn read_texts(path: &Path) -> Result<Texts, CheckpointError> {
        let manifest = Manifest::read(path)?;
        let text = |file| manifest.verified_text(path, file);
        Ok(Texts { tokens: text(TOKENS)?, config: text(CONFIG)? })
    }

    /// Reads and verifies the directory `path`.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] naming the file that is missing, short or altered.
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        let manifest = Manifest::read(path)?;
        let text = |file| manifest.verified_text(path, file);
        Ok(Self {
            model: manifest.verified(path, MODEL)?,
            optimizer: manifest.verified(path, OPTIMIZER)?,
            tokens: text(TOKENS)?,
            config: text(CONFIG)?,
            progress: manifest.progress,
        })
    }
}

impl Manifest {
    /// Reads the manifest of the checkpoint directory `path`, and no more.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Missing`], [`CheckpointError::Manifest`] or [`CheckpointError::Format`].
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        let file = path.join(MANIFEST);
        let bytes = match fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(CheckpointError::Missing(path.to_owned()));
            }
            Err(source) => {
                let file = MANIFEST.to_owned();
                return Err(CheckpointError::Read { path: path.to_owned(), file, source });
            }
        };
        let manifest: Self = serde_json::from_slice(&bytes).map_err(|error| {
            CheckpointError::Manifest { path: file.clone(), reason: error.to_string() }
        })?;
        if manifest.format > FORMAT {
            return Err(CheckpointError::Format { path: file, found: manifest.format });
        }
        Ok(manifest)
    }

    fn verified_text(&self, path: &Path, file: &str) -> Result<String, CheckpointError> {
        String::from_utf8(self.verified(path, file)?).map_err(|error| CheckpointError::Damaged {
            path: path.join(file),
            reason: error.to_string(),
        })
    }

    fn verified(&self, path: &Path, file: &str) -> Result<Vec<u8>, CheckpointError> {
        let full = path.join(file);
        let damaged = |reason| CheckpointError::Damaged { path: full.clone(), reason };
        let want = self
            .files
            .get(file)
            .ok_or_else(|| damaged(format!("the manifest does not list it ({MANIFEST})")))?;
        let bytes = fs::read(&full).map_err(|source| CheckpointError::Read {
            path: path.to_owned(),
            file: file.to_owned(),
            source,
        })?;
        let got = FileRecord::of(&bytes);
        if got.bytes != want.bytes {
            return Err(damaged(format!("{} bytes instead of {}", got.bytes, want.bytes)));
        }
        if got != *want {
            return Err(damaged(format!("sha256 {} instead of {}", got.sha256, want.sha256)));
        }
        Ok(bytes)
    }
}

impl FileRecord {
    fn of(bytes: &[u8]) -> Self {
        let digest = Sha256::digest(bytes);
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { bytes: bytes.len() as u64, sha256 }
    }
}

/// A name beside `path` that no finished checkpoint has.
pub(super) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{suffix}"))
}

fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CheckpointError {
    let path = path.to_owned();
    move |source| CheckpointError::Write { action, path, source }
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        // A rename must never publish bytes that are not on the disk.
        file.sync_all()
    };
    write().map_err(at("write", path))
}

/// Renames `partial` to `path`; an older checkpoint of the same step makes way.
fn publish(partial: &Path, path: &Path) -> Result<(), CheckpointError> {
    let old = sibling(path, "old");
    let replaces = path.exists();
    if replaces {
        fs::rename(path, &old).map_err(at("replace", path))?;
    }
    fs::rename(partial, path).map_err(at("publish", path))?;
    if replaces {
        fs::remove_dir_all(&old).map_err(at("remove", &old))?;
    }
    if let Some(parent) = path.parent() {
        let synced = File::open(parent).and_then(|directory| directory.sync_all());
        synced.map_err(at("sync", parent))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint() -> Checkpoint {
        Checkpoint {
            progress: Progress { step: 7, best: Some((12.5, 5)), ..Default::default() },
            model: (0..=255).collect(),
            optimizer: vec![1; 1000],
            tokens: "a\nb\n".to_owned(),
            config: "seed = 1\n".to_owned(),
        }
    }

    #[test]
    fn what_was_written_comes_back_and_nothing_else_is_left() {
        let sandbox = tempfile::tempdir().unwrap();
        let path = sandbox.path().join("step-7");
        checkpoint().write(&path).unwrap();
        checkpoint().write(&path).unwrap();
        assert_eq!(Checkpoint::read(&path).unwrap(), checkpoint());
        let names: Vec<_> = fs::read_dir(sandbox.path()).unwrap().collect();
        assert_eq!(names.len(), 1);
    }

    #[test]
    fn every_way_to_damage_a_file_is_found() {
        let sandbox = tempfile::tempdir().unwrap();
        let path = sandbox.path().join("step-7");
        for file in [MODEL, OPTIMIZER, TOKENS, CONFIG] {
            checkpoint().write(&path).unwrap();
            let whole = fs::read(path.join(file)).unwrap();

            fs::write(path.join(file), &whole[..whole.len() - 1]).unwrap();
            let error = Checkpoint::read(&path).unwrap_err().to_string();
            assert!(error.contains(file) && error.contains("bytes instead of"), "{error}");

            let mut altered = whole.clone();
            altered[0] ^= 1;
            fs::write(path.join(file), altered).unwrap();
            let error = Checkpoint::read(&path).unwrap_err().to_string();
            assert!(error.contains(file) && error.contains("sha256"), "{error}");

            fs::remove_file(path.join(file)).unwrap();
            let error = Checkpoint::read(&path).unwrap_err().to_string();
            assert!(error.contains(file), "{error}");
        }
    }

    #[test]
    fn a_torn_or_newer_manifest_is_refused() {
        let sandbox = tempfile::tempdir().unwrap();
        let path = sandbox.path().join("step-7");
        checkpoint().write(&path).unwrap();
        let whole = fs::read_to_string(path.join(MANIFEST)).unwrap();
        fs::write(path.join(MANIFEST), &whole[..40]).unwrap();
        assert!(matches!(Checkpoint::read(&path), Err(CheckpointError::Manifest { .. })));
        fs::write(path.join(MANIFEST), whole.replace("\"format\": 1", "\"format\": 99")).unwrap();
        assert!(matches!(Checkpoint::read(&path), Err(CheckpointError::Format { found: 99, .. })));
        fs::remove_file(path.join(MANIFEST)).unwrap();
        assert!(matches!(Checkpoint::read(&path), Err(CheckpointError::Missing(_))));
    }
}
