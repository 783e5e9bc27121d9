//! The settings of the vocabulary.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::TokensError;

/// What the classes of the model stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenKind {
    /// The vocabulary of `init_from` where it spells every training transcript; else characters.
    #[default]
    Auto,
    /// Characters of the training transcripts.
    Char,
    /// Parts of words, found by merging frequent neighbours.
    Bpe,
    /// Parts of words, found as a unigram language model.
    Unigram,
}

impl TokenKind {
    /// The name used in configs and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            TokenKind::Auto => "auto",
            TokenKind::Char => "char",
            TokenKind::Bpe => "bpe",
            TokenKind::Unigram => "unigram",
        }
    }
}

/// The kinds that can be made of transcripts.
impl std::str::FromStr for TokenKind {
    type Err = String;

    fn from_str(name: &str) -> Result<TokenKind, String> {
        let kinds = [TokenKind::Char, TokenKind::Bpe, TokenKind::Unigram];
        let found = kinds.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("expected char, bpe or unigram, and found {name:?}"))
    }
}

/// Where the vocabulary comes from. It is saved with the run, and evaluation takes it from there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokensConfig {
    /// `"char"`, `"bpe"` or `"unigram"`, made from the training transcripts; `"auto"` takes the vocabulary
    /// of `init_from` where it spells them all, and else characters.
    pub kind: TokenKind,
    /// Pieces of `"bpe"` and `"unigram"`.
    pub size: usize,
    /// A `tokenizer.json` of Hugging Face, a SentencePiece `.model`, or what `asr-train tokens` wrote,
    /// used instead. Empty: none.
    pub file: PathBuf,
}

impl Default for TokensConfig {
    fn default() -> TokensConfig {
        TokensConfig { kind: TokenKind::Auto, size: 256, file: PathBuf::new() }
    }
}

impl TokensConfig {
    /// The file to read, if one is named.
    pub fn file(&self) -> Option<&std::path::Path> {
        (!self.file.as_os_str().is_empty()).then_some(self.file.as_path())
    }

    /// Checks that the settings mean one thing.
    ///
    /// # Errors
    /// When a file and a kind are named, or no piece is asked for.
    pub fn validate(&self) -> Result<(), TokensError> {
        let file = self.file.display().to_string();
        if self.file().is_some() && self.kind != TokenKind::Auto {
            return Err(TokensError::Config {
                key: "kind",
                value: self.kind.name().to_owned(),
                reason: format!(
                    "tokens.file = {file:?} brings its own kind; leave one of them out"
                ),
            });
        }
        if self.size == 0 {
            let reason = "expected a number of pieces, such as 256".to_owned();
            return Err(TokensError::Config { key: "size", value: "0".to_owned(), reason });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_without_a_meaning_is_named() {
        let read = |text: &str| toml::from_str::<TokensConfig>(text);
        read("").unwrap().validate().unwrap();
        read("kind = \"bpe\"\nsize = 64").unwrap().validate().unwrap();
        read("file = \"a.json\"").unwrap().validate().unwrap();
        for (text, words) in [
            ("size = 0", "tokens.size = 0"),
            ("kind = \"char\"\nfile = \"a.json\"", "tokens.kind = char: tokens.file = \"a.json\""),
            ("kind = \"bpe\"\nfile = \"a.json\"", "tokens.kind = bpe: tokens.file = \"a.json\""),
        ] {
            let error = read(text).unwrap().validate().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(read("kind = \"word\"").is_err());
        for kind in [TokenKind::Auto, TokenKind::Char, TokenKind::Bpe, TokenKind::Unigram] {
            assert_eq!(
                kind.name().parse().ok(),
                Some(kind).filter(|kind| *kind != TokenKind::Auto)
            );
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
