//! Where a model's weights start: a Hugging Face directory, a run or checkpoint of this program, or a
//! safetensors file.
//!
//! Nothing is loaded in silence or in part: every tensor of the model is matched, or the load is refused
//! by name. Only the head may start anew, where the vocabulary is another, and that is said.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::store::{ModuleSnapshot, SafetensorsStore};
use serde::Deserialize;
use thiserror::Error;

use super::hugging_face::{self, HuggingFaceError, Kind};
use super::parakeet::Counterpart;
use super::tensors::{self, Tensors, TensorsError};
use super::{Checkpoint, CheckpointError, Link, resolve};
use crate::features::LogMelConfig;
use crate::model::ModelConfig;
use crate::tokens::{Tokens, TokensError};

/// Names listed of each kind.
const SHOWN: usize = 10;
/// Of exports: the vocabulary as this program writes it.
pub(super) const TOKENS: &str = "tokens.txt";
/// The part of the model whose size is the vocabulary's.
const HEAD: &str = "ctc_head.";
const MODEL: &str = "model.safetensors";

/// Weights that a model cannot start from.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The path leads to nothing that is known.
    #[error(
        "init_from = {}: no weights there; give a Hugging Face directory (config.json and model.safetensors), a run, a checkpoint, or a .safetensors file",
        .0.display()
    )]
    Unknown(PathBuf),
    /// A checkpoint of this program cannot be trusted.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The config of a checkpoint cannot be read.
    #[error("{}: {reason}; use another checkpoint", path.display())]
    Config {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong with its config.
        reason: String,
    },
    /// A vocabulary cannot be read.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// A Hugging Face file cannot be read or describes another model.
    #[error(transparent)]
    HuggingFace(#[from] HuggingFaceError),
    /// The weights cannot be read.
    #[error(transparent)]
    Tensors(#[from] TensorsError),
    /// The weights are of another model.
    #[error(
        "init_from = {}: the weights are not those of this model: {report}; leave sizes out of [model] and [features] so that they come from there, or name a checkpoint of the same sizes",
        path.display()
    )]
    Mismatch {
        /// Where the weights are.
        path: PathBuf,
        /// Names and shapes.
        report: Mismatch,
    },
    /// Burn refused the weights.
    #[error("init_from = {}: {reason}", path.display())]
    Load {
        /// Where the weights are.
        path: PathBuf,
        /// Its answer.
        reason: String,
    },
}

/// Tensors that do not fit each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mismatch {
    /// In the model, not in the file.
    pub missing: Vec<String>,
    /// In the file, not in the model.
    pub unexpected: Vec<String>,
    /// In both: name, shape in the file, shape in the model.
    pub reshaped: Vec<(String, Vec<usize>, Vec<usize>)>,
}

impl Mismatch {
    fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.reshaped.is_empty()
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reshaped: Vec<String> = self
            .reshaped
            .iter()
            .map(|(name, there, here)| format!("{name} {there:?} instead of {here:?}"))
            .collect();
        let kinds = [
            ("missing", &self.missing),
            ("unexpected", &self.unexpected),
            ("of another shape", &reshaped),
        ];
        let mut parts = Vec::new();
        for (kind, names) in kinds.into_iter().filter(|(_, names)| !names.is_empty()) {
            let more = names.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let names = names[..names.len().min(SHOWN)].join(", ");
            parts.push(format!("{kind}: {names}{more}"));
        }
        f.write_str(&parts.join("; "))
    }
}

/// What a load did, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Where the weights came from.
    pub path: PathBuf,
    /// Tensors of the model that were there.
    pub matched: usize,
    /// Why the head starts anew, if it does.
    pub new_head: Option<String>,
    /// Tensors there that belong to no encoder and no CTC head.
    pub left: Vec<String>,
}

impl fmt::Display for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "init  {}: {} tensors matched", self.path.display(), self.matched)?;
        match &self.new_head {
            None => write!(f, ", none missing")?,
            Some(why) => write!(f, "; the head starts anew: {why}")?,
        }
        if let Some(first) = self.left.first() {
            write!(f, "; left there: {} such as {first}", self.left.len())?;
        }
        Ok(())
    }
}

/// What weights say of themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Described {
    /// The sizes of their model.
    pub model: Option<ModelConfig>,
    /// The features that they were trained on.
    pub features: Option<LogMelConfig>,
    /// The vocabulary of their head, where there is one that this program can read.
    pub tokens: Option<Tokens>,
    /// Why there is none.
    pub no_tokens: Option<String>,
}

