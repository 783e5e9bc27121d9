//! A trained model as a Hugging Face directory: what `ParakeetForCTC.from_pretrained` and its processor
//! load, with the same logits and the same text.
//!
//! Written whole or not at all. Refused: features that `ParakeetFeatureExtractor` cannot compute, encoders
//! and norms that `ParakeetForCTC` does not have, and sizes whose arithmetic differs there.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::hugging_face::{self, PARAKEET_RATE_HZ};
use super::parakeet::Counterpart;
use super::source::{Sections, TOKENS};
use super::tensors::{self, Tensors, TensorsError};
use super::{Checkpoint, CheckpointError, Link, resolve};
use crate::durable::create_directory_with;
use crate::tokens::{Tokens, TokensError};

/// A model that cannot be exported.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The checkpoint cannot be trusted.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Its config cannot be read.
    #[error("{}: {reason}; use another checkpoint of the run", path.display())]
    Config {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Its vocabulary cannot be read.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// Its weights cannot be read.
    #[error(transparent)]
    Tensors(#[from] TensorsError),
    /// Hugging Face's Parakeet has no such feature or size.
    #[error(
        "{key} = {value} in {}: Hugging Face's Parakeet {expected}; train with that to export",
        path.display()
    )]
    Unfit {
        /// The checkpoint.
        path: PathBuf,
        /// The key, with its section.
        key: String,
        /// Its value.
        value: String,
        /// What Parakeet does.
        expected: String,
    },
    /// A tensor of the checkpoint is none of Parakeet's.
    #[error("{}: Hugging Face's Parakeet has no counterpart of the tensor {name}", path.display())]
    Tensor {
        /// The checkpoint.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// The vocabulary has no form there.
    #[error("{} cannot be exported: {source}", path.display())]
    Vocabulary {
        /// The checkpoint.
        path: PathBuf,
        /// Why.
        source: TokensError,
    },
    /// The directory cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The checkpoint that was exported.
    pub checkpoint: PathBuf,
    /// Tensors in `model.safetensors`, counts of batches apart.
    pub tensors: usize,
    /// Classes, the blank among them.
    pub classes: usize,
    /// What a caller of the processor has to know.
    pub remark: Option<String>,
}

/// Exports the `best` checkpoint of a run directory, or the checkpoint directory `run`, to the new
/// directory `out`.
///
/// # Errors
///
/// [`ExportError`]; nothing is left behind.
pub fn export(run: &Path, out: &Path) -> Result<Exported, ExportError> {
    let path = resolve(run, Link::Best)?;
    let checkpoint = Checkpoint::read(&path)?;
    let Sections { model, features } = toml::from_str(&checkpoint.config).map_err(|error| {
        ExportError::Config { path: path.clone(), reason: error.message().to_owned() }
    })?;
    let unfit = |key: &str, value: String, expected: String| ExportError::Unfit {
        path: path.clone(),
        key: key.to_owned(),
        value,
        expected,
    };
    let foreign =
        hugging_face::foreign_part(&model).or_else(|| hugging_face::foreign_feature(&features));
    if let Some((key, value, only)) = foreign {
        return Err(unfit(&key, value, format!("has {only}")));
    }
    let (num_mels, factor) = (features.num_mels, model.subsampling_factor);
    if model.output_bands(num_mels) != num_mels / factor {
        let expected = format!("divides it by model.subsampling_factor = {factor} and rounds down");
        return Err(unfit("features.num_mels", num_mels.to_string(), expected));
    }
    let tokens = Tokens::parse(&checkpoint.tokens, &path.join(TOKENS))?;

    let (ours, _) = tensors::parse(&path.join("model.safetensors"), &checkpoint.model, &|_| true)?;
    let (mut theirs, mut batches_seen) = (Tensors::new(), BTreeMap::new());
    for (name, tensor) in ours {
        let there = Counterpart::of(&name, &tensor.shape)
            .ok_or_else(|| ExportError::Tensor { path: path.clone(), name })?;
        if let Some(norm) = there.name.strip_suffix(".running_mean") {
            let steps = i64::try_from(checkpoint.progress.step).unwrap_or(i64::MAX);
            batches_seen.insert(format!("{norm}.num_batches_tracked"), steps);
        }
        theirs.insert(there.name.clone(), there.export(&tensor));
    }
    let cannot_write = |source| ExportError::Write { path: out.to_owned(), source };
    let weights = tensors::to_bytes(&theirs, &batches_seen)
        .map_err(|reason| cannot_write(io::Error::other(reason)))?;
    let files = hugging_face::files(&model, &features, &tokens)
        .map_err(|source| ExportError::Vocabulary { path: path.clone(), source })?;
    create_directory_with(out, |directory| {
        for (name, value) in files {
            let text = serde_json::to_string_pretty(&value)?;
            fs::write(directory.join(name), text + "\n")?;
        }
        fs::write(directory.join(TOKENS), &checkpoint.tokens)?;
        fs::write(directory.join("model.safetensors"), &weights)
    })
    .map_err(cannot_write)?;
    let rate_hz = features.sample_rate_hz;
    let remark = (rate_hz != PARAKEET_RATE_HZ).then(|| {
        format!(
            "the processor expects {PARAKEET_RATE_HZ} Hz unless it is called with audio_kwargs={{\"sampling_rate\": {rate_hz}}}"
        )
    });
    Ok(Exported { checkpoint: path, tensors: theirs.len(), classes: tokens.num_classes(), remark })
}
