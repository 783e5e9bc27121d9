//! Why a vocabulary cannot be made or read.

use std::path::PathBuf;

use crate::wording::{counted, plural};

/// Why a vocabulary cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// No transcript holds a character.
    #[error("the training transcripts hold no characters, so there is nothing to recognise")]
    Empty,
    /// The file cannot be read.
    #[error("{}: cannot read the tokens: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A setting has no meaning.
    #[error("tokens.{key} = {value}: {reason}")]
    Config {
        /// The setting.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it has to be.
        reason: String,
    },
    /// A line is wrong.
    #[error("{}:{line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The file is none of those that are read.
    #[error(
        "{}: {reason}; tokens.file takes a tokenizer.json of Hugging Face, a SentencePiece .model, or what `asr-train tokens` wrote",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is, or what is broken.
        reason: String,
    },
    /// A tokenizer of a kind that is not read.
    #[error(
        "{}: {key} is {found}, and what is read is {known}; train one with `asr-train tokens CONFIG --kind bpe`, or save the tokenizer as one of these",
        path.display()
    )]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// Where in it.
        key: String,
        /// What stands there.
        found: String,
        /// What may stand there.
        known: &'static str,
    },
    /// Fewer pieces asked for than there are characters.
    #[error(
        "{} {} fewer than the {characters} different characters of the training transcripts (word starts included); ask for {characters} or more, or set data.normalizer = \"basic\"",
        counted(*size, "piece"), plural(*size, "is", "are")
    )]
    TooSmall {
        /// Pieces asked for.
        size: usize,
        /// Characters.
        characters: usize,
    },
    /// More pieces asked for than the transcripts give.
    #[error(
        "the training transcripts give {} at most, and {size} are asked for; ask for {possible} or fewer, or give more text",
        counted(*possible, "piece")
    )]
    TooLarge {
        /// Pieces asked for.
        size: usize,
        /// Pieces there are.
        possible: usize,
    },
    /// The vocabulary has no form as a `tokenizer.json` in which the blank is the last token.
    #[error("the vocabulary has no tokenizer.json for other programs: {reason}")]
    NoJson {
        /// Why.
        reason: String,
    },
    /// The mark of word starts in a transcript.
    #[error(
        "{} {} '\u{2581}' (U+2581), which marks the start of a word in pieces, so that it could not be told from a space; take it out of the transcripts (data.normalizer = \"basic\" does), or use characters",
        counted(*count, "training transcript"), plural(*count, "holds", "hold")
    )]
    Mark {
        /// Transcripts with it.
        count: usize,
    },
}
