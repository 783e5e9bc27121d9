//! SentencePiece's `.model`: a Protocol Buffers message with pieces, the trainer's and the normaliser's
//! settings (`sentencepiece_model.proto`). Unigram, BPE and characters; words are refused.

use std::path::Path;

use super::bpe::{Bpe, Merges};
use super::charsmap::Charsmap;
use super::error::TokensError;
use super::normalize::{Normalize, SentencePiece};
use super::pieces::{Kind, Piece, Pieces, byte_of};
use super::protobuf::{Fields, Value};
use super::spell::Spell;
use super::subwords::{Model, Source, Subwords};
use super::trie::Trie;
use super::unigram::Unigram;

/// What is read of the message.
#[derive(Default)]
struct Message {
    pieces: Vec<(Piece, f32)>,
    has_unused: bool,
    model_type: Option<u64>,
    byte_fallback: bool,
    marks_ends: bool,
    charsmap: Vec<u8>,
    adds_prefix: Option<bool>,
    removes_spaces: Option<bool>,
    marks_spaces: Option<bool>,
    denormalizer: Vec<u8>,
}

/// Reads a `.model`; `path` is for messages.
pub(super) fn read(bytes: &[u8], path: &Path) -> Result<Subwords, TokensError> {
    let broken = |reason: String| TokensError::Foreign {
        path: path.into(),
        reason: format!("neither text nor a whole SentencePiece model ({reason})"),
    };
    let message = Message::parse(bytes).map_err(broken)?;
    if message.pieces.is_empty() {
        return Err(broken("it holds no pieces".into()));
    }
    let unsupported = |key: &str, found: String, known| TokensError::Unsupported {
        path: path.into(),
        key: key.into(),
        found,
        known,
    };
    if !message.denormalizer.is_empty() {
        let found = format!("{} bytes", message.denormalizer.len());
        return Err(unsupported("denormalizer_spec.precompiled_charsmap", found, "none"));
    }
    let charsmap = match message.charsmap.as_slice() {
        [] => None,
        bytes => Some(Charsmap::parse(bytes).map_err(broken)?),
    };
    let (list, scores): (Vec<Piece>, Vec<f32>) = message.pieces.into_iter().unzip();
    let mut user_defined = Trie::default();
    for (class, piece) in list.iter().enumerate().filter(|(_, p)| p.kind == Kind::UserDefined) {
        user_defined.insert(&piece.text, class as u32);
    }
    let bpe = |merges, user_defined| Model::Bpe(Bpe { merges, whole_words: false, user_defined });
    let model = match message.model_type {
        None | Some(1) => {
            let scores: Vec<f64> = scores.into_iter().map(f64::from).collect();
            Model::Unigram(Unigram::new(&list, &scores, true))
        }
        Some(2) if message.has_unused => {
            return Err(unsupported("a piece of a BPE model", "unused".into(), "normal pieces"));
        }
        Some(2) => bpe(Merges::Pieces(ranks(&scores)), user_defined.clone()),
        Some(4) => bpe(Merges::Pairs(Default::default()), user_defined.clone()),
        Some(other) => {
            let found = if other == 3 { "WORD".into() } else { other.to_string() };
            return Err(unsupported("trainer_spec.model_type", found, "UNIGRAM, BPE or CHAR"));
        }
    };
    let adds_prefix = message.adds_prefix.unwrap_or(true);
    let removes_spaces = message.removes_spaces.unwrap_or(true);
    Ok(Subwords {
        pieces: Pieces::new(list, message.byte_fallback),
        normalize: Normalize::SentencePiece(SentencePiece {
            charsmap,
            user_defined,
            adds_prefix,
            removes_spaces,
            marks_spaces: message.marks_spaces.unwrap_or(true),
            marks_ends: message.marks_ends,
        }),
        model,
        spell: Spell::SentencePiece {
            strips_first: adds_prefix || removes_spaces,
            strips_all: removes_spaces,
        },
        source: Source::SentencePiece(bytes.to_vec()),
    })
}

/// Pieces of a higher score merge first; equal scores share a rank.
fn ranks(scores: &[f32]) -> Vec<u32> {
    let mut sorted = scores.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted.dedup();
    let rank = |score: &f32| sorted.partition_point(|other| other.total_cmp(score).is_gt()) as u32;
    scores.iter().map(rank).collect()
}

fn flag(value: Value) -> bool {
    matches!(value, Value::Number(number) if number != 0)
}

impl Message {
    fn parse(bytes: &[u8]) -> Result<Message, String> {
        let mut message = Message::default();
        for field in Fields::new(bytes) {
            match field? {
                (1, Value::Bytes(piece)) => message.piece(piece)?,
                (2, Value::Bytes(trainer)) => {
                    for field in Fields::new(trainer) {
                        match field? {
                            (3, Value::Number(number)) => message.model_type = Some(number),
                            (24, value) => message.marks_ends = flag(value),
                            (35, value) => message.byte_fallback = flag(value),
                            _ => {}
                        }
                    }
                }
                (3, Value::Bytes(normalizer)) => {
                    for field in Fields::new(normalizer) {
                        match field? {
                            (2, Value::Bytes(charsmap)) => message.charsmap = charsmap.to_vec(),
                            (3, value) => message.adds_prefix = Some(flag(value)),
                            (4, value) => message.removes_spaces = Some(flag(value)),
                            (5, value) => message.marks_spaces = Some(flag(value)),
                            _ => {}
                        }
                    }
                }
                (5, Value::Bytes(denormalizer)) => {
                    for field in Fields::new(denormalizer) {
                        if let (2, Value::Bytes(charsmap)) = field? {
                            message.denormalizer = charsmap.to_vec();
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(message)
    }

    fn piece(&mut self, bytes: &[u8]) -> Result<(), String> {
        let number = self.pieces.len();
        let (mut text, mut score, mut kind) = ("", 0.0, 1);
        for field in Fields::new(bytes) {
            match field? {
                (1, Value::Bytes(bytes)) => {
                    text = std::str::from_utf8(bytes)
                        .map_err(|error| format!("piece {number} is not UTF-8: {error}"))?;
                }
                (2, Value::Float(float)) => score = float,
                (3, Value::Number(number)) => kind = number,
                _ => {}
            }
        }
        if text.is_empty() || score.is_nan() {
            return Err(format!("piece {number} is {text:?} with the score {score}"));
        }
        self.has_unused |= kind == 5;
        let kind = match kind {
            1 => Kind::Normal,
            4 => Kind::UserDefined,
            2 | 3 | 5 => Kind::Silent,
            6 => Kind::Byte(byte_of(text).ok_or(format!("piece {number}, {text:?}, is no byte"))?),
            other => {
                return Err(format!("piece {number}, {text:?}, is of the unknown type {other}"));
            }
        };
        self.pieces.push((Piece { text: text.to_owned(), kind }, score));
        Ok(())
    }
}
