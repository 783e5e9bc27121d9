//! The run directory: who may write into it, and what a resumed run must have in common with it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::TrainError;
use crate::config::RunConfig;
use crate::data::{Lengths, LengthsError};
use crate::durable::{write_atomic, write_atomic_with};
use crate::policy::{Checkpoint, CheckpointError, Link, resolve};
use crate::tokens::Tokens;

/// `--resume`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Resume {
    /// Go on with the run in the output directory, if there is one.
    #[default]
    Auto,
    /// Start anew; refuses a directory that holds a run.
    Never,
    /// Start from this checkpoint or run directory.
    From(PathBuf),
}

impl FromStr for Resume {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "auto" => Self::Auto,
            "never" => Self::Never,
            path => Self::From(PathBuf::from(path)),
        })
    }
}

/// Keys that may differ between a run and its resumption: they say where, how fast and for how
/// long, not what is learnt.
const FREE_KEYS: &[&str] = &[
    // A run that goes on starts from its own checkpoint.
    "init_from",
    "train.out",
    "train.epochs",
    "train.max_steps",
    "train.log_every",
    "train.validate_every",
    "train.show_pairs",
    "data.test",
    "data.features_on",
    "data.workers",
    "data.prefetch_batches",
    "data.cache_audio_mb",
];

/// How long the training recordings were when the run began.
const LENGTHS: &str = "lengths.bin";

/// What a run goes on from.
pub(super) struct Resumed {
    pub checkpoint: Checkpoint,
    /// None in runs of older programs.
    pub lengths: Option<Lengths>,
}

/// Makes the directory and finds what to resume.
pub(super) fn open(
    out: &Path,
    resume: &Resume,
    config: &RunConfig,
) -> Result<Option<Resumed>, TrainError> {
    let found = match resume {
        Resume::From(path) => Some(resolve(path, Link::Last)?),
        Resume::Auto | Resume::Never => existing(out)?,
    };
    let would_overwrite = match resume {
        Resume::Auto => false,
        Resume::Never => found.is_some(),
        // Both are canonical: checkpoints of one run are neighbours.
        Resume::From(_) => existing(out)?
            .is_some_and(|own| found.as_ref().is_some_and(|found| found.parent() != own.parent())),
    };
    if would_overwrite {
        return Err(TrainError::Exists(out.to_owned()));
    }
    fs::create_dir_all(out)
        .map_err(|source| TrainError::Output { path: out.to_owned(), source })?;
    let Some(path) = found else { return Ok(None) };
    let checkpoint = Checkpoint::read(&path)?;
    let saved = RunConfig::from_saved(&path.join("config.toml"), &checkpoint.config)?;
    let keys = differing_keys(&saved, config);
    if keys.is_empty() {
        Ok(Some(Resumed { checkpoint, lengths: lengths(&path)? }))
    } else {
        Err(TrainError::OtherConfig { path, keys: keys.join(", ") })
    }
}

/// The lengths in the run directory of a checkpoint.
fn lengths(checkpoint: &Path) -> Result<Option<Lengths>, LengthsError> {
    let Some(run) = checkpoint.parent().and_then(Path::parent) else { return Ok(None) };
    let path = run.join(LENGTHS);
    match fs::read(&path) {
        Ok(bytes) => Lengths::from_bytes(&bytes, path).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LengthsError { path, reason: error.to_string() }),
    }
}

/// Whether `out` holds no checkpoint yet.
pub(super) fn is_new(out: &Path) -> bool {
    resolve(out, Link::Last).is_err()
}

/// The newest checkpoint of the run in `out`, if there is a run. A link that leads nowhere is not
/// "no run": starting anew would lose what is left of it.
fn existing(out: &Path) -> Result<Option<PathBuf>, CheckpointError> {
    match resolve(out, Link::Last) {
        Ok(path) => Ok(Some(path)),
        Err(CheckpointError::Missing(_)) if !Link::Last.path(out).is_symlink() => Ok(None),
        Err(error) => Err(error),
    }
}

/// `optim.learning_rate = 0.001 (was 0.002)` for each key that matters and differs.
fn differing_keys(saved: &RunConfig, config: &RunConfig) -> Vec<String> {
    let (mut old, mut new) = (Vec::new(), Vec::new());
    flatten("", &serde_json::to_value(saved).unwrap_or_default(), &mut old);
    flatten("", &serde_json::to_value(config).unwrap_or_default(), &mut new);
    let old: std::collections::BTreeMap<String, String> = old.into_iter().collect();
    new.into_iter()
        .filter(|(key, value)| !FREE_KEYS.contains(&key.as_str()) && old.get(key) != Some(value))
        .map(|(key, value)| {
            format!("{key} = {value} (was {})", old.get(&key).map_or("absent", String::as_str))
        })
        .collect()
}

fn flatten(prefix: &str, value: &serde_json::Value, leaves: &mut Vec<(String, String)>) {
    match value {
        serde_json::Value::Object(table) => {
            for (key, value) in table {
                let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&key, value, leaves);
            }
        }
        leaf => leaves.push((prefix.to_owned(), leaf.to_string())),
    }
}

/// Writes the resolved config and the vocabulary where a person looks first, and the lengths beside them.
pub(super) fn describe(
    out: &Path,
    config: &RunConfig,
    tokens: &Tokens,
    lengths: &Lengths,
) -> Result<(), TrainError> {
    let (config, text) = (config.to_toml()?, tokens.to_text());
    let ours = [("config.toml", config.as_bytes()), ("tokens.txt", text.as_bytes())];
    // What other programs read of the vocabulary, under the name that they look for.
    for (name, bytes) in ours.into_iter().chain(tokens.foreign_file()) {
        let path = out.join(name);
        write_atomic(&path, bytes).map_err(|source| TrainError::Output { path, source })?;
    }
    let path = out.join(LENGTHS);
    write_atomic_with(&path, |file| lengths.write(file))
        .map_err(|source| TrainError::Output { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_that_change_what_is_learnt_forbid_resuming() {
        let saved = RunConfig::default();
        let mut config = saved.clone();
        config.train.epochs += 10;
        config.data.workers = 7;
        assert!(differing_keys(&saved, &config).is_empty());
        config.optim.learning_rate = 0.5;
        config.model.hidden_size = 64;
        assert_eq!(
            differing_keys(&saved, &config),
            ["model.hidden_size = 64 (was 176)", "optim.learning_rate = 0.5 (was 0.001)"]
        );
    }
}
