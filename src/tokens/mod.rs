//! The vocabulary: which classes the model has, and how they spell a text. Characters of the transcripts,
//! or pieces of words by BPE or a unigram model, learnt here or read from Hugging Face's `tokenizer.json`
//! or SentencePiece's `.model`.
//!
//! The CTC blank is the last class (as in NVIDIA's Parakeet) and no symbol, so that no transcript can
//! spell it. Nothing is ever spelt as unknown: [`Tokens::encode`] lists what has no class.

mod bpe;
mod characters;
mod charsmap;
mod config;
mod coverage;
mod error;
mod hugging_face;
mod lattice;
mod normalize;
mod pieces;
mod protobuf;
mod saved;
mod sentencepiece;
mod spell;
mod subwords;
mod train_bpe;
mod train_unigram;
mod trie;
mod unigram;
mod unknown;
mod words;

#[cfg(test)]
mod goldens;

use std::path::Path;
use std::sync::Arc;

use characters::Characters;
use pieces::Kind;
use subwords::{Source, Subwords};
use words::Words;

use crate::wording::counted;

pub use config::{TokenKind, TokensConfig};
pub use coverage::Coverage;
pub use error::TokensError;
pub use unknown::UnknownCharacters;

/// A vocabulary; cheap to clone.
#[derive(Clone, Debug)]
pub struct Tokens(Vocabulary);

#[derive(Clone, Debug)]
enum Vocabulary {
    Characters(Arc<Characters>),
    Subwords(Arc<Subwords>),
}

impl From<Characters> for Tokens {
    fn from(characters: Characters) -> Tokens {
        Tokens(Vocabulary::Characters(Arc::new(characters)))
    }
}

impl From<Subwords> for Tokens {
    fn from(subwords: Subwords) -> Tokens {
        Tokens(Vocabulary::Subwords(Arc::new(subwords)))
    }
}

/// A character alphabet as its characters, pieces as their number and kind.
impl std::fmt::Display for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match &self.0 {
            Vocabulary::Characters(characters) => {
                characters.symbols().iter().try_for_each(|symbol| write!(f, "{symbol}"))
            }
            Vocabulary::Subwords(subwords) => {
                let noun = format!("{} piece", subwords.model_name());
                f.write_str(&counted(self.num_symbols(), &noun))
            }
        }
    }
}

impl PartialEq for Tokens {
    fn eq(&self, other: &Tokens) -> bool {
        match (&self.0, &other.0) {
            (Vocabulary::Characters(a), Vocabulary::Characters(b)) => a == b,
            (Vocabulary::Subwords(a), Vocabulary::Subwords(b)) => a.source == b.source,
            _ => false,
        }
    }
}

