//! From classes back to text, as the tokenizer's file says. Classes that spell nothing are passed over.

use super::pieces::{Kind, Pieces, WORD_START, byte_of};

/// How pieces become text.
#[derive(Clone, Debug)]
pub(super) enum Spell {
    /// Hugging Face's decoders, one after another.
    Steps(Vec<Step>),
    /// SentencePiece's way.
    SentencePiece { strips_first: bool, strips_all: bool },
}

/// A decoder.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Metaspace { mark: char, strips_first: bool },
    Replace { from: String, to: String },
    ByteFallback,
    Fuse,
    Strip { symbol: char, start: usize, stop: usize },
}

impl Spell {
    /// The text of `classes`.
    pub(super) fn text(&self, pieces: &Pieces, classes: &[u32]) -> String {
        let known = classes.iter().filter_map(|class| pieces.get(*class));
        match self {
            Spell::Steps(steps) => {
                let texts = known.map(|piece| piece.text.clone()).collect();
                steps.iter().fold(texts, |texts, step| step.apply(texts)).concat()
            }
            Spell::SentencePiece { strips_first, strips_all } => {
                let mut text = String::new();
                let mut bytes = Vec::new();
                let mut strips = *strips_first;
                for piece in known {
                    if let Kind::Byte(byte) = piece.kind {
                        bytes.push(byte);
                        continue;
                    }
                    push_bytes(&mut text, &mut bytes);
                    let stripped =
                        piece.text.strip_prefix(WORD_START).filter(|_| strips && text.is_empty());
                    strips &= stripped.is_none() || *strips_all;
                    text.push_str(&stripped.unwrap_or(&piece.text).replace(WORD_START, " "));
                }
                push_bytes(&mut text, &mut bytes);
                text
            }
        }
    }
}

/// Each byte that is in no character becomes a replacement character.
fn push_bytes(text: &mut String, bytes: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    bytes.clear();
}

impl Step {
    fn apply(&self, texts: Vec<String>) -> Vec<String> {
        match self {
            Step::Metaspace { mark, strips_first } => {
                let with = |at: usize| if at == 0 && *strips_first { "" } else { " " };
                texts.iter().enumerate().map(|(at, text)| text.replace(*mark, with(at))).collect()
            }
            Step::Replace { from, to } => texts.iter().map(|text| text.replace(from, to)).collect(),
            Step::ByteFallback => byte_fallback(texts),
            Step::Fuse => vec![texts.concat()],
            Step::Strip { symbol, start, stop } => {
                texts.iter().map(|text| strip(text, *symbol, *start, *stop).to_owned()).collect()
            }
        }
    }
}

/// Runs of bytes become the text that they are, or as many replacement characters if they are none.
fn byte_fallback(texts: Vec<String>) -> Vec<String> {
    let mut joined = Vec::with_capacity(texts.len());
    let mut bytes = Vec::new();
    let end = |joined: &mut Vec<String>, bytes: &mut Vec<u8>| {
        let len = bytes.len();
        let text = String::from_utf8(std::mem::take(bytes));
        joined.push(text.unwrap_or_else(|_| "\u{fffd}".repeat(len)));
    };
    for text in texts {
        if let Some(byte) = byte_of(&text) {
            bytes.push(byte);
            continue;
        }
        end(&mut joined, &mut bytes);
        joined.push(text);
    }
    end(&mut joined, &mut bytes);
    joined
}

fn strip(mut text: &str, symbol: char, start: usize, stop: usize) -> &str {
    for _ in 0..start {
        text = text.strip_prefix(symbol).unwrap_or(text);
    }
    for _ in 0..stop {
        text = text.strip_suffix(symbol).unwrap_or(text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::pieces::Piece;
    use super::*;

    fn pieces() -> Pieces {
        let mut list: Vec<Piece> = (0..=255_u8)
            .map(|byte| Piece { text: format!("<0x{byte:02X}>"), kind: Kind::Byte(byte) })
            .collect();
        for text in ["\u{2581}", "\u{2581}a", "b"] {
            list.push(Piece { text: text.into(), kind: Kind::Normal });
        }
        list.push(Piece { text: "<unk>".into(), kind: Kind::Silent });
        Pieces::new(list, true)
    }

    #[test]
    fn sentencepiece_strips_marks_in_front_and_joins_bytes() {
        let pieces = pieces();
        let usual = Spell::SentencePiece { strips_first: true, strips_all: true };
        let once = Spell::SentencePiece { strips_first: true, strips_all: false };
        assert_eq!(usual.text(&pieces, &[256, 257, 258, 257]), "ab a");
        assert_eq!(once.text(&pieces, &[256, 257, 258, 257]), " ab a");
        assert_eq!(usual.text(&pieces, &[257, 0xc3, 0xa9, 258]), "a\u{e9}b");
        assert_eq!(
            usual.text(&pieces, &[257, 0xc3, 258, 0xff, 0xff]),
            "a\u{fffd}b\u{fffd}\u{fffd}"
        );
        assert_eq!(usual.text(&pieces, &[259, 257, 260, 999]), "a", "silent and absent classes");
    }

    #[test]
    fn the_steps_of_a_llama_decoder_give_the_text() {
        let steps = vec![
            Step::Replace { from: "\u{2581}".into(), to: " ".into() },
            Step::ByteFallback,
            Step::Fuse,
            Step::Strip { symbol: ' ', start: 1, stop: 0 },
        ];
        let text = Spell::Steps(steps).text(&pieces(), &[257, 0xc3, 0xa9, 257, 258, 0xc3]);
        assert_eq!(text, "a\u{e9} ab\u{fffd}");
        let metaspace = Step::Metaspace { mark: '\u{2581}', strips_first: true };
        assert_eq!(Spell::Steps(vec![metaspace]).text(&pieces(), &[257, 257, 258]), "a ab");
    }
}
