//! The output alphabet: one class a character of the training transcripts, and the CTC blank, which is
//! the last class (as in NVIDIA's Parakeet) and no character, so that no transcript can spell it.
//!
//! Saved as text, one symbol a line in the order of the classes. A character outside the alphabet is
//! never dropped silently: [`Tokens::encode`] lists it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// First line of the file; its number grows when the meaning changes.
const HEADER: &str = "asr-tokens 1";

/// A character alphabet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    symbols: Vec<char>,
    classes: HashMap<char, u32>,
}

/// Characters of one text that are not in the alphabet, each with its count.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("characters outside the alphabet: {}", self.list())]
pub struct UnknownCharacters {
    /// How often each occurs.
    pub counts: BTreeMap<char, usize>,
}

impl UnknownCharacters {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Adds the counts of another text.
    pub fn merge(&mut self, other: &UnknownCharacters) {
        for (symbol, count) in &other.counts {
            *self.counts.entry(*symbol).or_default() += count;
        }
    }

    /// `'q' (U+0071) 3 times, ...`, the most frequent first, at most ten.
    pub fn list(&self) -> String {
        let mut counts: Vec<_> = self.counts.iter().collect();
        counts.sort_by_key(|(symbol, count)| (std::cmp::Reverse(**count), **symbol));
        let shown: Vec<String> = counts
            .iter()
            .take(10)
            .map(|(symbol, count)| format!("{symbol:?} (U+{:04X}) {count}x", u32::from(**symbol)))
            .collect();
        let more = counts.len().saturating_sub(10);
        if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
    }
}

/// Why an alphabet cannot be made or read.
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
}

impl Tokens {
    /// The characters of `transcripts`, in the order of their code points.
    ///
    /// # Errors
    /// When there are none.
    pub fn from_transcripts<'a>(
        transcripts: impl IntoIterator<Item = &'a str>,
    ) -> Result<Tokens, TokensError> {
        // One by one: collecting would hold every character of every transcript for a moment.
        let mut symbols = BTreeSet::new();
        transcripts.into_iter().for_each(|text| symbols.extend(text.chars()));
        if symbols.is_empty() {
            return Err(TokensError::Empty);
        }
        Ok(Tokens::from_symbols(symbols.into_iter().collect()))
    }

    fn from_symbols(symbols: Vec<char>) -> Tokens {
        let classes =
            symbols.iter().enumerate().map(|(class, symbol)| (*symbol, class as u32)).collect();
        Tokens { symbols, classes }
    }

    /// The characters, in the order of their classes.
    pub fn symbols(&self) -> &[char] {
        &self.symbols
    }

    /// Classes of the model: the characters and the blank.
    pub fn num_classes(&self) -> usize {
        self.symbols.len() + 1
    }

    /// The class of the CTC blank.
    pub fn blank(&self) -> u32 {
        self.symbols.len() as u32
    }

    /// The classes that spell `text`.
    ///
    /// # Errors
    /// Lists the characters without a class.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, UnknownCharacters> {
        let (labels, unknown) = self.encode_known(text);
        if unknown.is_empty() { Ok(labels) } else { Err(unknown) }
    }

    /// The classes of the characters that have one, and the others with their counts.
    pub fn encode_known(&self, text: &str) -> (Vec<u32>, UnknownCharacters) {
        let mut unknown = UnknownCharacters::default();
        let mut labels = Vec::with_capacity(text.len());
        for symbol in text.chars() {
            match self.classes.get(&symbol) {
                Some(class) => labels.push(*class),
                None => *unknown.counts.entry(symbol).or_default() += 1,
            }
        }
        (labels, unknown)
    }

    /// The text that `labels` spell. Blanks and classes beyond the alphabet spell nothing.
    pub fn decode(&self, labels: &[u32]) -> String {
        labels.iter().filter_map(|label| self.symbols.get(*label as usize)).collect()
    }

    /// The content of a tokens file.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for symbol in &self.symbols {
            match symbol {
                ' ' => text.push_str("<space>"),
                c if c.is_whitespace() || c.is_control() => {
                    text.push_str(&format!("<U+{:04X}>", u32::from(*c)))
                }
                c => text.push(*c),
            }
            text.push('\n');
        }
        text
    }

    /// Reads a tokens file.
    ///
    /// # Errors
    /// Names the line that is wrong.
    pub fn load(path: &Path) -> Result<Tokens, TokensError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| TokensError::Read { path: path.into(), source })?;
        Tokens::parse(&text, path)
    }

    /// Reads the content of a tokens file; `path` is for messages.
    ///
    /// # Errors
    /// Names the line that is wrong.
    pub fn parse(text: &str, path: &Path) -> Result<Tokens, TokensError> {
        let fail = |line: usize, reason: String| {
            Err(TokensError::Line { path: path.into(), line, reason })
        };
        let mut lines = text.lines().enumerate();
        let header = lines.next().map_or("", |(_, line)| line);
        if header != HEADER {
            return fail(
                1,
                format!("expected {HEADER:?}, the head of a tokens file, and found {header:?}"),
            );
        }
        let mut symbols: Vec<char> = Vec::new();
        for (at, line) in lines {
            let Some(symbol) = parse_symbol(line) else {
                return fail(
                    at + 1,
                    format!("expected one character, <space> or <U+hex>, and found {line:?}"),
                );
            };
            if let Some(first) = symbols.iter().position(|known| *known == symbol) {
                return fail(at + 1, format!("{symbol:?} is also on line {}", first + 2));
            }
            symbols.push(symbol);
        }
        if symbols.is_empty() {
            return fail(1, "the file holds no symbols".into());
        }
        Ok(Tokens::from_symbols(symbols))
    }
}

