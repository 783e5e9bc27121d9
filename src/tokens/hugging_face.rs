//! Hugging Face's `tokenizer.json`: BPE and unigram models with the normalisers, pre-tokenisers and
//! decoders that SentencePiece-like tokenizers are made of, and alphabets. Everything else is refused by
//! name. A padding token behind the last piece is the CTC blank, as in Parakeet, and no piece.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::bpe::{Bpe, Merges};
use super::characters::Characters;
use super::charsmap::Charsmap;
use super::error::TokensError;
use super::normalize::{Normalize, Normalizer, Split};
use super::pieces::{Kind, Piece, Pieces, WORD_START, byte_of};
use super::spell::{Spell, Step};
use super::subwords::{Model, Source, Subwords};
use super::trie::Trie;
use super::unigram::Unigram;

/// Contents of added tokens that stand for the CTC blank.
const BLANKS: &[&str] = &["<pad>", "[PAD]", "<blank>", "<blk>"];

/// The expression that parts a text into its characters.
const ANY_CHARACTER: &str = r"[\s\S]";

/// More classes than any vocabulary has: a wild number in a file must not fill the memory.
const MAX_CLASSES: u64 = 1 << 20;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    model: Value,
    #[serde(default)]
    decoder: Value,
}

#[derive(Deserialize)]
struct Added {
    id: u64,
    content: String,
    #[serde(default)]
    special: bool,
}

#[derive(Deserialize)]
struct BpeModel {
    #[serde(default)]
    dropout: Option<f32>,
    #[serde(default)]
    unk_token: Option<String>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    byte_fallback: Option<bool>,
    #[serde(default)]
    ignore_merges: Option<bool>,
    vocab: HashMap<String, u64>,
    merges: Vec<Merge>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Pair(String, String),
    Line(String),
}

#[derive(Deserialize)]
struct UnigramModel {
    #[serde(default)]
    unk_id: Option<u64>,
    #[serde(default)]
    byte_fallback: Option<bool>,
    vocab: Vec<(String, f64)>,
}

#[derive(Deserialize)]
struct WordLevelModel {
    vocab: HashMap<String, u64>,
    unk_token: String,
}

/// Reads the content of a `tokenizer.json`; `path` is for messages.
pub(super) fn read(text: &str, path: &Path) -> Result<Subwords, TokensError> {
    let reader = Reader { path };
    let file: File = serde_json::from_str(text)
        .map_err(|error| reader.foreign(format!("no whole tokenizer.json: {error}")))?;
    let (list, scores, byte_fallback, merges) = reader.model(&file.model)?;
    let (list, scores) = reader.with_added(list, scores, &file.added_tokens)?;
    let pieces = Pieces::new(list, byte_fallback);
    let model = match merges {
        None => Model::Unigram(Unigram::new(pieces.list(), &scores, false)),
        Some((merges, whole_words)) => Model::Bpe(Bpe {
            merges: Merges::Pairs(reader.pairs(&pieces, merges)?),
            whole_words,
            user_defined: Trie::default(),
        }),
    };
    let (mut normalizers, mut splits, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    reader.normalizers("normalizer", &file.normalizer, &mut normalizers)?;
    reader.splits("pre_tokenizer", &file.pre_tokenizer, &mut splits)?;
    if file.model["type"] == "WordLevel" && !splits.contains(&Split::Characters) {
        return Err(reader.unsupported("model.type", &file.model["type"], MODELS));
    }
    reader.steps("decoder", &file.decoder, &mut steps)?;
    if steps.is_empty() {
        return Err(reader.unsupported("decoder", &file.decoder, DECODERS));
    }
    Ok(Subwords {
        pieces,
        normalize: Normalize::HuggingFace { normalizers, splits },
        model,
        spell: Spell::Steps(steps),
        source: Source::HuggingFace(text.to_owned()),
    })
}

const MODELS: &str = "BPE, Unigram, or WordLevel of an alphabet (a Split into characters)";
const NORMALIZERS: &str =
    "NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace, Precompiled, or a Sequence of them";
const SPLITS: &str =
    "Metaspace, WhitespaceSplit, Split by the Regex \"[\\s\\S]\", or a Sequence of them";
const DECODERS: &str = "Metaspace, Replace, ByteFallback, Fuse, Strip, or a Sequence of them";

/// Rank and merged class of two classes.
type Pairs = HashMap<(u32, u32), (u32, u32)>;

type ReadModel = (Vec<Piece>, Vec<f64>, bool, Option<(Vec<Merge>, bool)>);

struct Reader<'a> {
    path: &'a Path,
}

