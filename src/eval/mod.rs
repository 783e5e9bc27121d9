//! Evaluation: a checkpoint, sets of recordings, and the reports in between.
//!
//! Features, tokens and model come from the checkpoint, so that evaluation cannot differ from
//! training.

pub mod report;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::Device;
use thiserror::Error;
use tracing::warn;

use crate::config::{ConfigError, RunConfig};
use crate::data::DataError;
use crate::extract::Extractor;
use crate::model::AcousticModel;
use crate::policy::{Checkpoint, CheckpointError, Link, load_weights, resolve};
use crate::prepare::evaluation_set;
use crate::progress::Screen;
use crate::recognise::{extractor, recognise};
use crate::score::CorpusScore;
use crate::tokens::{Tokens, TokensError};

use report::{ReportError, Results, RunFacts, ScoredUtterance, write_report};

/// Why nothing can be measured.
#[derive(Debug, Error)]
pub enum EvalError {
    /// The checkpoint cannot be trusted.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Its config cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its vocabulary cannot be read.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// The recordings cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The report cannot be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// There is nothing to measure on.
    #[error("the run's config lists no data.test; say what to measure with --manifest FILE")]
    NoManifest,
}

/// A trained model with all that belongs to it.
pub struct Recogniser {
    /// The resolved config of its run.
    pub config: RunConfig,
    /// The directory of the checkpoint.
    pub checkpoint: PathBuf,
    model: AcousticModel,
    tokens: Tokens,
    extractor: Option<Arc<Extractor>>,
    device: Device,
    device_name: String,
}

impl Recogniser {
    /// Loads the `best` checkpoint of a run directory, or the checkpoint directory `path`.
    ///
    /// # Errors
    ///
    /// [`EvalError`] naming the file that is missing, damaged or does not fit.
    pub fn load(path: &Path, device: Device, device_name: String) -> Result<Self, EvalError> {
        let directory = resolve(path, Link::Best)?;
        let checkpoint = Checkpoint::read(&directory)?;
        let mut config = RunConfig::from_saved(&directory.join("config.toml"), &checkpoint.config)?;
        let tokens = Tokens::parse(&checkpoint.tokens, &directory.join("tokens.txt"))?;
        let fresh = config.model.init(config.features.num_mels, tokens.num_classes(), &device);
        let model = load_weights(fresh, checkpoint.model)?;
        // A checkpoint is measured wherever it can be: the host computes any features.
        let extractor = extractor(&mut config.data, &config.features, &device)
            .inspect_err(|error| warn!("features on the host: {error}"))
            .unwrap_or(None);
        Ok(Self { config, checkpoint: directory, model, tokens, extractor, device, device_name })
    }

    /// Recognises the utterances of `manifest`, and writes `hyp.trn`, `ref.trn`, `per_utt.csv` and
    /// `results.json` into `out`.
    ///
    /// # Errors
    ///
    /// [`EvalError`]; a report is written whole or not at all.
    pub fn evaluate(
        &self,
        manifest: &Path,
        out: &Path,
        screen: &Screen,
    ) -> Result<(CorpusScore, Results), EvalError> {
        let mut summaries = Vec::new();
        let manifests = [manifest.to_owned()];
        let dataset =
            evaluation_set("test", &manifests, &self.config, &self.tokens, screen, &mut summaries)?;
        for remark in summaries.iter().flat_map(|summary| &summary.remarks) {
            screen.print(&format!("{}: {remark}", manifest.display()));
        }
        let dataset = Arc::new(dataset);
        let found =
            recognise(&self.model, &self.tokens, &dataset, &self.device, self.extractor.as_ref())?;
        let normalizer = self.config.data.normalizer;
        let scored: Vec<ScoredUtterance> = dataset
            .items()
            .iter()
            .zip(&found.hypotheses)
            .map(|(item, hypothesis)| ScoredUtterance {
                id: item.utterance.id().to_owned(),
                reference: item.text().to_owned(),
                hypothesis: normalizer.normalize(hypothesis),
                duration_s: item.duration_s(),
            })
            .collect();
        let facts = RunFacts {
            checkpoint: self.checkpoint.display().to_string(),
            config: self.checkpoint.join("config.toml").display().to_string(),
            device: self.device_name.clone(),
            normalizer: normalizer.name().to_owned(),
            compute_s: found.compute_s,
            infeasible: found.infeasible,
            unknown_characters: dataset.unknown_characters().0.counts.clone(),
        };
        Ok(write_report(out, &scored, &facts)?)
    }
}

/// A directory name for each manifest: its file stem, numbered where two share one.
pub fn set_names(manifests: &[PathBuf]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(manifests.len());
    for manifest in manifests {
        let stem =
            manifest.file_stem().unwrap_or(manifest.as_os_str()).to_string_lossy().into_owned();
        let mut name = stem.clone();
        let mut number = 2;
        while names.contains(&name) {
            name = format!("{stem}-{number}");
            number += 1;
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_one_name_get_directories_of_their_own() {
        let manifests =
            ["a/test.jsonl", "b/test.jsonl", "c/dev.jsonl", "d/test.jsonl"].map(PathBuf::from);
        assert_eq!(set_names(&manifests), ["test", "test-2", "dev", "test-3"]);
    }
}
