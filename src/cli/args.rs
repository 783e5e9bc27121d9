//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::device::DeviceName;
use crate::tokens::TokenKind;
use crate::train::Resume;

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed while running; 2 command line or config; 3 data; \
4 a stated bar was missed; 5 diverged; 130 or 143 interrupted after saving.";

const TRAIN_EXAMPLES: &str = "Examples:
  asr-train configs/digits.toml
  asr-train configs/digits.toml --out runs/mine \\
      --set data.train=my/train.jsonl --set data.dev=my/dev.jsonl
  asr-train check configs/digits.toml
  asr-train import data/train train.jsonl
  asr-train export runs/digits digits-hf
  asr-train tokens configs/digits.toml --kind bpe --size 40
  asr-train doctor

A manifest is a file of JSON lines, one recording each:
  {\"audio_filepath\": \"a.flac\", \"duration\": 2.1, \"text\": \"three seven oh\"}
or anything that `asr-train import` reads.
";

const EVAL_EXAMPLES: &str = "Examples:
  asr-eval runs/digits
  asr-eval runs/digits --manifest my/test.jsonl --max-wer 5
";

const EXPORT_EXAMPLES: &str = "Example:
  asr-train export runs/digits digits-hf --format hf

and in Python:
  processor = AutoProcessor.from_pretrained(\"digits-hf\")
  model = ParakeetForCTC.from_pretrained(\"digits-hf\")
  inputs = processor(samples, sampling_rate=16000)
  print(processor.batch_decode(model.generate(**inputs)))

`init_from = \"digits-hf\"` in a config trains on from it.

Exit codes: 0 written; 1 the checkpoint is damaged; 2 command line, or the model has no counterpart there.";

const TOKENS_EXAMPLES: &str = "Examples:
  asr-train tokens configs/digits.toml --kind bpe --size 40 -o digits-bpe.json
  asr-train configs/digits.toml --set tokens.file=digits-bpe.json

Pieces are written as a tokenizer.json, which Hugging Face's tokenizers reads. tokens.file takes any
tokenizer.json of BPE or unigram pieces with Metaspace, and any SentencePiece .model.

Exit codes: 0 written; 2 command line or config, or FILE cannot be written; 3 the transcripts do not
give such a vocabulary.";

const IMPORT_KINDS: &str = "SRC is one of
  JSON lines (NeMo), and NeMo's tarred data sets (a manifest beside its audio_N.tar)
  a Kaldi data directory: wav.scp without commands, text, and segments, utt2spk, utt2dur if there
  Lhotse cuts, .jsonl or .jsonl.gz: each a MonoCut of a file, with one supervision
  a table: Common Voice's TSV beside clips/, a CSV or TSV with a header, LJSpeech's metadata.csv
  a tree like LibriSpeech's: SPEAKER/CHAPTER/*.trans.txt beside its recordings
  a .tar, or a directory of them, with KEY.wav (or another recording) beside KEY.txt or KEY.json

Exit codes: 0 written; 2 command line, or DEST cannot be written; 3 SRC is broken.";

/// Train a speech recogniser from recordings and transcripts.
///
/// CONFIG is a TOML file: one file is one run. Without a terminal, progress comes as plain lines.
#[derive(Debug, Parser)]
#[command(
    name = "asr-train",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
#[command(after_help = EXIT_CODES, after_long_help = format!("{TRAIN_EXAMPLES}\n{EXIT_CODES}"))]
pub(super) struct TrainArgs {
    #[command(subcommand)]
    pub command: Option<TrainCommand>,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum TrainCommand {
    /// Validate a config and its data, and say what is wrong with them; train nothing.
    Check(CheckArgs),
    /// Convert a data set of another tool to a manifest of JSON lines.
    ///
    /// Training reads all of these directly, too. Paths in DEST are relative to it where that leads to the
    /// recordings; texts, times, speakers and ids are kept exactly. Prints what is there and what was left
    /// out, and why.
    Import(ImportArgs),
    /// Write a trained model for other tools.
    ///
    /// The directory holds the weights, their config, the vocabulary and the settings of the features, as
    /// `ParakeetForCTC` of Hugging Face's transformers 5 and its processor read them: same logits, same text.
    Export(ExportArgs),
    /// Make a vocabulary of the training transcripts, and say how it fits.
    ///
    /// Characters, or pieces of words by byte-pair merges (bpe) or a unigram language model. Reads no
    /// recordings. Training makes the same by itself from tokens.kind and tokens.size; a file is for looking
    /// at, for several runs with one vocabulary, and for other programs.
    Tokens(TokensArgs),
    /// List the devices of this build and this machine, and test CTC on each.
    Doctor,
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The run's TOML file.
    #[arg(required = true)]
    pub config: Option<PathBuf>,
    /// Override a config value, such as optim.learning_rate=5e-4; paths are then relative to the
    /// working directory.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
    /// Where the run goes [default: train.out, or runs/ and the config's name].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on with the run in the output directory (auto), refuse to (never), or start from the
    /// checkpoint or run at PATH.
    #[arg(long, value_name = "auto|never|PATH", default_value = "auto")]
    pub resume: Resume,
    /// The device: auto, cpu, wgpu[:i], vulkan[:i] or cuda[:i]; see `asr-train doctor`.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DeviceName,
    /// Show nothing but errors and the result.
    #[arg(long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The run's TOML file.
    pub config: PathBuf,
    /// Override a config value, as in training.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
    /// The device that will train, which bounds the targets: auto, cpu, wgpu[:i], vulkan[:i] or
    /// cuda[:i].
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DeviceName,
    /// Where the report goes as JSON.
    #[arg(long, value_name = "FILE", default_value = "data_report.json")]
    pub report: PathBuf,
    /// Write the usable part of the training set as a manifest.
    #[arg(long, value_name = "OUT.jsonl")]
    pub fix: Option<PathBuf>,
    /// Show nothing but errors and the result.
    #[arg(long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = TOKENS_EXAMPLES, after_long_help = TOKENS_EXAMPLES)]
pub(super) struct TokensArgs {
    /// The run's TOML file, whose training transcripts are read.
    pub config: PathBuf,
    /// What the classes stand for: char, bpe or unigram [default: tokens.kind].
    #[arg(long, value_name = "KIND")]
    pub kind: Option<TokenKind>,
    /// Pieces of bpe and unigram [default: tokens.size].
    #[arg(long, value_name = "N")]
    pub size: Option<usize>,
    /// The file to write, whole or not at all [default: KIND-N.json, or char.txt].
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Override a config value, as in training.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = IMPORT_KINDS, after_long_help = IMPORT_KINDS)]
pub(super) struct ImportArgs {
    /// What to read; its kind is told by its content.
    #[arg(value_name = "SRC")]
    pub source: PathBuf,
    /// The manifest to write, whole or not at all.
    #[arg(value_name = "DEST.jsonl")]
    pub destination: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES, after_long_help = EXPORT_EXAMPLES)]
pub(super) struct ExportArgs {
    /// A run directory (its best checkpoint is taken) or a checkpoint directory.
    #[arg(value_name = "RUN|CHECKPOINT")]
    pub run: PathBuf,
    /// The directory to write, whole or not at all; it must not exist yet, or be empty.
    #[arg(value_name = "DIR")]
    pub out: PathBuf,
    /// What to write: hf is a Hugging Face directory.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = ExportFormat::Hf)]
    pub format: ExportFormat,
}

/// What `asr-train export` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportFormat {
    /// A Hugging Face directory.
    Hf,
}

/// Measure a trained recogniser, and fail a CI job if it is not good enough.
///
/// Prints a line for each set in Kaldi's form, and writes hyp.trn, ref.trn, per_utt.csv and
/// results.json for each into eval/SET of the output directory.
#[derive(Debug, Parser)]
#[command(name = "asr-eval", version)]
#[command(after_help = EXIT_CODES, after_long_help = format!("{EVAL_EXAMPLES}\n{EXIT_CODES}"))]
pub(super) struct EvalArgs {
    /// A run directory (its best checkpoint is taken) or a checkpoint directory.
    #[arg(value_name = "RUN|CHECKPOINT")]
    pub run: PathBuf,
    /// What to measure on, instead of the config's data.test; may be given several times.
    #[arg(long = "manifest", value_name = "FILE")]
    pub manifests: Vec<PathBuf>,
    /// The device: auto, cpu, wgpu[:i], vulkan[:i] or cuda[:i]; see `asr-train doctor`.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DeviceName,
    /// Where eval/SET goes [default: the run directory].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Exit with 4 if the word error rate of any set is above this percentage.
    #[arg(long, value_name = "PERCENT")]
    pub max_wer: Option<f64>,
    /// Show nothing but errors and the result.
    #[arg(long)]
    pub quiet: bool,
}