impl Reader<'_> {
    fn foreign(&self, reason: impl Into<String>) -> TokensError {
        TokensError::Foreign { path: self.path.into(), reason: reason.into() }
    }

    fn unsupported(&self, key: &str, found: &Value, known: &'static str) -> TokensError {
        let mut found = match found.get("type") {
            Some(name) => name.to_string(),
            None => found.to_string(),
        };
        if found.chars().count() > 80 {
            found = found.chars().take(80).chain(['\u{2026}']).collect();
        }
        TokensError::Unsupported { path: self.path.into(), key: key.into(), found, known }
    }

    fn parse<T: for<'de> Deserialize<'de>>(
        &self,
        key: &str,
        value: &Value,
    ) -> Result<T, TokensError> {
        T::deserialize(value).map_err(|error| self.foreign(format!("{key}: {error}")))
    }

    /// Pieces with their scores, whether bytes stand in, and the merges of a BPE model.
    fn model(&self, model: &Value) -> Result<ReadModel, TokensError> {
        // Files of old have no type for what has merges.
        let name = model.get("type").and_then(Value::as_str);
        match name.or(model.get("merges").map(|_| "BPE")) {
            Some("BPE") => {
                let bpe: BpeModel = self.parse("model", model)?;
                for (key, affix) in [
                    ("model.continuing_subword_prefix", &bpe.continuing_subword_prefix),
                    ("model.end_of_word_suffix", &bpe.end_of_word_suffix),
                ] {
                    if let Some(affix) = affix.as_ref().filter(|affix| !affix.is_empty()) {
                        return Err(self.unsupported(key, &Value::from(affix.as_str()), "null"));
                    }
                }
                if bpe.dropout.is_some_and(|share| share > 0.0) {
                    let found = &model["dropout"];
                    return Err(self.unsupported("model.dropout", found, "null"));
                }
                let mut list = Vec::new();
                for (text, class) in bpe.vocab {
                    self.place(&mut list, class, text, Kind::Normal)?;
                }
                silence(&mut list, |piece| Some(&piece.text) == bpe.unk_token.as_ref());
                let scores = vec![0.0; list.len()];
                let whole_words = bpe.ignore_merges.unwrap_or(false);
                let fallback = bpe.byte_fallback.unwrap_or(false);
                Ok((list, scores, fallback, Some((bpe.merges, whole_words))))
            }
            Some("Unigram") => {
                let unigram: UnigramModel = self.parse("model", model)?;
                let mut list = Vec::with_capacity(unigram.vocab.len());
                let mut scores = Vec::with_capacity(unigram.vocab.len());
                for (class, (text, score)) in unigram.vocab.into_iter().enumerate() {
                    if text.is_empty() || !score.is_finite() {
                        let reason = format!("model.vocab[{class}] is {text:?} with {score}");
                        return Err(self.foreign(reason));
                    }
                    let is_unknown = unigram.unk_id == Some(class as u64);
                    let kind = if is_unknown { Kind::Silent } else { Kind::Normal };
                    list.push(Piece { text, kind });
                    scores.push(score);
                }
                Ok((list, scores, unigram.byte_fallback.unwrap_or(false), None))
            }
            Some("WordLevel") => {
                let words: WordLevelModel = self.parse("model", model)?;
                let mut list = Vec::new();
                for (text, class) in words.vocab {
                    self.place(&mut list, class, text, Kind::Normal)?;
                }
                silence(&mut list, |piece| piece.text == words.unk_token);
                let scores = vec![0.0; list.len()];
                Ok((list, scores, false, Some((Vec::new(), true))))
            }
            _ => Err(self.unsupported("model.type", &model["type"], MODELS)),
        }
    }

    /// Puts a piece at its class; classes without one are silent.
    fn place(
        &self,
        list: &mut Vec<Piece>,
        class: u64,
        text: String,
        kind: Kind,
    ) -> Result<(), TokensError> {
        if class >= MAX_CLASSES {
            return Err(self.foreign(format!("{text:?} has the number {class}")));
        }
        let class = class as usize;
        while list.len() <= class {
            list.push(Piece { text: String::new(), kind: Kind::Silent });
        }
        if !list[class].text.is_empty() && list[class].text != text {
            let first = &list[class].text;
            return Err(self.foreign(format!("{first:?} and {text:?} share the number {class}")));
        }
        list[class] = Piece { text, kind };
        Ok(())
    }

    /// The added tokens in their places; special ones are silent, and the blank is left off.
    fn with_added(
        &self,
        mut list: Vec<Piece>,
        mut scores: Vec<f64>,
        added: &[Added],
    ) -> Result<(Vec<Piece>, Vec<f64>), TokensError> {
        let last = added.iter().max_by_key(|token| token.id);
        let blank = last.filter(|token| {
            token.id + 1 >= list.len() as u64 && BLANKS.contains(&token.content.as_str())
        });
        if blank.is_some_and(|blank| blank.id + 1 == list.len() as u64) {
            list.pop();
        }
        for token in added.iter().filter(|token| blank.is_none_or(|blank| blank.id != token.id)) {
            let is_model = list.get(token.id as usize).is_some_and(|p| p.text == token.content);
            if token.special || !is_model {
                self.place(&mut list, token.id, token.content.clone(), Kind::Silent)?;
            }
        }
        if let Some(blank) = blank
            && blank.id > list.len() as u64
        {
            self.place(&mut list, blank.id - 1, String::new(), Kind::Silent)?;
        }
        scores.resize(list.len(), 0.0);
        for piece in &mut list {
            if let (Kind::Normal, Some(byte)) = (piece.kind, byte_of(&piece.text)) {
                piece.kind = Kind::Byte(byte);
            }
        }
        if list.iter().all(|piece| piece.kind == Kind::Silent) {
            return Err(self.foreign("the tokenizer holds no pieces"));
        }
        Ok((list, scores))
    }

    fn pairs(&self, pieces: &Pieces, merges: Vec<Merge>) -> Result<Pairs, TokensError> {
        let mut pairs = HashMap::with_capacity(merges.len());
        for (rank, merge) in merges.into_iter().enumerate() {
            let wrong = |what: &str| self.foreign(format!("model.merges[{rank}]: {what}"));
            let (left, right) = match merge {
                Merge::Pair(left, right) => (left, right),
                Merge::Line(line) => match line.split_once(' ') {
                    Some((left, right)) => (left.to_owned(), right.to_owned()),
                    None => return Err(wrong(&format!("{line:?} is no pair"))),
                },
            };
            let class = |text: &str| {
                pieces.class(text).ok_or_else(|| wrong(&format!("{text:?} is no piece")))
            };
            let merged = class(&format!("{left}{right}"))?;
            // Of two with one pair the later counts, as in a map filled in order.
            pairs.insert((class(&left)?, class(&right)?), (rank as u32, merged));
        }
        Ok(pairs)
    }

    fn normalizers(
        &self,
        key: &str,
        value: &Value,
        steps: &mut Vec<Normalizer>,
    ) -> Result<(), TokensError> {
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let unsupported = || self.unsupported(key, value, NORMALIZERS);
        steps.push(match value["type"].as_str() {
            None if value.is_null() => return Ok(()),
            Some("Sequence") => {
                for (at, part) in self.sequence(key, value, "normalizers")?.iter().enumerate() {
                    self.normalizers(&format!("{key}.normalizers[{at}]"), part, steps)?;
                }
                return Ok(());
            }
            Some("NFC") => Normalizer::Nfc,
            Some("NFD") => Normalizer::Nfd,
            Some("NFKC") => Normalizer::Nfkc,
            Some("NFKD") => Normalizer::Nfkd,
            Some("Lowercase") => Normalizer::Lowercase,
            Some("Strip") => Normalizer::Strip {
                left: value["strip_left"].as_bool().ok_or_else(unsupported)?,
                right: value["strip_right"].as_bool().ok_or_else(unsupported)?,
            },
            Some("Prepend") => Normalizer::Prepend(text("prepend").ok_or_else(unsupported)?),
            Some("Replace") => {
                let to = text("content").ok_or_else(unsupported)?;
                let pattern = &value["pattern"];
                match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
                    (Some(from), _) if !from.is_empty() => {
                        Normalizer::Replace { from: from.to_owned(), to }
                    }
                    // The expressions that converters of SentencePiece models write.
                    (None, Some(" {2,}")) => Normalizer::ReplaceSpaces { to },
                    (None, Some(r"\A +| +\z")) if to.is_empty() => Normalizer::TrimSpaces,
                    (None, Some("\\A\u{2581}")) => {
                        Normalizer::ReplaceStart { from: WORD_START.to_string(), to }
                    }
                    _ => {
                        let key = format!("{key}.pattern");
                        let known =
                            "a String that is not empty, or an expression of a SentencePiece converter";
                        return Err(self.unsupported(&key, pattern, known));
                    }
                }
            }
            Some("Precompiled") => {
                use base64::Engine;
                let encoded = text("precompiled_charsmap").ok_or_else(unsupported)?;
                let bytes = base64::engine::general_purpose::STANDARD
                    .decode(encoded)
                    .map_err(|error| self.foreign(format!("{key}: {error}")))?;
                let charsmap = Charsmap::parse(&bytes);
                let charsmap = charsmap.map_err(|error| self.foreign(format!("{key}: {error}")))?;
                Normalizer::Precompiled(Box::new(charsmap))
            }
            _ => return Err(unsupported()),
        });
        Ok(())
    }

    fn splits(&self, key: &str, value: &Value, splits: &mut Vec<Split>) -> Result<(), TokensError> {
        match value["type"].as_str() {
            None if value.is_null() => {}
            Some("Sequence") => {
                for (at, part) in self.sequence(key, value, "pretokenizers")?.iter().enumerate() {
                    self.splits(&format!("{key}.pretokenizers[{at}]"), part, splits)?;
                }
            }
            Some("WhitespaceSplit") => splits.push(Split::Whitespace),
            Some("Split")
                if value["pattern"]["Regex"] == ANY_CHARACTER
                    && value["behavior"] == "Isolated"
                    && value["invert"] == false =>
            {
                splits.push(Split::Characters);
            }
            Some("Metaspace") => {
                let (mark, scheme) = self.metaspace(key, value)?;
                // Where the text is parted before, the first part is not always its start.
                if scheme == "first" && !splits.is_empty() {
                    let key = format!("{key}.prepend_scheme");
                    let known = "\"always\" or \"never\" behind another pre-tokeniser";
                    return Err(self.unsupported(&key, &value["prepend_scheme"], known));
                }
                splits.push(Split::Metaspace {
                    mark,
                    prepends: scheme != "never",
                    splits: value["split"].as_bool().unwrap_or(true),
                });
            }
            _ => return Err(self.unsupported(key, value, SPLITS)),
        }
        Ok(())
    }

    /// The mark and the scheme by which it is put in front.
    fn metaspace<'v>(&self, key: &str, value: &'v Value) -> Result<(char, &'v str), TokensError> {
        let mut mark = value["replacement"].as_str().unwrap_or_default().chars();
        let (Some(symbol), None) = (mark.next(), mark.next()) else {
            let key = format!("{key}.replacement");
            return Err(self.unsupported(&key, &value["replacement"], "one character"));
        };
        let scheme = match (value["prepend_scheme"].as_str(), value["add_prefix_space"].as_bool()) {
            (None, Some(false)) => "never",
            (None, _) => "always",
            (Some(scheme @ ("always" | "never" | "first")), _) => scheme,
            _ => {
                let key = format!("{key}.prepend_scheme");
                let found = &value["prepend_scheme"];
                return Err(self.unsupported(&key, found, "\"always\", \"never\" or \"first\""));
            }
        };
        Ok((symbol, scheme))
    }

    fn steps(&self, key: &str, value: &Value, steps: &mut Vec<Step>) -> Result<(), TokensError> {
        let unsupported = || self.unsupported(key, value, DECODERS);
        steps.push(match value["type"].as_str() {
            None if value.is_null() => return Ok(()),
            Some("Sequence") => {
                for (at, part) in self.sequence(key, value, "decoders")?.iter().enumerate() {
                    self.steps(&format!("{key}.decoders[{at}]"), part, steps)?;
                }
                return Ok(());
            }
            Some("Metaspace") => {
                let (mark, scheme) = self.metaspace(key, value)?;
                Step::Metaspace { mark, strips_first: scheme != "never" }
            }
            Some("Replace") => Step::Replace {
                from: value["pattern"]["String"].as_str().ok_or_else(unsupported)?.to_owned(),
                to: value["content"].as_str().ok_or_else(unsupported)?.to_owned(),
            },
            Some("ByteFallback") => Step::ByteFallback,
            Some("Fuse") => Step::Fuse,
            Some("Strip") => {
                let count = |name: &str| value[name].as_u64().ok_or_else(unsupported);
                let symbol = value["content"].as_str().and_then(|text| text.chars().next());
                Step::Strip {
                    symbol: symbol.ok_or_else(unsupported)?,
                    start: count("start")?.min(MAX_CLASSES) as usize,
                    stop: count("stop")?.min(MAX_CLASSES) as usize,
                }
            }
            _ => return Err(unsupported()),
        });
        Ok(())
    }

    fn sequence<'v>(
        &self,
        key: &str,
        value: &'v Value,
        list: &str,
    ) -> Result<&'v [Value], TokensError> {
        let parts = value[list].as_array();
        parts.map(Vec::as_slice).ok_or_else(|| self.foreign(format!("{key} has no {list}")))
    }
}