enum Form {
    Checkpoint,
    HuggingFace,
    File,
}

/// Weights on disk.
pub struct Source {
    given: PathBuf,
    /// A directory, or a bare file.
    path: PathBuf,
    form: Form,
}

/// The parts of a checkpoint's config that describe its model.
#[derive(Deserialize)]
pub(super) struct Sections {
    #[serde(default)]
    pub model: ModelConfig,
    #[serde(default)]
    pub features: LogMelConfig,
}

impl Source {
    /// Finds out what `path` holds. A `model.safetensors` beside the files that describe it stands for
    /// its directory.
    ///
    /// # Errors
    ///
    /// [`SourceError::Unknown`].
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let found = |at: PathBuf, form| Ok(Self { given: path.to_owned(), path: at, form });
        let directory = match path.parent() {
            Some(parent) if path.is_file() && path.ends_with(MODEL) => parent,
            _ => path,
        };
        if let Ok(checkpoint) = resolve(directory, Link::Best) {
            let is_beside = directory == path || directory.join("manifest.json").is_file();
            if is_beside {
                return found(checkpoint, Form::Checkpoint);
            }
        }
        if directory.join("config.json").is_file() {
            return found(directory.to_owned(), Form::HuggingFace);
        }
        if path.is_file() {
            found(path.to_owned(), Form::File)
        } else {
            Err(SourceError::Unknown(path.to_owned()))
        }
    }

    /// Reads what the weights say of themselves; not the weights. A bare file says nothing.
    ///
    /// # Errors
    ///
    /// [`SourceError`] naming the file that is missing or wrong.
    pub fn describe(&self) -> Result<Described, SourceError> {
        match self.form {
            Form::Checkpoint => {
                let checkpoint = Checkpoint::read_texts(&self.path)?;
                let Sections { model, features } =
                    toml::from_str(&checkpoint.config).map_err(|error| SourceError::Config {
                        path: self.path.clone(),
                        reason: error.message().to_owned(),
                    })?;
                let tokens = Tokens::parse(&checkpoint.tokens, &self.path.join(TOKENS))?;
                Ok(Described {
                    model: Some(model),
                    features: Some(features),
                    tokens: Some(tokens),
                    no_tokens: None,
                })
            }
            Form::HuggingFace => {
                let found = hugging_face::describe(&self.path)?;
                let (tokens, no_tokens) = match self.vocabulary(&found) {
                    Ok(tokens) => (Some(tokens), None),
                    Err(why) => (None, Some(why)),
                };
                let (model, features) = (Some(found.model), Some(found.features));
                Ok(Described { model, features, tokens, no_tokens })
            }
            Form::File => Ok(Described {
                no_tokens: Some("a bare file has no vocabulary".to_owned()),
                ..Default::default()
            }),
        }
    }

    /// The vocabulary of a Hugging Face directory, or why its head is of no use.
    fn vocabulary(&self, found: &hugging_face::Description) -> Result<Tokens, String> {
        let Some(blank) = found.blank else {
            return Err(format!("a {:?} model has no CTC head", found.kind));
        };
        let files = [TOKENS, "tokenizer.json", "tokenizer.model"];
        let file = files.iter().map(|name| self.path.join(name)).find(|path| path.is_file());
        let file = file.ok_or_else(|| format!("none of {} is there", files.join(", ")))?;
        let tokens = Tokens::load(&file).map_err(|error| error.to_string())?;
        if tokens.blank() as usize == blank {
            return Ok(tokens);
        }
        let (file, classes) = (file.display(), tokens.num_classes());
        Err(format!("{file} has {classes} classes, the head {}", blank + 1))
    }

    /// `model` with these weights. The head starts as it is in `model` if `tokens` are not those that the
    /// weights were trained with.
    ///
    /// # Errors
    ///
    /// [`SourceError::Mismatch`] if anything else is missing, unexpected or of another shape.
    pub fn start<M: Module>(
        &self,
        mut model: M,
        tokens: &Tokens,
    ) -> Result<(M, Started), SourceError> {
        let Described { tokens: theirs, no_tokens, .. } = self.describe()?;
        let new_head = match theirs {
            Some(theirs) if theirs == *tokens => None,
            Some(theirs) => Some(format!(
                "its vocabulary ({} symbols) is not this run's ({})",
                theirs.blank(),
                tokens.blank()
            )),
            None => no_tokens,
        };
        let mut there = self.read()?;
        let mut report = Mismatch::default();
        let (mut matched, mut loaded) = (0, Tensors::new());
        for (name, shape) in shapes(&model) {
            let counterpart = there.counterpart(&name, &shape);
            let found = there.tensors.remove(&counterpart.name);
            if new_head.is_some() && name.starts_with(HEAD) {
                continue;
            }
            match found {
                None => report.missing.push(counterpart.name),
                Some(found) if found.shape != counterpart.shape => {
                    report.reshaped.push((counterpart.name, found.shape, counterpart.shape));
                }
                Some(found) => {
                    matched += 1;
                    loaded.insert(name, counterpart.import(found, &shape));
                }
            }
        }
        report.unexpected.extend(there.tensors.into_keys());
        if !report.is_empty() {
            return Err(SourceError::Mismatch { path: self.given.clone(), report });
        }
        self.apply(&mut model, loaded)?;
        let path = self.given.clone();
        Ok((model, Started { path, matched, new_head, left: there.left }))
    }

    fn apply<M: Module>(&self, model: &mut M, loaded: Tensors) -> Result<(), SourceError> {
        let refused = |reason: String| SourceError::Load { path: self.given.clone(), reason };
        let bytes = tensors::to_bytes(&loaded, &BTreeMap::new()).map_err(refused)?;
        drop(loaded);
        // Partial for the head alone: all else was matched by name and shape.
        let mut store =
            SafetensorsStore::from_bytes(Some(bytes)).allow_partial(true).validate(false);
        let result = model.load_from(&mut store).map_err(|error| refused(error.to_string()))?;
        let errors: Vec<String> = result.errors.iter().map(ToString::to_string).collect();
        let missing = result.missing.iter().map(|(name, _)| name.as_str());
        let missing: Vec<&str> = missing.filter(|name| !name.starts_with(HEAD)).collect();
        if errors.is_empty() && missing.is_empty() && result.unused.is_empty() {
            return Ok(());
        }
        Err(refused(format!(
            "{} {} {}",
            errors.join("; "),
            missing.join(", "),
            result.unused.join(", ")
        )))
    }

    fn read(&self) -> Result<There, SourceError> {
        // How many batches a batch norm has seen is no weight.
        let is_weight = |name: &str| !name.ends_with(".num_batches_tracked");
        match self.form {
            Form::Checkpoint => {
                let checkpoint = Checkpoint::read(&self.path)?;
                let path = self.path.join(MODEL);
                let (tensors, _) = tensors::parse(&path, &checkpoint.model, &is_weight)?;
                Ok(There { tensors, is_parakeet: false, left: Vec::new() })
            }
            Form::HuggingFace => {
                let kind = hugging_face::describe(&self.path)?.kind;
                let is_wanted = |name: &str| {
                    is_weight(name)
                        && (matches!(kind, Kind::Ctc | Kind::Encoder)
                            || name.starts_with("encoder."))
                };
                let (tensors, others) = tensors::read_directory(&self.path, &is_wanted)?;
                let tensors = match kind {
                    Kind::Encoder => tensors
                        .into_iter()
                        .map(|(name, tensor)| (format!("encoder.{name}"), tensor))
                        .collect(),
                    _ => tensors,
                };
                let left = others.into_iter().filter(|name| is_weight(name)).collect();
                Ok(There { tensors, is_parakeet: true, left })
            }
            Form::File => {
                let (tensors, _) = tensors::read_file(&self.path, &is_weight)?;
                let is_parakeet = tensors.keys().any(|name| name.starts_with("encoder."));
                Ok(There { tensors, is_parakeet, left: Vec::new() })
            }
        }
    }
}

