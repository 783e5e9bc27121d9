//! One TOML file is one run.
//!
//! Every section is the config of the component that uses it, defined beside that component;
//! this module only gathers them, makes paths absolute and checks what spans two sections.

mod adopt;
pub mod load;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::augment::{AugmentConfig, AugmentError, SpecAugmentConfig};
use crate::ctc::{CtcConfig, CtcConfigError};
use crate::data::{DataConfig, DataError, FeaturesOn};
use crate::extract;
use crate::features::{FeatureError, LogMelConfig};
use crate::model::{ModelConfig, ModelConfigError};
use crate::optim::{OptimConfig, OptimConfigError};
use crate::schedule::{Schedule, ScheduleConfig, ScheduleError};
use crate::tokens::{TokensConfig, TokensError};
use crate::wording::without_detours;

pub use load::ConfigError;

/// A whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunConfig {
    /// Where the weights start: a Hugging Face directory of Parakeet, a run or checkpoint of this program,
    /// or a safetensors file; relative to this file. Sizes and features come from there unless they are
    /// given. Empty: random weights.
    pub init_from: PathBuf,
    /// The run's length, seed and rhythm.
    pub train: TrainConfig,
    /// Recordings, transcripts and batches.
    pub data: DataConfig,
    /// The vocabulary.
    pub tokens: TokensConfig,
    /// Log-mel features.
    pub features: LogMelConfig,
    /// Room responses, noise and gain on training samples.
    pub augment: AugmentConfig,
    /// Masks on training features.
    pub spec_augment: SpecAugmentConfig,
    /// The acoustic model.
    pub model: ModelConfig,
    /// The loss.
    pub ctc: CtcConfig,
    /// The optimiser.
    pub optim: OptimConfig,
    /// The learning rate over the run.
    pub schedule: ScheduleConfig,
}

/// The run's length, seed and rhythm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// Where the run goes, unless `--out` says otherwise; relative to the working directory.
    /// Empty: `runs/` and the config file's name.
    pub out: String,
    /// Of every random choice: weights, batches, masks, dropout.
    pub seed: u64,
    /// Passes over the training set.
    pub epochs: usize,
    /// Ends the run earlier, at this many optimiser steps; 0 does not.
    pub max_steps: usize,
    /// Steps between lines of metrics.
    pub log_every: usize,
    /// Epochs between validations, each of which saves a checkpoint.
    pub validate_every: usize,
    /// Reference/hypothesis pairs shown at each validation.
    pub show_pairs: usize,
    /// Utterances too short for their transcripts are left out; more than this percentage of
    /// them stops the run before it starts.
    pub max_infeasible_percent: f64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            out: String::new(),
            seed: 1,
            epochs: 50,
            max_steps: 0,
            log_every: 20,
            validate_every: 1,
            show_pairs: 2,
            max_infeasible_percent: 10.0,
        }
    }
}