fn silence(list: &mut [Piece], is_silent: impl Fn(&Piece) -> bool) {
    list.iter_mut().filter(|piece| is_silent(piece)).for_each(|piece| piece.kind = Kind::Silent);
}

/// The same tokenizer with a token for the blank, unless it has one, and that token.
///
/// # Errors
/// Where a class has no token: tokenizers would number those behind it, the blank among them, anew.
pub(super) fn with_blank(text: &str, pieces: &Pieces) -> Result<(Value, String), TokensError> {
    let no_json = |reason: String| TokensError::NoJson { reason };
    let list = pieces.list();
    if let Some(class) = list.iter().position(|piece| piece.text.is_empty()) {
        return Err(no_json(format!("its class {class} has no token")));
    }
    let blank = list.len();
    let mut file: Value = serde_json::from_str(text).map_err(|error| no_json(error.to_string()))?;
    let added = &mut file["added_tokens"];
    if added.is_null() {
        *added = json!([]);
    }
    let Some(added) = added.as_array_mut() else {
        return Err(no_json("its added_tokens are no list".to_owned()));
    };
    let there = added.iter().find(|token| token["id"] == blank);
    if let Some(content) = there.and_then(|token| token["content"].as_str()) {
        let content = content.to_owned();
        return Ok((file, content));
    }
    // A token of that name would keep its own number.
    let is_free = |name: &&&str| list.iter().all(|piece| piece.text != **name);
    let Some(name) = BLANKS.iter().find(is_free) else {
        return Err(no_json(format!("it has pieces of the names {}", BLANKS.join(", "))));
    };
    added.push(blank_token(blank, name));
    Ok((file, (*name).to_owned()))
}

