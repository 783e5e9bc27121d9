//! SentencePiece's precompiled replacements: a double-array trie over bytes (Darts-clone) whose values
//! are places in a block of strings that end in NUL. It comes from a file, so every step is checked.

use unicode_segmentation::UnicodeSegmentation;

/// What becomes of which strings.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Charsmap {
    units: Vec<u32>,
    strings: String,
}

impl Charsmap {
    /// Reads the binary form: the trie's size in bytes, the trie, the strings.
    ///
    /// # Errors
    /// Says what is broken.
    pub(super) fn parse(bytes: &[u8]) -> Result<Charsmap, String> {
        let (size, rest) = bytes.split_first_chunk().ok_or("the normaliser is cut off")?;
        let size = u32::from_le_bytes(*size) as usize;
        if !size.is_multiple_of(4) || size == 0 || size > rest.len() {
            return Err(format!("the normaliser's trie has {size} bytes of {}", rest.len()));
        }
        let (trie, strings) = rest.split_at(size);
        let units = trie.as_chunks::<4>().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        let strings = std::str::from_utf8(strings)
            .map_err(|error| format!("the normaliser's strings are not UTF-8: {error}"))?;
        Ok(Charsmap { units, strings: strings.to_owned() })
    }

    /// The strings that `text` starts with, the shortest first: length and replacement.
    fn prefixes<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        let offset = |unit: u32| ((unit >> 10) << ((unit & (1 << 9)) >> 6)) as usize;
        let mut at = self.units.first().map_or(0, |root| offset(*root));
        let steps = text.bytes().enumerate().map_while(move |(index, byte)| {
            at ^= usize::from(byte);
            let unit = *self.units.get(at)?;
            if byte == 0 || unit & (1 << 31 | 0xff) != u32::from(byte) {
                return None;
            }
            at ^= offset(unit);
            let has_value = unit >> 8 & 1 == 1;
            let value = self.units.get(at).filter(|_| has_value);
            Some((index + 1, value.map(|value| (value & !(1 << 31)) as usize)))
        });
        steps.filter_map(|(len, place)| {
            let rest = self.strings.get(place?..)?;
            Some((len, rest.split('\0').next().unwrap_or("")))
        })
    }

    /// The longest of the strings that `text` starts with: length and replacement.
    pub(super) fn longest<'a>(&'a self, text: &'a str) -> Option<(usize, &'a str)> {
        // A trie may hold anything: a length within a character would split it.
        self.prefixes(text).filter(|(len, _)| text.is_char_boundary(*len)).last()
    }

    /// As Hugging Face's `Precompiled` replaces: short graphemes, else characters, by the shortest string
    /// that they start with.
    pub(super) fn replace_graphemes(&self, text: &str) -> String {
        let mut replaced = String::with_capacity(text.len());
        let replacement = |part: &str| self.prefixes(part).next().map(|(_, with)| with.to_owned());
        for grapheme in text.graphemes(true) {
            if let Some(with) = (grapheme.len() < 6).then(|| replacement(grapheme)).flatten() {
                replaced.push_str(&with);
                continue;
            }
            for symbol in grapheme.chars() {
                match replacement(symbol.encode_utf8(&mut [0; 4])) {
                    Some(with) => replaced.push_str(&with),
                    None => replaced.push(symbol),
                }
            }
        }
        replaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_are_refused_or_harmless() {
        use rand::{Rng, SeedableRng};
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        for _ in 0..2_000 {
            let len = rng.random_range(0..64_u32);
            let mut bytes = (4 * len).to_le_bytes().to_vec();
            bytes.extend((0..4 * len).map(|_| rng.random::<u8>()));
            bytes.extend(b"abc\0d\0");
            bytes.truncate(rng.random_range(0..=bytes.len()));
            let Ok(charsmap) = Charsmap::parse(&bytes) else { continue };
            for text in ["abc", "\u{e9}\u{301}", "\u{0}", "", "\u{1f600}"] {
                charsmap.longest(text);
                charsmap.replace_graphemes(text);
            }
        }
        assert!(Charsmap::parse(&[]).is_err());
        assert!(Charsmap::parse(&[8, 0, 0, 0, 1, 2, 3, 4]).is_err());
    }
}