fn parse_symbol(line: &str) -> Option<char> {
    let mut chars = line.chars();
    match (chars.next(), chars.next()) {
        (Some(symbol), None) if !symbol.is_whitespace() => Some(symbol),
        (Some('<'), Some(_)) if line == "<space>" => Some(' '),
        (Some('<'), Some(_)) => {
            let hex = line.strip_prefix("<U+")?.strip_suffix('>')?;
            char::from_u32(u32::from_str_radix(hex, 16).ok()?)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Tokens {
        Tokens::from_transcripts(["three seven", "oh nine's", "<U+\u{e9}>\u{a0}\t#"]).unwrap()
    }

    #[test]
    fn decoding_an_encoding_gives_the_text_back() {
        let tokens = tokens();
        for text in ["", "three", "seven oh nine's", "   ", "<>#\u{e9}\u{a0}\t"] {
            let labels = tokens.encode(text).unwrap();
            assert_eq!(tokens.decode(&labels), text);
            assert!(labels.iter().all(|label| *label < tokens.blank()), "no text spells the blank");
        }
        assert_eq!(tokens.num_classes(), tokens.symbols().len() + 1);
        assert_eq!(tokens.decode(&[tokens.blank(), 99_999]), "");
    }

    #[test]
    fn unknown_characters_are_listed_with_counts_and_the_rest_is_kept() {
        let error = tokens().encode("three zz top").unwrap_err();
        assert_eq!(error.counts, BTreeMap::from([('z', 2), ('p', 1)]));
        assert!(error.to_string().contains("'z' (U+007A) 2x, 'p' (U+0070) 1x"), "{error}");
        let (labels, _) = tokens().encode_known("three zz top");
        assert_eq!(tokens().decode(&labels), "three  to");
    }

    #[test]
    fn the_file_round_trips_and_does_not_depend_on_the_order_of_transcripts() {
        let tokens = tokens();
        assert_eq!(Tokens::parse(&tokens.to_text(), Path::new("t")).unwrap(), tokens);
        let crlf = tokens.to_text().replace('\n', "\r\n");
        assert_eq!(Tokens::parse(&crlf, Path::new("t")).unwrap(), tokens);
        let a = Tokens::from_transcripts(["ab", "cd"]).unwrap();
        assert_eq!(a, Tokens::from_transcripts(["dc", "ba"]).unwrap());
        assert!(matches!(Tokens::from_transcripts(["", ""]), Err(TokensError::Empty)));
    }

    #[test]
    fn a_broken_file_names_its_line() {
        for (text, want) in [
            ("", "tokens.txt:1:"),
            ("asr-tokens 9\na\n", "tokens.txt:1:"),
            ("asr-tokens 1\n", "tokens.txt:1:"),
            ("asr-tokens 1\na\nbc\n", "tokens.txt:3:"),
            ("asr-tokens 1\na\n\nb\n", "tokens.txt:3:"),
            ("asr-tokens 1\na\nb\na\n", "line 2"),
            ("asr-tokens 1\n<U+D800>\n", "tokens.txt:2:"),
        ] {
            let error = Tokens::parse(text, Path::new("tokens.txt")).unwrap_err().to_string();
            assert!(error.contains(want), "{text:?}: {error}");
        }
        assert!(matches!(Tokens::load(Path::new("/nonexistent/t")), Err(TokensError::Read { .. })));
    }
}