/// An alphabet: one token a character, joined as they come, with the blank behind them, and its token.
pub(super) fn of_characters(characters: &Characters) -> (Value, String) {
    let name = BLANKS[0];
    let symbols = characters.symbols();
    let classes = symbols.iter().enumerate();
    let mut vocabulary: serde_json::Map<String, Value> =
        classes.map(|(class, symbol)| (symbol.to_string(), json!(class))).collect();
    vocabulary.insert(name.to_owned(), json!(symbols.len()));
    let file = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [blank_token(symbols.len(), name)],
        "normalizer": null,
        "pre_tokenizer": {
            "type": "Split",
            "pattern": { "Regex": ANY_CHARACTER },
            "behavior": "Isolated",
            "invert": false,
        },
        "post_processor": null,
        "decoder": { "type": "Fuse" },
        // No token has this name, so that an unknown character is an error.
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>" },
    });
    (file, name.to_owned())
}

fn blank_token(class: usize, name: &str) -> Value {
    json!({
        "id": class,
        "content": name,
        "single_word": false,
        "lstrip": false,
        "rstrip": false,
        "normalized": false,
        "special": true,
    })
}

/// A `tokenizer.json` of words that start with a mark: whitespace parts them, and nothing is normalised.
pub(super) fn write(model: Value) -> String {
    let metaspace = json!({
        "type": "Metaspace",
        "replacement": WORD_START,
        "prepend_scheme": "always",
        "split": true,
    });
    let file = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace],
        },
        "post_processor": null,
        "decoder": metaspace,
        "model": model,
    });
    let mut text = serde_json::to_string_pretty(&file).expect("a tokenizer is plain data");
    text.push('\n');
    text
}