/// The tensors of a source, under its own names.
struct There {
    tensors: Tensors,
    is_parakeet: bool,
    /// Names of tensors that belong to no encoder and no CTC head.
    left: Vec<String>,
}

impl There {
    /// What a tensor of the model is called there, and its shape.
    fn counterpart(&self, name: &str, shape: &[usize]) -> Counterpart {
        let parakeet = self.is_parakeet.then(|| Counterpart::of(name, shape)).flatten();
        parakeet.unwrap_or_else(|| Counterpart::same(name, shape))
    }
}

/// Name and shape of every parameter and running statistic.
pub(super) fn shapes<M: Module>(model: &M) -> Vec<(String, Vec<usize>)> {
    let tensors = model.collect(None, None, false);
    tensors.iter().map(|tensor| (tensor.name.clone(), tensor.shape.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use burn::tensor::Device;
    use tempfile::TempDir;

    use super::super::{Progress, export, save, weights_to_bytes};
    use super::*;
    use crate::model::AcousticModel;

    fn config() -> ModelConfig {
        ModelConfig {
            hidden_size: 16,
            num_layers: 2,
            num_heads: 2,
            subsampling_channels: 4,
            subsampling_factor: 4,
            linear_bias: false,
            ..Default::default()
        }
    }

    fn tokens() -> Tokens {
        Tokens::from_transcripts(["a b"]).unwrap()
    }

    fn model(config: &ModelConfig, tokens: &Tokens) -> AcousticModel {
        config.init(20, tokens.num_classes(), &Device::flex())
    }

    fn bytes(model: &AcousticModel) -> Vec<u8> {
        weights_to_bytes(model).unwrap()
    }

    /// A run of a model with a checkpoint, and the weights in it.
    fn run() -> (TempDir, Vec<u8>) {
        let weights = bytes(&model(&config(), &tokens()));
        let checkpoint = Checkpoint {
            progress: Progress { step: 3, ..Default::default() },
            model: weights.clone(),
            optimizer: vec![1],
            tokens: tokens().to_text(),
            config: format!(
                "seed = 1\n[features]\nnum_mels = 20\n[model]\n{}",
                toml::to_string(&config()).unwrap()
            ),
        };
        let run = tempfile::tempdir().unwrap();
        save(run.path(), &checkpoint, &[Link::Last, Link::Best]).unwrap();
        (run, weights)
    }

    fn start(path: &Path, tokens: &Tokens) -> Result<(AcousticModel, Started), SourceError> {
        Source::open(path)?.start(model(&config(), tokens), tokens)
    }

    #[test]
    fn a_run_a_checkpoint_its_file_and_its_export_give_the_same_bits() {
        let (run, weights) = run();
        let exported = run.path().join("exported");
        assert_eq!(export(run.path(), &exported).unwrap().remark, None);
        for place in [
            "",
            "checkpoints/step-000003",
            "checkpoints/last/model.safetensors",
            "exported",
            "exported/model.safetensors",
        ] {
            let path = run.path().join(place);
            let (loaded, started) = start(&path, &tokens()).unwrap();
            assert!(bytes(&loaded) == weights, "{place}");
            assert_eq!(started.new_head, None, "{place}");
            let described = Source::open(&path).unwrap().describe().unwrap();
            assert_eq!(
                (described.model.unwrap(), described.tokens),
                (ModelConfig { dropout: 0.1, ..config() }, Some(tokens()))
            );
            assert_eq!(described.features.unwrap().num_mels, 20);
        }
        let error = export(run.path(), &exported).unwrap_err().to_string();
        assert!(error.contains("it is there already"), "{error}");
    }

    #[test]
    fn a_changed_vocabulary_starts_the_head_anew_and_nothing_else() {
        let (run, weights) = run();
        let exported = run.path().join("exported");
        export(run.path(), &exported).unwrap();
        let others = Tokens::from_transcripts(["xyz and more"]).unwrap();
        for path in [run.path(), &exported] {
            let fresh = model(&config(), &others);
            let source = Source::open(path).unwrap();
            let (loaded, started) = source.start(fresh.clone(), &others).unwrap();
            assert!(
                started.to_string().contains("the head starts anew: its vocabulary"),
                "{started}"
            );
            let of = |bytes: &[u8]| tensors::parse("x".as_ref(), bytes, &|_| true).unwrap().0;
            let (loaded, old, fresh) = (of(&bytes(&loaded)), of(&weights), of(&bytes(&fresh)));
            for (name, tensor) in &loaded {
                let want = if name.starts_with(HEAD) { &fresh[name] } else { &old[name] };
                assert_eq!(tensor, want, "{name}");
            }
            assert_eq!(started.matched, loaded.len() - 2);
        }
        // Of as many symbols, but others.
        let as_many = Tokens::from_transcripts(["x y"]).unwrap();
        assert!(start(run.path(), &as_many).unwrap().1.new_head.is_some());
    }

    #[test]
    fn a_bare_file_starts_all_but_the_head() {
        let (run, weights) = run();
        let file = run.path().join("weights.safetensors");
        fs::write(&file, &weights).unwrap();
        let (_, started) = start(&file, &tokens()).unwrap();
        assert!(started.new_head.unwrap().contains("a bare file has no vocabulary"));
        assert_eq!(Source::open(&file).unwrap().describe().unwrap().model, None);
    }

    #[test]
    fn other_members_of_the_family_lend_their_encoder() {
        let (run, weights) = run();
        let exported = run.path().join("exported");
        export(run.path(), &exported).unwrap();
        let (all, _) =
            tensors::read_directory(&exported, &|name| !name.ends_with("num_batches_tracked"))
                .unwrap();
        let text = fs::read_to_string(exported.join("config.json")).unwrap();
        let rewrite = |kind: &str, tensors: &Tensors| {
            fs::write(exported.join("config.json"), text.replace("parakeet_ctc", kind)).unwrap();
            let bytes = tensors::to_bytes(tensors, &BTreeMap::new()).unwrap();
            fs::write(exported.join(MODEL), bytes).unwrap();
            start(&exported, &tokens()).unwrap().1
        };
        let mut tdt = all.clone();
        tdt.retain(|name, _| name.starts_with("encoder."));
        let num_encoder = tdt.len();
        let joint = all["ctc_head.bias"].clone();
        tdt.insert("joint.head.bias".to_owned(), joint);
        let started = rewrite("parakeet_tdt", &tdt);
        assert_eq!((started.matched, started.left.len()), (num_encoder, 1));
        assert!(started.to_string().contains("1 such as joint.head.bias"), "{started}");
        assert!(!weights.is_empty());
    }

    #[test]
    fn what_is_missing_unexpected_or_of_another_shape_is_listed() {
        let (run, _) = run();
        let source = Source::open(run.path()).unwrap();
        type Change = fn(&mut ModelConfig);
        let cases: [(Change, &[&str]); 4] = [
            (|c| c.num_layers = 3, &["missing: layers.2.", " more"]),
            (|c| c.num_layers = 1, &["unexpected: layers.1."]),
            (
                |c| c.conv_kernel = 5,
                &["layers.0.conv.depthwise_taps [9, 1, 16] instead of [5, 1, 16]"],
            ),
            (|c| c.linear_bias = true, &["missing: layers.0.feed_forward1.linear1.bias"]),
        ];
        for (change, words) in cases {
            let mut config = config();
            change(&mut config);
            let error = source.start(model(&config, &tokens()), &tokens()).unwrap_err().to_string();
            let words = words.iter().chain(&["leave sizes out of [model]"]);
            assert!(words.clone().all(|word| error.contains(word)), "{error}");
        }
        let error = start(&run.path().join("nowhere"), &tokens()).err().unwrap().to_string();
        assert!(error.contains("nowhere: no weights there"), "{error}");
        let file = run.path().join("checkpoints/last/model.safetensors");
        let mut damaged = fs::read(&file).unwrap();
        *damaged.last_mut().unwrap() ^= 1;
        fs::write(&file, damaged).unwrap();
        assert!(matches!(start(run.path(), &tokens()), Err(SourceError::Checkpoint(_))));
    }

    #[test]
    fn a_model_without_a_counterpart_is_not_exported_and_leaves_nothing() {
        let (run, _) = run();
        for (old, new, words) in [
            ("num_mels = 20", "num_mels = 20\npreset = \"wenet\"", "features."),
            ("num_mels = 20", "num_mels = 22", "features.num_mels = 22"),
            ("\"conformer\"", "\"gru\"", "model.encoder = \"gru\""),
            ("\"batch\"", "\"layer\"", "has \"batch\"; train with that"),
            ("num_mels = 20", "num_mels = 20\nsample_rate_hz = 8000", ""),
        ] {
            let checkpoint = resolve(run.path(), Link::Best).unwrap();
            let mut changed = Checkpoint::read(&checkpoint).unwrap();
            changed.config = changed.config.replace(old, new);
            let path = run.path().join("changed");
            changed.write(&path).unwrap();
            let out = run.path().join("out");
            match export(&path, &out) {
                Ok(exported) => assert!(exported.remark.unwrap().contains("8000")),
                Err(error) => {
                    let error = error.to_string();
                    assert!(!words.is_empty() && error.contains(words), "{error}");
                    assert!(!out.exists());
                }
            }
        }
    }
}
