//! The classes of a subword vocabulary: what each spells, and whether any text may be spelt with it.

use std::collections::HashMap;

/// The mark of a word's start in pieces, as SentencePiece introduced it.
pub(super) const WORD_START: char = '\u{2581}';

/// What a class stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A part of a word.
    Normal,
    /// A part that is never broken up.
    UserDefined,
    /// One byte of a character without a piece.
    Byte(u8),
    /// Unknown, control, padding or unused: no text is spelt with it, and it spells nothing.
    Silent,
}

/// One class.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) kind: Kind,
}

/// The classes in their order, the blank apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces {
    list: Vec<Piece>,
    by_text: HashMap<String, u32>,
    /// The pieces of the 256 bytes, if there are all of them.
    bytes: Option<Box<[u32; 256]>>,
}

impl Pieces {
    /// Takes the pieces over; of two with one text the first is found.
    pub(super) fn new(list: Vec<Piece>, byte_fallback: bool) -> Pieces {
        let mut by_text = HashMap::new();
        let mut bytes = [None; 256];
        for (class, piece) in list.iter().enumerate() {
            match piece.kind {
                Kind::Normal | Kind::UserDefined => {
                    by_text.entry(piece.text.clone()).or_insert(class as u32);
                }
                Kind::Byte(byte) => bytes[usize::from(byte)] = Some(class as u32),
                Kind::Silent => {}
            }
        }
        let mut all = Box::new([0; 256]);
        let is_whole = all.iter_mut().zip(bytes).all(|(class, found)| {
            *class = found.unwrap_or(0);
            found.is_some()
        });
        Pieces { list, by_text, bytes: (byte_fallback && is_whole).then_some(all) }
    }

    pub(super) fn list(&self) -> &[Piece] {
        &self.list
    }

    /// The class of a piece that may spell text.
    pub(super) fn class(&self, text: &str) -> Option<u32> {
        self.by_text.get(text).copied()
    }

    /// The classes of the bytes of `text`, where bytes stand in for unknown characters.
    pub(super) fn bytes(&self, text: &str) -> Option<impl Iterator<Item = u32>> {
        let bytes = self.bytes.as_ref()?;
        Some(text.bytes().map(|byte| bytes[usize::from(byte)]))
    }

    /// What a class spells by itself, if it is one and spells anything.
    pub(super) fn get(&self, class: u32) -> Option<&Piece> {
        self.list.get(class as usize).filter(|piece| piece.kind != Kind::Silent)
    }
}

/// `<0x0A>` as the byte that it stands for.
pub(super) fn byte_of(text: &str) -> Option<u8> {
    let hex = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() == 2 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        u8::from_str_radix(hex, 16).ok()
    } else {
        None
    }
}

/// A part of a text and the class that spells it, if one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) class: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_by_their_spelling() {
        assert_eq!(byte_of("<0x0A>"), Some(10));
        assert_eq!(byte_of("<0xff>"), Some(255));
        for text in ["<0x0>", "<0x+1>", "<0x1FF>", "0x0A", "<0xGG>", "", "<0x>"] {
            assert_eq!(byte_of(text), None, "{text}");
        }
    }

    #[test]
    fn bytes_stand_in_only_if_all_are_there() {
        let byte = |byte| Piece { text: format!("<0x{byte:02X}>"), kind: Kind::Byte(byte) };
        let whole: Vec<Piece> = (0..=255).map(byte).collect();
        let pieces = Pieces::new(whole.clone(), true);
        assert_eq!(pieces.bytes("\u{e9}").unwrap().collect::<Vec<_>>(), [0xc3, 0xa9]);
        assert!(Pieces::new(whole[1..].to_vec(), true).bytes("a").is_none());
        assert!(Pieces::new(whole, false).bytes("a").is_none());
    }
}
