//! A subword vocabulary: normalise, spell in pieces, and back, with the file it came from, byte for byte.

use super::bpe::Bpe;
use super::normalize::Normalize;
use super::pieces::{Pieces, Span, WORD_START};
use super::spell::Spell;
use super::unigram::Unigram;
use super::unknown::UnknownCharacters;

/// How a text is cut into pieces.
#[derive(Clone, Debug)]
pub(super) enum Model {
    Bpe(Bpe),
    Unigram(Unigram),
}

/// The file that a vocabulary is: its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Hugging Face's `tokenizer.json`.
    HuggingFace(String),
    /// SentencePiece's `.model`.
    SentencePiece(Vec<u8>),
}

/// A subword vocabulary.
#[derive(Clone, Debug)]
pub(super) struct Subwords {
    pub(super) pieces: Pieces,
    pub(super) normalize: Normalize,
    pub(super) model: Model,
    pub(super) spell: Spell,
    pub(super) source: Source,
}

impl Subwords {
    /// `"bpe"` or `"unigram"`.
    pub(super) fn model_name(&self) -> &'static str {
        match self.model {
            Model::Bpe(_) => "bpe",
            Model::Unigram(_) => "unigram",
        }
    }

    /// The classes that spell `text`, and the characters without any.
    pub(super) fn encode(&self, text: &str) -> (Vec<u32>, UnknownCharacters) {
        let mut classes = Vec::with_capacity(text.len());
        let mut unknown = UnknownCharacters::default();
        for part in self.normalize.parts(text) {
            let spans = match &self.model {
                Model::Bpe(bpe) => bpe.encode(&self.pieces, &part),
                Model::Unigram(unigram) => unigram.encode(&part),
            };
            for Span { start, end, class } in spans {
                if let Some(class) = class {
                    classes.push(class);
                } else if let Some(bytes) = self.pieces.bytes(&part[start..end]) {
                    classes.extend(bytes);
                } else {
                    let shown = |symbol| if symbol == WORD_START { ' ' } else { symbol };
                    part[start..end].chars().for_each(|symbol| unknown.add(shown(symbol)));
                }
            }
        }
        (classes, unknown)
    }

    /// The text that `classes` spell.
    pub(super) fn decode(&self, classes: &[u32]) -> String {
        self.spell.text(&self.pieces, classes)
    }
}