/// A config whose parts are well-formed and yet cannot run.
#[derive(Debug, Error)]
pub enum InvalidConfig {
    /// The model's sizes.
    #[error(transparent)]
    Model(#[from] ModelConfigError),
    /// The loss's settings.
    #[error(transparent)]
    Ctc(#[from] CtcConfigError),
    /// The optimiser's settings.
    #[error(transparent)]
    Optim(#[from] OptimConfigError),
    /// The features' settings.
    #[error(transparent)]
    Features(#[from] FeatureError),
    /// The data's settings.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A count of the loop that must be positive.
    #[error("train.{0} must be at least 1, not 0")]
    Zero(&'static str),
    /// The vocabulary's settings.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// The augmentation's settings.
    #[error(transparent)]
    Augment(#[from] AugmentError),
    /// Nothing to train on, or nothing to validate on.
    #[error(
        "data.{0} lists no manifest: give at least one JSON-lines file, in the config or with --set data.{0}=FILE"
    )]
    NoManifest(&'static str),
    /// A manifest without a name.
    #[error("{0} lists an empty name: give a file, or write [] for none")]
    EmptyName(&'static str),
    /// The learning rate's settings.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

impl RunConfig {
    /// Reads `path`, applies `--set` overrides, and makes the paths of files absolute: relative to
    /// the config file, or to the working directory where `--set` gave them.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with file, line and key.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Self, ConfigError> {
        let loaded = load::load::<Self>(path, overrides)?;
        let mut config = loaded.value;
        let beside_config = path.parent().unwrap_or(Path::new("")).to_owned();
        for (key, manifests) in config.manifests() {
            let base = if loaded.overridden.contains(key) { Path::new("") } else { &beside_config };
            // An empty name stays one, to be refused: joined to a folder it would be the folder.
            for manifest in manifests.iter_mut().filter(|manifest| !manifest.as_os_str().is_empty())
            {
                *manifest = absolute(&base.join(&*manifest));
            }
        }
        if let Some(file) = config.tokens.file() {
            let is_set = loaded.overridden.contains("tokens.file");
            let base = if is_set { Path::new("") } else { &beside_config };
            config.tokens.file = absolute(&base.join(file));
        }
        if let Some(path) = config.init_from() {
            let is_typed = loaded.overridden.contains("init_from");
            let base = if is_typed { Path::new("") } else { &beside_config };
            config.init_from = absolute(&base.join(path));
            adopt::adopt(&mut config, &loaded.given)?;
        }
        Ok(config)
    }

    /// Where the weights start, if not at random.
    pub fn init_from(&self) -> Option<&Path> {
        (!self.init_from.as_os_str().is_empty()).then_some(&self.init_from)
    }

    /// Refuses what cannot train.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`], naming key and value.
    pub fn validate(&self) -> Result<(), InvalidConfig> {
        self.model.validate()?;
        self.ctc.validate()?;
        self.optim.validate()?;
        self.features.validate()?;
        self.tokens.validate()?;
        if self.data.features_on == FeaturesOn::Device {
            extract::settings(&self.features)?;
        }
        self.data.validate()?;
        self.augment.validate()?;
        self.spec_augment.validate()?;
        let max_steps = if self.train.max_steps == 0 { usize::MAX } else { self.train.max_steps };
        Schedule::new(&self.schedule, self.optim.learning_rate, max_steps)?;
        let counts = [
            ("epochs", self.train.epochs),
            ("log_every", self.train.log_every),
            ("validate_every", self.train.validate_every),
        ];
        if let Some((key, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(InvalidConfig::Zero(key));
        }
        for (key, manifests) in [("train", &self.data.train), ("dev", &self.data.dev)] {
            if manifests.is_empty() {
                return Err(InvalidConfig::NoManifest(key));
            }
        }
        for (key, manifests) in self.clone().manifests() {
            if manifests.iter().any(|manifest| manifest.as_os_str().is_empty()) {
                return Err(InvalidConfig::EmptyName(key));
            }
        }
        Ok(())
    }

    /// All lists of manifests by their keys.
    fn manifests(&mut self) -> [(&'static str, &mut Vec<PathBuf>); 5] {
        let (data, augment) = (&mut self.data, &mut self.augment);
        [
            ("data.train", &mut data.train),
            ("data.dev", &mut data.dev),
            ("data.test", &mut data.test),
            ("augment.noise.manifests", &mut augment.noise.manifests),
            ("augment.rir.manifests", &mut augment.rir.manifests),
        ]
    }

    /// Optimiser steps of the whole run: whole accumulations, and no more than `train.max_steps`.
    pub fn total_steps(&self, batches_per_epoch: usize) -> usize {
        let batches = self.train.epochs.saturating_mul(batches_per_epoch);
        let steps = (batches / self.optim.accumulate).max(1);
        if self.train.max_steps == 0 { steps } else { steps.min(self.train.max_steps) }
    }

    /// The resolved config as TOML, as saved with every run.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if a value has no TOML form.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        load::to_toml_string(self)
    }

    /// Reads a config that a run saved; `path` is only for messages.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with file, line and key.
    pub fn from_saved(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let mut config = load::parse::<Self>(path, text, &[])?.value;
        // As they would be written now, so that a run goes on whatever wrote them.
        for (_, manifests) in config.manifests() {
            manifests.iter_mut().for_each(|manifest| *manifest = without_detours(manifest));
        }
        Ok(config)
    }
}

/// Absolute whether the file is there or not, so that a missing one is still named as the user meant it.
fn absolute(path: &Path) -> PathBuf {
    without_detours(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::Preset;

    fn load(text: &str, overrides: &[&str]) -> Result<RunConfig, ConfigError> {
        let sandbox = tempfile::tempdir().unwrap();
        std::fs::create_dir(sandbox.path().join("configs")).unwrap();
        let path = sandbox.path().join("configs/run.toml");
        std::fs::write(&path, text).unwrap();
        let overrides: Vec<String> = overrides.iter().map(|s| s.to_string()).collect();
        RunConfig::load(&path, &overrides)
    }

    #[test]
    fn manifests_are_relative_to_the_config_and_set_ones_to_the_working_directory() {
        let text = "[data]\ntrain = [\"../data/a.jsonl\"]\ndev = [\"b.jsonl\"]\n[tokens]\nfile = \"t.json\"\n";
        let config = load(text, &["data.dev=c.jsonl"]).unwrap();
        assert!(config.tokens.file.is_absolute() && config.tokens.file.ends_with("configs/t.json"));
        assert_eq!(load("", &[]).unwrap().tokens.file(), None);
        let set = load(text, &["tokens.file=u.json"]).unwrap().tokens.file;
        assert_eq!(set, std::env::current_dir().unwrap().join("u.json"));
        let train = &config.data.train[0];
        assert!(train.is_absolute() && train.ends_with("data/a.jsonl"), "{train:?}");
        assert!(!train.to_string_lossy().contains(".."), "{train:?}");
        assert_eq!(config.data.dev[0], std::env::current_dir().unwrap().join("c.jsonl"));
    }

    #[test]
    fn a_resolved_config_reads_back_as_itself() {
        let mut config = RunConfig::default();
        config.data.train = vec![PathBuf::from("/tmp/a.jsonl")];
        let text = config.to_toml().unwrap();
        assert_eq!(RunConfig::from_saved(Path::new("saved"), &text).unwrap(), config);
    }

    #[test]
    fn a_preset_fills_what_file_and_set_leave_open_and_is_saved_whole() {
        let text = "[features]\npreset = \"whisper\"\nfmin_hz = 50.0\n";
        let config = load(text, &["features.preset=kaldi", "features.num_mels=40"]).unwrap();
        let kaldi = Preset::Kaldi.settings(16_000);
        assert_eq!(config.features, LogMelConfig { fmin_hz: 50.0, num_mels: 40, ..kaldi });
        let saved = config.to_toml().unwrap();
        assert!(saved.contains("window = \"povey\"") && saved.contains("remove_dc = true"));
        assert_eq!(RunConfig::from_saved(Path::new("saved"), &saved).unwrap(), config);

        let message = |text: &str| load(text, &[]).unwrap_err().to_string();
        let typo = message("[features]\nnum_mel = 40\n");
        assert!(typo.contains("run.toml:2:1: unknown key `features.num_mel`"), "{typo}");
        assert!(typo.ends_with("the nearest known key is `features.num_mels`"), "{typo}");
        let wrong = message("[features]\nnum_mels = \"many\"\n");
        assert!(wrong.contains("run.toml:2:12: `features.num_mels`: expected a whole"), "{wrong}");
        let unknown = message("[features]\npreset = \"htk\"\n");
        assert!(unknown.contains("run.toml:2:10: `features.preset`: unknown variant `htk`"));
    }

    #[test]
    fn what_cannot_run_is_refused_by_key() {
        let mut config = RunConfig::default();
        assert!(config.validate().unwrap_err().to_string().contains("data.train"));
        config.train.epochs = 0;
        assert_eq!(
            config.validate().unwrap_err().to_string(),
            "train.epochs must be at least 1, not 0"
        );
    }
}