impl Tokens {
    /// What `config` asks for: the file that it names, or a vocabulary of `transcripts`.
    ///
    /// # Errors
    /// When the file cannot be read, or the transcripts do not give such a vocabulary.
    pub fn new<'a>(
        config: &TokensConfig,
        transcripts: impl IntoIterator<Item = &'a str>,
    ) -> Result<Tokens, TokensError> {
        config.validate()?;
        match config.file() {
            Some(file) => Tokens::load(file),
            None => Tokens::train(config.kind, config.size, transcripts),
        }
    }

    /// A vocabulary of `transcripts`; `size` is the number of pieces, and of no meaning for characters.
    ///
    /// # Errors
    /// When the transcripts hold no characters, too many, or too little text for so many pieces.
    pub fn train<'a>(
        kind: TokenKind,
        size: usize,
        transcripts: impl IntoIterator<Item = &'a str>,
    ) -> Result<Tokens, TokensError> {
        let train = match kind {
            TokenKind::Auto | TokenKind::Char => return Tokens::from_transcripts(transcripts),
            TokenKind::Bpe => train_bpe::train,
            TokenKind::Unigram => train_unigram::train,
        };
        let words = Words::count(transcripts, size)?;
        let text = hugging_face::write(train(&words, size)?);
        Ok(hugging_face::read(&text, Path::new("tokenizer.json"))?.into())
    }

    /// The characters of `transcripts`, in the order of their code points.
    ///
    /// # Errors
    /// When there are none.
    pub fn from_transcripts<'a>(
        transcripts: impl IntoIterator<Item = &'a str>,
    ) -> Result<Tokens, TokensError> {
        Ok(Characters::from_transcripts(transcripts)?.into())
    }

    /// Symbols of the vocabulary, those that spell nothing included.
    pub fn num_symbols(&self) -> usize {
        match &self.0 {
            Vocabulary::Characters(characters) => characters.symbols().len(),
            Vocabulary::Subwords(subwords) => subwords.pieces.list().len(),
        }
    }

    /// Classes of the model: the symbols and the blank.
    pub fn num_classes(&self) -> usize {
        self.num_symbols() + 1
    }

    /// The class of the CTC blank.
    pub fn blank(&self) -> u32 {
        self.num_symbols() as u32
    }

    /// What each class stands for, in order: a character, or a piece with the mark of word starts.
    pub fn symbols(&self) -> Vec<String> {
        match &self.0 {
            Vocabulary::Characters(all) => all.symbols().iter().map(char::to_string).collect(),
            Vocabulary::Subwords(subwords) => {
                subwords.pieces.list().iter().map(|piece| piece.text.clone()).collect()
            }
        }
    }

    /// `3 characters "abc"`, `256 bpe pieces` or `256 unigram pieces`.
    pub fn describe(&self) -> String {
        match &self.0 {
            Vocabulary::Characters(_) => {
                format!("{} {:?}", counted(self.num_symbols(), "character"), self.to_string())
            }
            Vocabulary::Subwords(_) => self.to_string(),
        }
    }

    /// Whether a class may stand for a part of a text. Classes such as `<unk>` of a tokenizer's file, and
    /// the blank, may not.
    pub fn spells(&self, class: u32) -> bool {
        match &self.0 {
            Vocabulary::Characters(characters) => (class as usize) < characters.symbols().len(),
            Vocabulary::Subwords(subwords) => {
                let piece = subwords.pieces.list().get(class as usize);
                piece.is_some_and(|piece| piece.kind != Kind::Silent)
            }
        }
    }

    /// Classes that stand for no part of a text, such as `<unk>` of a tokenizer's file; the blank is none.
    pub fn silent_classes(&self) -> Vec<u32> {
        (0..self.blank()).filter(|class| !self.spells(*class)).collect()
    }

    /// The classes that spell `text`.
    ///
    /// # Errors
    /// Lists the characters without a class.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, UnknownCharacters> {
        let (labels, unknown) = self.encode_known(text);
        if unknown.is_empty() { Ok(labels) } else { Err(unknown) }
    }

    /// The classes of what has some, and the characters without any, with their counts.
    pub fn encode_known(&self, text: &str) -> (Vec<u32>, UnknownCharacters) {
        match &self.0 {
            Vocabulary::Characters(characters) => characters.encode(text),
            Vocabulary::Subwords(subwords) => subwords.encode(text),
        }
    }

    /// The text that `labels` spell. Blanks, classes beyond the vocabulary and those that stand for no text
    /// spell nothing.
    pub fn decode(&self, labels: &[u32]) -> String {
        match &self.0 {
            Vocabulary::Characters(characters) => characters.decode(labels),
            Vocabulary::Subwords(subwords) => subwords.decode(labels),
        }
    }

    /// A `tokenizer.json` in which the blank is a special token, as programs of Hugging Face expect of a CTC
    /// model, and that token.
    ///
    /// # Errors
    /// What has no such file: SentencePiece models, and vocabularies with classes that have no token.
    pub fn tokenizer_json(&self) -> Result<(serde_json::Value, String), TokensError> {
        match &self.0 {
            Vocabulary::Characters(characters) => Ok(hugging_face::of_characters(characters)),
            Vocabulary::Subwords(subwords) => match &subwords.source {
                Source::HuggingFace(text) => hugging_face::with_blank(text, &subwords.pieces),
                Source::SentencePiece(_) => Err(TokensError::NoJson {
                    reason: "it is a SentencePiece model; train with a tokenizer.json".to_owned(),
                }),
            },
        }
    }

    /// The file that other programs read, with its usual name: `tokenizer.json` or `tokenizer.model`.
    /// Characters have none.
    pub fn foreign_file(&self) -> Option<(&'static str, &[u8])> {
        match &self.0 {
            Vocabulary::Characters(_) => None,
            Vocabulary::Subwords(subwords) => Some(match &subwords.source {
                Source::HuggingFace(text) => ("tokenizer.json", text.as_bytes()),
                Source::SentencePiece(bytes) => ("tokenizer.model", bytes),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSCRIPTS: [&str; 4] = [
        "the other brother and the mother gather together",
        "this thing and that thing are nothing to the singer",
        "oh seven nine's the caf\u{e9} o'clock",
        "another mother's other brother gathers things together",
    ];

    fn all() -> Vec<Tokens> {
        let kinds = [TokenKind::Char, TokenKind::Bpe, TokenKind::Unigram];
        kinds.map(|kind| Tokens::train(kind, 40, TRANSCRIPTS).unwrap()).to_vec()
    }

    #[test]
    fn decoding_an_encoding_gives_the_words_back() {
        for tokens in all() {
            for text in
                TRANSCRIPTS.iter().copied().chain(["", "h", "oh ho o'o", "  the \t things "])
            {
                // Characters know no tab.
                let Ok(labels) = tokens.encode(text) else { continue };
                let words =
                    |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
                assert_eq!(words(&tokens.decode(&labels)), words(text), "{tokens}");
                assert!(
                    labels.iter().all(|label| tokens.spells(*label) && *label < tokens.blank())
                );
            }
            assert_eq!(tokens.num_classes(), tokens.symbols().len() + 1);
            assert_eq!(tokens.decode(&[tokens.blank(), 99_999]), "");
            assert!(!tokens.spells(tokens.blank()));
        }
    }

    #[test]
    fn pieces_are_fewer_labels_than_characters_and_as_many_as_asked_for() {
        let [characters, bpe, unigram] = &all()[..] else { unreachable!() };
        for pieces in [bpe, unigram] {
            assert_eq!(pieces.num_symbols(), 40);
            let labels = |tokens: &Tokens| Coverage::of(tokens, TRANSCRIPTS).labels;
            assert!(labels(pieces) < labels(characters) * 2 / 3, "{}", labels(pieces));
            assert!(Coverage::of(pieces, TRANSCRIPTS).unknown.is_empty());
        }
    }

    #[test]
    fn unknown_characters_are_listed_with_counts_and_the_rest_is_kept() {
        for tokens in all() {
            let error = tokens.encode("three zz \u{4e2d}").unwrap_err();
            assert_eq!((error.counts[&'z'], error.counts[&'\u{4e2d}']), (2, 1));
            assert!(error.to_string().contains("'z' (U+007A) 2x"), "{error}");
            let (labels, _) = tokens.encode_known("ozzh");
            assert_eq!(tokens.decode(&labels), "oh", "{tokens}");
        }
    }

    #[test]
    fn training_twice_gives_the_same_and_the_order_of_transcripts_changes_nothing() {
        let reversed: Vec<&str> = TRANSCRIPTS.iter().rev().copied().collect();
        for (tokens, kind) in
            all().iter().zip([TokenKind::Char, TokenKind::Bpe, TokenKind::Unigram])
        {
            assert_eq!(Tokens::train(kind, 40, reversed.iter().copied()).unwrap(), *tokens);
        }
    }
}
